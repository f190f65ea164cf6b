"""Bytes of a page to bytes an HTML parser reads.

Tags are ASCII. In an ASCII-compatible encoding (UTF-8, the ISO 8859 and Windows families, GBK, EUC, Shift_JIS and so
on) they are found whatever the encoding, so the bytes go on as they are. Only encodings that write ASCII otherwise
are decoded, with the first of byte order mark, HTTP header and meta element that tells, and encoded as UTF-8.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

Decoder = Callable[[bytes, str], bytes]  # body and Content-Type to bytes for the parser

_UTF8_BOM = b"\xef\xbb\xbf"
_BOMS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
# Encodings in which the bytes of "<p>" may mean something else, or something else mean "<p>".
_NOT_ASCII = {
    "utf-16": "utf-16-le",  # without a byte order mark the web means little-endian
    "utf16": "utf-16-le",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
    "ucs-2": "utf-16-le",
    "iso-10646-ucs-2": "utf-16-le",
    "unicode": "utf-16-le",
    "utf-32": "utf-32-le",
    "utf32": "utf-32-le",
    "utf-32le": "utf-32-le",
    "utf-32be": "utf-32-be",
    "ucs-4": "utf-32-le",
    "utf-7": "utf-7",
    "hz": "hz",
    "hz-gb-2312": "hz",
    "iso-2022-jp": "iso2022_jp",
    "iso-2022-kr": "iso2022_kr",
    "csiso2022jp": "iso2022_jp",
    "csiso2022kr": "iso2022_kr",
    "ibm037": "cp037",
    "cp037": "cp037",
    "ibm500": "cp500",
    "cp500": "cp500",
    "cp1140": "cp1140",
    "ibm01140": "cp1140",
}
# What browsers read under names of narrower encodings.
_WIDER = {"ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "gb2312": "gb18030", "gbk": "gb18030",
          "shift_jis": "cp932", "euc_kr": "cp949", "iso8859-11": "cp874", "tis-620": "cp874"}  # fmt: skip
_HEADER_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]+)", re.IGNORECASE)
# for lower-case bytes: a pattern that ignores case is tried at every byte, this one is looked for by its first letters
_META_CHARSET = re.compile(rb"<meta[^>]{0,512}?charset\s*=\s*[\"']?\s*([a-z0-9_.:-]+)")
_META_BYTES = 2048
_FEW_NULS = 10  # in UTF-16 tags alone make every tenth byte a NUL; in other text a stray one may occur
_WIDE_ANGLE = {  # how a page without any mark begins: "<" with white space before it, one letter behind
    "utf-16-le": re.compile(rb"(?:[\t\n\r ]\x00)*<\x00[!?A-Za-z]\x00"),
    "utf-16-be": re.compile(rb"(?:\x00[\t\n\r ])*\x00<\x00[!?A-Za-z]"),
    "utf-32-le": re.compile(rb"(?:[\t\n\r ]\x00{3})*<\x00{3}[!?A-Za-z]\x00{3}"),
    "utf-32-be": re.compile(rb"(?:\x00{3}[\t\n\r ])*\x00{3}<\x00{3}[!?A-Za-z]"),
}

_WIDE_STARTS = (b"\xff", b"\xfe", b"\x00")  # how a byte order mark or a big-endian character of ASCII begins


def to_parser_bytes(html: bytes, content_type: str = "") -> bytes:
    """Return bytes in which tags are ASCII.

    Parameters
    ----------
    html
        The decoded body of a page.
    content_type
        The HTTP header field, which may name a charset.

    Examples
    --------
    >>> to_parser_bytes("<p>é".encode("utf-16"))
    b'<p>\\xc3\\xa9'
    >>> to_parser_bytes("<p>é".encode("latin-1"), "text/html; charset=iso-8859-1")
    b'<p>\\xe9'
    """
    encoding = find_encoding(html, content_type)
    if encoding is None:
        return html.removeprefix(_UTF8_BOM)  # a parser given bytes takes it for text, and the doctype comes too late
    return html.decode(encoding, "replace").removeprefix("\ufeff").encode("utf-8", "replace")


def to_utf8(html: bytes, content_type: str = "") -> bytes:
    """Return a page in UTF-8, for those who read its text: in the encoding that a browser would take it for.

    The first of byte order mark, HTTP header and meta element tells; a page that says nothing is UTF-8 if it can be,
    and Windows-1252 if not.

    Examples
    --------
    >>> to_utf8("<p>é".encode("latin-1")).decode(), to_utf8("<meta charset=koi8-r>ж".encode("koi8-r")).decode()
    ('<p>é', '<meta charset=koi8-r>ж')
    """
    if html.startswith(codecs.BOM_UTF8):
        return html.removeprefix(codecs.BOM_UTF8)
    encoding = find_encoding(html, content_type) or _declared_codec(html, content_type)
    if encoding is None:
        encoding = "utf-8" if _is_utf8(html) else "cp1252"
    return html.decode(encoding, "replace").removeprefix("\ufeff").encode("utf-8", "replace")


def _is_utf8(html: bytes) -> bool:
    try:
        html.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _declared_codec(html: bytes, content_type: str) -> str | None:
    """Return the Python codec that the header or the meta element names, None for none that is known and fits."""
    in_meta = _META_CHARSET.search(html[:_META_BYTES].lower())
    in_header = _HEADER_CHARSET.search(content_type)
    for name in (in_header and in_header[1], in_meta and in_meta[1].decode("ascii")):
        if name and name.lower() not in _NOT_ASCII:
            try:
                codec = codecs.lookup(name)
            except LookupError:
                continue
            if getattr(codec, "_is_text_encoding", True):
                return _WIDER.get(codec.name, codec.name)
    return None


def find_encoding(html: bytes, content_type: str = "") -> str | None:
    """Return the Python codec of a page whose encoding is not ASCII-compatible, None for all others.

    A declaration that the bytes contradict does not count: "utf-16" on a page that begins with a plain ``<`` is
    a mistake that browsers ignore too.
    """
    head = html[:_META_BYTES]
    if html.startswith(_WIDE_STARTS) or head[1:2] == b"\x00":
        for bom, codec in _BOMS:
            if html.startswith(bom):
                return codec
        for codec, pattern in _WIDE_ANGLE.items():
            if pattern.match(head):
                return codec
    declared = _HEADER_CHARSET.search(content_type)
    if declared:
        named = _NOT_ASCII.get(declared[1].lower())
        return named if not _is_wide(named) or head.count(0) * _FEW_NULS > len(head) else None
    in_meta = _META_CHARSET.search(head.lower())
    named = _NOT_ASCII.get(in_meta[1].decode("ascii")) if in_meta else None
    return None if _is_wide(named) else named  # a meta element that can be read as ASCII is not written in UTF-16


def _is_wide(codec: str | None) -> bool:
    return codec is not None and codec.startswith(("utf-16", "utf-32"))
