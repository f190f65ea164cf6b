"""Transfer, content and character encodings."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from tests.crawl_archives import CONTENT_ENCODINGS, chunked
from treesim_dask.crawl.bodies import BodyTooLong, join_chunks, undo_content_encoding, undo_transfer_encoding
from treesim_dask.crawl.charset import to_parser_bytes, to_utf8

HTML = "<html><body><p class='ä'>Grüße, 世界</p></body></html>"


@given(st.binary(), st.integers(1, 100))
def test_chunks_join_to_the_body(body: bytes, n_bytes: int) -> None:
    assert join_chunks(chunked(body, n_bytes), len(body)) == body


@given(st.binary(min_size=1), st.integers(1, 100))
def test_chunks_that_join_to_too_much(body: bytes, n_bytes: int) -> None:
    with pytest.raises(BodyTooLong):
        join_chunks(chunked(body, n_bytes), len(body) - 1)


@given(st.binary(min_size=1), st.sampled_from(sorted(CONTENT_ENCODINGS)))
def test_encodings_are_undone(body: bytes, encoding: str) -> None:
    assert undo_content_encoding(CONTENT_ENCODINGS[encoding](body), encoding, 10**6) == body


@given(st.binary(), st.sampled_from([*sorted(CONTENT_ENCODINGS), "x-gzip", "identity", "nonsense", "gzip, br"]))
def test_any_bytes_under_any_header(body: bytes, encoding: str) -> None:
    assert len(undo_content_encoding(undo_transfer_encoding(body, "chunked", 10**7), encoding, 10**7)) <= 10**7


@pytest.mark.parametrize("undo", [undo_transfer_encoding, undo_content_encoding])
@pytest.mark.parametrize("name", ["chunked", "gzip", "br"])
def test_only_so_many_encodings_are_undone(undo: Callable[[bytes, str, int], bytes], name: str) -> None:
    body, wrap = b"<p>", chunked if name == "chunked" else CONTENT_ENCODINGS[name]
    wrapped = [body]
    for _ in range(20):
        wrapped.append(wrap(wrapped[-1]))
    is_undone = name != "chunked" or undo is undo_transfer_encoding
    assert undo(wrapped[3], ",".join([name] * 3), 10**6) == wrapped[0 if is_undone else 3]
    for field in (",".join([name] * 20), "identity, " * 50 + ",".join([name] * 20)):
        assert wrapped.index(undo(wrapped[20], field, 10**6)) == (12 if is_undone else 20)


@given(st.lists(st.binary(), min_size=1, max_size=4), st.sampled_from([b"", b"rest", bytes(40_000)]))
def test_a_gzip_body_of_several_members(bodies: list[bytes], rest: bytes) -> None:
    stored = b"".join(CONTENT_ENCODINGS["gzip"](body) for body in bodies) + rest
    assert undo_content_encoding(stored, "gzip", 10**6) == (b"".join(bodies) or stored)


@pytest.mark.parametrize("encoding", [name for name in CONTENT_ENCODINGS if name])
def test_a_bomb_does_not_go_off(encoding: str) -> None:
    bomb = CONTENT_ENCODINGS[encoding](bytes(20 * 2**20))
    with pytest.raises(BodyTooLong):
        undo_content_encoding(bomb, encoding, 2**20)


@pytest.mark.parametrize(
    ("codec", "content_type"),
    [
        ("utf-16", ""),
        ("utf-32", ""),
        ("utf-16-le", ""),
        ("utf-16-be", ""),
        ("utf-32-le", ""),
        ("utf-32-be", ""),
        ("utf-16-be", "text/html; charset=UTF-16BE"),
        ("utf-16-le", "text/html; charset=utf-16"),
        ("utf-16", "text/html; charset=utf-8"),
        ("utf-7", "text/html; charset=utf-7"),
        ("cp037", "text/html; charset=ibm037"),
    ],
)
def test_encodings_that_write_ascii_otherwise_become_utf8(codec: str, content_type: str) -> None:
    html = HTML if codec != "cp037" else "<html><body><p>Grüße</p></body></html>"
    assert to_parser_bytes(html.encode(codec), content_type) == html.encode()


def test_japanese_in_seven_bits_is_decoded_by_its_meta_element() -> None:
    html = '<meta charset="iso-2022-jp"><p>世界</p>'
    assert to_parser_bytes(html.encode("iso2022_jp")) == html.encode()


@pytest.mark.parametrize("codec", ["utf-8", "latin-1", "shift_jis", "gbk", "euc-kr", "koi8-r"])
def test_ascii_compatible_bytes_pass_as_they_are(codec: str) -> None:
    body = f"<meta charset={codec}><p>".encode() + bytes(range(0x80, 0x100))
    assert to_parser_bytes(body, f"text/html; charset={codec}") is body


@pytest.mark.parametrize("content_type", ["", "text/html; charset=utf-8"])
def test_a_page_with_a_byte_order_mark_is_the_page_without(content_type: str) -> None:
    page = b"<!DOCTYPE html><html lang=en><head><title>t</title></head><body><p>one</body></html>"
    marked = to_parser_bytes(b"\xef\xbb\xbf" + page, content_type)
    assert LexborHTMLParser(marked).html == LexborHTMLParser(page).html


@pytest.mark.parametrize("content_type", ["text/html; charset=utf-16", "text/html; charset=ucs-2"])
def test_a_declaration_the_bytes_contradict_does_not_count(content_type: str) -> None:
    for body in (b"<meta charset=utf-16><p>plain", b"<meta charset=utf-16><p>one stray \x00 byte" + b" text" * 20):
        assert to_parser_bytes(body, content_type) is body
        assert to_parser_bytes(body) is body


def test_a_declared_wide_encoding_counts_when_the_page_begins_with_text() -> None:
    html = "世界 <p class='x'>Grüße</p> <p>世界</p>"
    assert to_parser_bytes(html.encode("utf-16-le"), "text/html; charset=utf-16") == html.encode()


@given(
    st.binary(max_size=200), st.sampled_from(["", "text/html; charset=utf-16", "text/html; charset=hz", "x; charset="])
)
def test_any_bytes_give_some_bytes(body: bytes, content_type: str) -> None:
    assert isinstance(to_parser_bytes(body, content_type), bytes)


# What `webencodings`, made from the Encoding Standard, calls otherwise than Python, and what browsers do not decode.
_PYTHON_NAMES = {"x-user-defined": None, "replacement": None, "iso-8859-8-i": "iso-8859-8", "windows-874": "cp874",
                 "x-mac-cyrillic": "mac-cyrillic", "macintosh": "mac-roman", "gbk": "gb18030", "big5": "big5hkscs",
                 "euc-kr": "cp949", "shift_jis": "cp932"}  # fmt: skip


def test_every_label_of_the_encoding_standard_is_known() -> None:
    labels = pytest.importorskip("webencodings.labels").LABELS
    for label, name in labels.items():
        codec = _PYTHON_NAMES.get(name, name)
        if codec is None or codec.startswith(("utf-16", "iso-2022")):  # not ASCII, or not text
            continue
        # two bytes that are a letter in most encodings and tell them from each other
        body = f"<meta charset={label.upper()}><p>".encode() + b"\xb3\xe6\xc1\xee"
        assert to_utf8(body) == body.decode(codec, "replace").encode(), label
        assert to_utf8(body, f"text/html; charset={label}") == body.decode(codec, "replace").encode(), label


@pytest.mark.parametrize(
    "name",
    [
        "undefined",
        "idna",
        "punycode",
        "unicode_escape",
        "raw_unicode_escape",
        "rot13",
        "base64",
        "mbcs",
        "oem",
        "utf_8_sig",
    ],
)
@pytest.mark.parametrize("body", [b"<p>a\xe9 \\x41 -", "<p>\u00e9".encode()])
def test_codecs_that_browsers_do_not_know_do_not_count(name: str, body: bytes) -> None:
    page = f"<meta charset={name}>".encode() + body
    assert to_utf8(page) == to_utf8(page, f"text/html; charset={name}") == page.replace(b"\xe9 ", b"\xc3\xa9 ")
