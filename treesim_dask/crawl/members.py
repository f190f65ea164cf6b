"""Compressed files as decoded bytes, one gzip member or zstd frame after the other.

Archives are written with a member per WARC record, so that a record can be read by itself. Members are therefore
never run together: a reader sees the end of each, knows where it lies in the file, and after damage can go on at
the next. An uncompressed file is one member that spans the file.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from typing import Protocol

import zstandard

from treesim_dask.crawl.gunzip import LEAST_MEMBER_BYTES
from treesim_dask.crawl.sniffing import (
    GZIP_MAGIC,
    MAX_START_LINE,
    RECORD_START_INSIDE,
    ZSTD_DICTIONARY_MAGIC,
    ZSTD_MAGIC,
    begins_record,
)
from treesim_dask.crawl.streams import CHUNK_BYTES, ByteStream, stream_bytes

_GZIP_OUTPUT_BYTES = 2**20
_WHOLE_BYTES = 2**22  # decoded bytes up to which a member is worth having in one piece
_TRIAL_STEP_BYTES = 2**10
_MAX_DICTIONARY_BYTES = 2**24
_NEWLINES = re.compile(rb"[\r\n]*")
_EMPTY_LINE = re.compile(rb"\n\r{0,2}\n")


class DamagedMember(Exception):
    """A member that does not decode. ``at_end_of_file``: the file stops inside it."""

    def __init__(self, at_end_of_file: bool) -> None:
        super().__init__("damaged member")
        self.at_end_of_file = at_end_of_file


class Decoder(Protocol):
    """Decodes one member."""

    ended: bool
    input_bytes: int  # how many bytes to give it at once, at most
    trial_bytes: int  # within so many bytes of a file a member of WARC records gives its first header line

    def decode(self, data: memoryview) -> tuple[bytes, int]:
        """Return decoded bytes and how many bytes of `data` they took. Raises `DamagedMember`."""
        ...


class PlainDecoder:
    """Takes bytes as they are."""

    ended = False
    input_bytes = CHUNK_BYTES
    trial_bytes = 0

    def decode(self, data: memoryview) -> tuple[bytes, int]:
        """Copy."""
        return bytes(data), len(data)


class GzipDecoder:
    """Decodes one gzip member and checks its checksum."""

    input_bytes = CHUNK_BYTES
    trial_bytes = 2**13

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self.ended = False

    def decode(self, data: memoryview) -> tuple[bytes, int]:
        """Decode up to a megabyte."""
        try:
            decoded = self._zlib.decompress(data, _GZIP_OUTPUT_BYTES)
        except zlib.error as error:
            raise DamagedMember(at_end_of_file=False) from error
        self.ended = self._zlib.eof
        # at the end of a member zlib may repeat the unused bytes as an unconsumed tail
        n_left = len(self._zlib.unused_data if self.ended else self._zlib.unconsumed_tail)
        return decoded, len(data) - n_left


class ZstdDecoder:
    """Decodes one zstd frame."""

    input_bytes = 2**11  # zstd has no output limit: 2 KiB decode to 64 MiB at the very most
    trial_bytes = 2**18  # it decodes block by block, and a block has up to 2**17 bytes

    def __init__(self, dictionary: zstandard.ZstdCompressionDict | None = None) -> None:
        self._zstd = zstandard.ZstdDecompressor(dict_data=dictionary).decompressobj()
        self.ended = False

    def decode(self, data: memoryview) -> tuple[bytes, int]:
        """Decode all."""
        try:
            decoded = self._zstd.decompress(data)
        except zstandard.ZstdError as error:
            raise DamagedMember(at_end_of_file=False) from error
        self.ended = self._zstd.eof
        return decoded, len(data) - len(self._zstd.unused_data)


class MemberStream:
    """The decoded bytes of a file, member by member.

    Positions count decoded bytes from the beginning of the file. Bytes between `hold` and the position stay at
    hand; everything before may be forgotten, so that memory does not grow with the file.
    """

    def __init__(
        self,
        raw: ByteStream,
        magics: tuple[bytes, ...],
        make_decoder: Callable[[], Decoder],
    ) -> None:
        self.raw = raw
        self.member_offset = 0  # where the member lies in the file
        self.member_position = 0  # where it begins in the decoded bytes
        self._last_position: int | None = None  # where it ends, once that was seen
        self._magics = magics
        self._make_decoder = make_decoder
        self._decoder: Decoder | None = None
        self._buffer = bytearray()
        self._base = 0 if magics else raw.position  # position of the first byte of the buffer
        self._cursor = 0

    @property
    def is_compressed(self) -> bool:
        """Whether members have to be decoded."""
        return bool(self._magics)

    @property
    def position(self) -> int:
        """Where the next byte lies in the decoded bytes."""
        return self._base + self._cursor

    @property
    def member_end(self) -> int:
        """Where the bytes taken from the file so far end: the end of the member, once it is read."""
        return self.raw.position

    def open_member(self) -> bool:
        """Begin the member at the position in the file; False at the end of the file."""
        head = self.raw.peek_head(8)
        if not head:
            return False
        self._start_member(self._make_decoder())
        if self._magics and not head.startswith(self._magics):
            raise DamagedMember(at_end_of_file=False)
        return True

    def open_whole(self, unpack: Callable[[memoryview], bytes | None] | None = None) -> bytes | None:
        """Begin the next member and return all of its bytes, or leave everything to the other methods.

        None means: the member before has bytes left, or there is no other, or it is long or damaged. A damaged one is
        begun again, piece by piece. `unpack` is asked first.
        """
        if not self.is_used_up():  # before anything else: asked for each record of a member that has many
            return None
        view = self._peek_member(CHUNK_BYTES)
        if not bytes(view[:4]).startswith(self._magics):
            return None
        if unpack is not None and (member := unpack(view)) is not None:
            self._start_member(None)
            self.raw.advance(len(view))
            self._base += len(member)
            return member
        decoder = self._make_decoder()
        self._start_member(decoder)
        try:
            member, n_taken = decoder.decode(view[: decoder.input_bytes])
            self.raw.advance(n_taken)
            if not decoder.ended:
                member = self._decode_more(decoder, member)
        except DamagedMember:
            self.raw.seek(self.member_offset)
            self._decoder = self._make_decoder()
            return None
        if not decoder.ended:
            self._buffer += member
            return None
        self._base += len(member)
        return member

    def _decode_more(self, decoder: Decoder, member: bytes) -> bytes:
        """Return the whole member that begins as given, or as much of it as is worth having in one piece."""
        pieces = [member]
        n_decoded = len(member)
        while not decoder.ended and n_decoded < _WHOLE_BYTES:
            pieces.append(self._decode(decoder))
            n_decoded += len(pieces[-1])
        return b"".join(pieces)

    def put_back(self, member: bytes) -> None:
        """Give the bytes that `open_whole` returned to the other methods."""
        self._base -= len(member)
        self._buffer += member

    def find_member(self, offset: int) -> bool:
        """Begin the next member at or behind `offset` of the file that decodes to a WARC record."""
        if not self._magics:
            return False
        while (found := self._find_magic(offset)) is not None:
            self.raw.seek(found)
            if self._try_member():
                return True
            offset = found + 1
        self._start_member(None)
        return False

    def _try_member(self) -> bool:
        """Begin the member at the position in the file; False if it is none, or does not begin with a WARC record.

        Little is decoded, in little steps: a file may be made of beginnings that decode to nothing, or to very much.
        """
        decoder = self._make_decoder()
        self._start_member(decoder)
        last = self.raw.position + decoder.trial_bytes
        while len(self._buffer) < MAX_START_LINE and not decoder.ended and self.raw.position < last:
            if not (view := self.raw.peek()[:_TRIAL_STEP_BYTES]):
                break
            try:
                decoded, n_taken = decoder.decode(view)
            except DamagedMember:
                return False
            self._buffer += decoded
            self.raw.advance(n_taken)
        return begins_record(bytes(self._buffer[:MAX_START_LINE]))

    def hold(self) -> None:
        """Forget everything before the position."""
        del self._buffer[: self._cursor]
        self._base += self._cursor
        self._cursor = 0

    def rewind(self, position: int) -> None:
        """Go back inside the member: free while the bytes are at hand, else read or decoded again."""
        if position < self._base and not self._magics:
            self._base = max(self.member_position, position - 1)  # the line end before stays visible
            self.raw.seek(self._base)
            self._buffer.clear()
            self._cursor = 0
            self.skip(position - self._base)
        elif position < self._base:
            self.raw.seek(self.member_offset)
            self._base = self.member_position
            self._buffer.clear()
            self._cursor = 0
            self._decoder = self._make_decoder()
            self.skip(position - self._base)
        else:
            self._cursor = position - self._base

    def peek(self, n_bytes: int) -> bytes:
        """Return up to `n_bytes` bytes of the member without moving."""
        if len(self._buffer) - self._cursor < n_bytes:
            self._need(n_bytes)
        return bytes(memoryview(self._buffer)[self._cursor : self._cursor + n_bytes])

    def read(self, n_bytes: int) -> bytes:
        """Return `n_bytes` bytes, fewer at the end of the member."""
        data = self.peek(n_bytes)
        self._cursor += len(data)
        return data

    def peek_header(self, max_bytes: int) -> bytes:
        """Return everything up to the next empty line, cut at `max_bytes`, without moving."""
        searched = self._cursor
        while not (match := _EMPTY_LINE.search(self._buffer, searched)):
            searched = max(self._cursor, len(self._buffer) - 3)
            if len(self._buffer) - self._cursor >= max_bytes or not self._fill():
                return self.peek(min(max_bytes, len(self._buffer) - self._cursor))
        return self.peek(min(max_bytes, match.end() - self._cursor))

    def skip(self, n_bytes: int) -> int:
        """Pass over up to `n_bytes` bytes in bounded memory; return how many there were."""
        n_missing = n_bytes
        while n_missing:
            n_here = min(n_missing, len(self._buffer) - self._cursor)
            self._cursor += n_here
            n_missing -= n_here
            if n_missing:
                if len(self._buffer) > CHUNK_BYTES:
                    self.hold()
                if not self._fill():
                    break
        return n_bytes - n_missing

    def skip_newlines(self) -> None:
        """Pass over the line ends between WARC records, in bounded memory."""
        while self._need(1):
            match = _NEWLINES.match(self._buffer, self._cursor)
            self._cursor = match.end() if match else self._cursor
            if self._cursor < len(self._buffer):
                return
            if len(self._buffer) > CHUNK_BYTES:
                self.hold()

    def is_behind_end(self, position: int) -> bool:
        """Say whether `position` is known to lie behind the end of the member: true only once the end was seen."""
        return self._last_position is not None and position > self._last_position

    def at_member_end(self) -> bool:
        """Say whether the member has no more bytes. True means that its checksum was right."""
        return not self._need(1)

    def find_record(self, position: int) -> bool:
        """Go to the next WARC or ARC header at or behind `position` in this member; False: there is none."""
        self.rewind(position)
        while True:
            match = RECORD_START_INSIDE.search(self._buffer, self._cursor)
            if match:
                self._cursor = match.start()
                return True
            # a header line may lie across the end of the buffer
            self._cursor = max(self._cursor, len(self._buffer) - MAX_START_LINE)
            if self._cursor > CHUNK_BYTES:
                del self._buffer[: self._cursor - 1]  # the line end before an ARC header stays visible
                self._base += self._cursor - 1
                self._cursor = 1
            if not self._fill():
                self._cursor = len(self._buffer)
                return False

    def _need(self, n_bytes: int) -> bool:
        """Have at least `n_bytes` bytes at hand, if the member has them."""
        while len(self._buffer) - self._cursor < n_bytes:
            if not self._fill():
                return False
        return True

    def _fill(self) -> bool:
        """Decode some more of the member into the buffer; False at its end."""
        decoded = b"" if self._decoder is None else self._decode(self._decoder)
        self._buffer += decoded
        if not decoded:
            self._last_position = self._base + len(self._buffer)
        return bool(decoded)

    def _decode(self, decoder: Decoder) -> bytes:
        """Return some more bytes of the member, none at its end."""
        while not decoder.ended:
            view = self._peek_member(decoder.input_bytes)
            decoded, n_taken = decoder.decode(view)
            self.raw.advance(n_taken)
            if decoded:
                return decoded
            if not view:
                if self.is_compressed:
                    raise DamagedMember(at_end_of_file=True)
                break
        return b""

    def _peek_member(self, n_most: int) -> memoryview:
        """Return the bytes at hand up to where the next member seems to begin: zlib would copy what lies behind."""
        if not self._magics:
            return self.raw.peek()
        return self.raw.peek_to(self._magics[0], LEAST_MEMBER_BYTES, n_most)

    def is_used_up(self) -> bool:
        """Say whether the position is between two members, as far as that was seen."""
        return self._cursor == len(self._buffer) and (self._decoder is None or self._decoder.ended)

    def _start_member(self, decoder: Decoder | None) -> None:
        self.member_offset = self.raw.position
        self._base = self.member_position = self._base + len(self._buffer)
        self._buffer.clear()
        self._cursor = 0
        self._last_position = None
        self._decoder = decoder

    def _find_magic(self, offset: int) -> int | None:
        """Return the next place at or behind `offset` of the file where a member may begin."""
        pattern = re.compile(b"|".join(re.escape(magic) for magic in self._magics))
        self.raw.seek(offset)
        tail = b""
        while view := self.raw.peek():
            # the seam to the chunk before is searched by itself: to copy whole chunks would take long for each find
            for start, window in ((-len(tail), tail + bytes(view[:3])), (0, view)):
                if match := pattern.search(window):
                    return self.raw.position + start + match.start()
            self.raw.advance(len(view))
            tail = (tail + bytes(view[-3:]))[-3:]
        return None


def open_members(raw: ByteStream) -> MemberStream | None:
    """Recognise how a file is compressed by its bytes from the position on; None if it is no archive.

    When the first bytes are damaged, the first WARC record within the first chunk tells.
    """
    head = bytes(raw.peek())
    codecs = _codecs(raw, head)
    for magics, make_decoder in codecs:
        if head.startswith(magics):
            return MemberStream(raw, magics, make_decoder)
    if begins_record(head):
        return MemberStream(raw, (), PlainDecoder)
    starts: list[tuple[int, MemberStream]] = []
    for magics, make_decoder in codecs:
        members = MemberStream(stream_bytes(raw.url, head), magics, make_decoder)
        if members.find_member(0):
            starts.append((members.member_offset, MemberStream(raw, magics, make_decoder)))
    if match := RECORD_START_INSIDE.search(head):
        starts.append((match.start(), MemberStream(raw, (), PlainDecoder)))
    return min(starts, key=lambda start: start[0])[1] if starts else None


_Codec = tuple[tuple[bytes, ...], Callable[[], Decoder]]


def _codecs(raw: ByteStream, head: bytes) -> list[_Codec]:
    dictionary = _read_dictionary(raw) if head.startswith((ZSTD_MAGIC, ZSTD_DICTIONARY_MAGIC)) else None

    def make_zstd() -> Decoder:
        return ZstdDecoder(dictionary)

    return [((GZIP_MAGIC,), GzipDecoder), ((ZSTD_MAGIC, ZSTD_DICTIONARY_MAGIC), make_zstd)]


def _read_dictionary(raw: ByteStream) -> zstandard.ZstdCompressionDict | None:
    """Read the dictionary that a .warc.zst file may carry in its first, skippable frame, itself perhaps compressed.

    None also for one that is damaged or too long: the frames that need it do not decode, and are counted.
    """
    start = raw.position
    raw.seek(0)
    if not bytes(raw.peek()[:4]).startswith(ZSTD_DICTIONARY_MAGIC):
        raw.seek(start)
        return None
    frame = MemberStream(raw, (), PlainDecoder)
    frame.open_member()
    length = int.from_bytes(frame.read(8)[4:], "little")
    content = frame.read(min(length, _MAX_DICTIONARY_BYTES))
    raw.seek(start)
    try:
        if content.startswith(ZSTD_MAGIC):
            content = _unpack_dictionary(content)
        dictionary = zstandard.ZstdCompressionDict(content)
        zstandard.ZstdDecompressor(dict_data=dictionary)  # looks into it
    except (DamagedMember, zstandard.ZstdError):
        return None
    return dictionary


def _unpack_dictionary(frame: bytes) -> bytes:
    unpacked, cursor, decoder = bytearray(), 0, ZstdDecoder()
    while not decoder.ended and cursor < len(frame):
        decoded, n_taken = decoder.decode(memoryview(frame)[cursor : cursor + decoder.input_bytes])
        unpacked += decoded
        cursor += n_taken
        if len(unpacked) > _MAX_DICTIONARY_BYTES:
            raise DamagedMember(at_end_of_file=False)
    return bytes(unpacked)
