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
# The labels of the Encoding Standard, by the codec that browsers mean. Python's own names are more than the web's:
# some of its codecs decode no text, some take a time that grows with the square of the page.
_LABELS = {
    "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "cp1250": "cp1250 windows-1250 x-cp1250",
    "cp1251": "cp1251 windows-1251 x-cp1251",
    "cp1252": (
        "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 "
        "iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252"
    ),
    "cp1253": "cp1253 windows-1253 x-cp1253",
    "cp1254": (
        "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 "
        "windows-1254 x-cp1254"
    ),
    "cp1255": "cp1255 windows-1255 x-cp1255",
    "cp1256": "cp1256 windows-1256 x-cp1256",
    "cp1257": "cp1257 windows-1257 x-cp1257",
    "cp1258": "cp1258 windows-1258 x-cp1258",
    "cp866": "866 cp866 csibm866 ibm866",
    "cp874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
    "cp932": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
    "cp949": (
        "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949"
    ),
    "euc_jp": "cseucpkdfmtjapanese euc-jp x-euc-jp",
    "gb18030": "chinese csgb2312 csiso58gb231280 gb18030 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk",
    "iso8859-10": "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso8859-13": "iso-8859-13 iso8859-13 iso885913",
    "iso8859-14": "iso-8859-14 iso8859-14 iso885914",
    "iso8859-15": "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9",
    "iso8859-16": "iso-8859-16",
    "iso8859-2": "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    "iso8859-3": "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
    "iso8859-4": "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
    "iso8859-5": "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988",
    "iso8859-6": (
        "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e "
        "iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987"
    ),
    "iso8859-7": (
        "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 "
        "iso_8859-7 iso_8859-7:1987 sun_eu_greek"
    ),
    "iso8859-8": (
        "csiso88598e csiso88598i csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-8859-8-i iso-ir-138 "
        "iso8859-8 iso88598 iso_8859-8 iso_8859-8:1988 logical visual"
    ),
    "koi8-r": "cskoi8r koi koi8 koi8-r koi8_r",
    "koi8-u": "koi8-ru koi8-u",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "mac-roman": "csmacintosh mac macintosh x-mac-roman",
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
}
_CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}
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
    """Return the Python codec that the header or the meta element names, None for none that browsers know and fits."""
    in_meta = _META_CHARSET.search(html[:_META_BYTES].lower())
    in_header = _HEADER_CHARSET.search(content_type)
    for name in (in_header and in_header[1], in_meta and in_meta[1].decode("ascii")):
        if name and (codec := _CODECS.get(name.lower())):
            return codec
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
