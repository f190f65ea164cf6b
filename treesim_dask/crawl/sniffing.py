"""What the first bytes of something say it is."""

from __future__ import annotations

import re

GZIP_MAGIC = b"\x1f\x8b\x08"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_DICTIONARY_MAGIC = b"\x5d\x2a\x4d\x18"  # the skippable frame that opens a .warc.zst with a dictionary

# A header line begins a WARC record. Versions 0.17, 0.18, 1.0 and 1.1 are in use.
_WARC_LINE = rb"WARC/\d\.\d{1,2}[ \t]*\r{0,2}\n"
# An ARC header line: URL, IP address, 14-digit date, content type, length. Spaces in URLs do occur.
_ARC_LINE = (
    rb"[a-zA-Z][a-zA-Z0-9+.-]{1,15}:[^\r\n]{1,4096} (?:[0-9a-fA-F.:]{3,45}|-) (?:\d{8,17}|-)"
    rb" \S{1,128} \d{1,15}[ \t]*\r?\n"
)

RECORD_START = re.compile(rb"(?:" + _WARC_LINE + rb"|" + _ARC_LINE + rb")")
# Where a WARC record begins in the middle of things: the line before may be damaged, so that a header field on the
# next line counts as proof, not a line end before.
RECORD_START_INSIDE = re.compile(_WARC_LINE + rb"(?=[A-Za-z][A-Za-z-]*:)|(?<=\n)" + _ARC_LINE)
MAX_START_LINE = 4400

_LEADING_NOISE = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s+|<!--.*?-->|<\?.*?\?>)*", re.DOTALL)
_HTML_TAG = re.compile(
    rb"<(?:!doctype\s+(?:html|x?html?\d*)\b|(?:html|head|body|title|meta|link|script|style|table|div|p|h1|br|a|b"
    rb"|font|iframe|ul|ol|span|center|frameset|base|form|section|article|main|nav|header|footer)[\s>/])",
    re.IGNORECASE,
)
_FOREIGN_MAGICS = {
    b"PK\x03\x04": "zip or WACZ",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"\x04\x22\x4d\x18": "lz4",
    b"%PDF-": "PDF",
    b"PAR1": "Parquet",
}
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_TEXT_CONTROLS = bytes({*range(0x20)} - {0x09, 0x0A, 0x0C, 0x0D, 0x1B})


def looks_like_html(head: bytes) -> bool:
    """Say whether bytes begin as an HTML page does: after white space and comments comes a tag that HTML has.

    Examples
    --------
    >>> looks_like_html(b"<!-- hi --> <!DOCTYPE html><title>x</title>"), looks_like_html(b'{"a": "<p>"}')
    (True, False)
    """
    if head.startswith(_WIDE_BOMS):
        head = head.replace(b"\x00", b"")[2:]
    noise = _LEADING_NOISE.match(head)
    return _HTML_TAG.match(head, noise.end() if noise else 0) is not None


def looks_binary(head: bytes) -> bool:
    """Say whether bytes hold control characters that no text in an ASCII-compatible encoding has.

    Examples
    --------
    >>> looks_binary(b"%PDF\\x00\\x01"), looks_binary("é\\n".encode())
    (True, False)
    """
    return not head.startswith(_WIDE_BOMS) and len(head.translate(None, _TEXT_CONTROLS)) != len(head)


def begins_record(head: bytes) -> bool:
    """Say whether bytes begin with a WARC or ARC header line.

    Examples
    --------
    >>> begins_record(b"WARC/1.1\\r\\nWARC-Type: response"), begins_record(b"<html>")
    (True, False)
    """
    return RECORD_START.match(head) is not None


def begins_archive(head: bytes) -> bool:
    """Say whether bytes begin as an archive does: compressed, or with a header line.

    Examples
    --------
    >>> begins_archive(GZIP_MAGIC), begins_archive(b"WARC/1.1\\r\\n"), begins_archive(b"<html>")
    (True, True, False)
    """
    return head.startswith((GZIP_MAGIC, ZSTD_MAGIC, ZSTD_DICTIONARY_MAGIC)) or begins_record(head)


def name_foreign_format(head: bytes) -> str | None:
    """Name the kind of file that is often taken for an archive and is none, None for everything else.

    Examples
    --------
    >>> name_foreign_format(b"PK\\x03\\x04..."), name_foreign_format(b"WARC/1.0")
    ('zip or WACZ', None)
    """
    return next((name for magic, name in _FOREIGN_MAGICS.items() if head.startswith(magic)), None)
