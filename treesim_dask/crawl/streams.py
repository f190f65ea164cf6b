"""One file as one streaming request, read forward, that survives a broken connection.

Object stores and Common Crawl throttle by request, so a file is one GET from its first byte to its last. After a
broken connection the next request asks for the bytes that are missing and nothing else; what was read stays valid,
so that the reader above sees no seam. A connection that ends before the size the server announced is broken; a file
that ends at that size is whole, or was cut before it was stored.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

from fsspec.asyn import sync
from fsspec.core import url_to_fs

from treesim_dask.crawl.web import RequestFailed, RequestOptions, content_extent, open_url
from treesim_dask.errors import SourceError, TransferError

CHUNK_BYTES = 2**20
DEFAULT_RETRIES = 5  # waits of about 0.5, 1, 2, 4 and 8 seconds
_OURS = {"retries"}  # storage options that are none of fsspec's business
_FIRST_WAIT = 0.5
_MISSING_STATUSES = {404, 410, 416}  # 416: the file ends before the bytes asked for
_LONGEST_WAIT = 300.0  # that a server may ask for
_GENERIC_BLOCK_BYTES = 16 * 2**20  # other file systems read in ranges: make them few
_COMMON_CRAWL_HINT = "s3://commoncrawl/ refuses anonymous reads: use https://data.commoncrawl.org/ or S3 credentials"


class MissingSource(SourceError):
    """There is nothing at that place, now or later; any other failure to read may pass."""


class Connection(Protocol):
    """The bytes of a file from `start` on. `version` changes when the file does."""

    start: int
    size: int | None
    version: str | None

    def read(self, n_bytes: int, /) -> bytes:
        """Return up to `n_bytes` bytes, none at the end."""
        ...

    def close(self) -> None:
        """Give it up."""
        ...


class ByteStream:
    """The bytes of a file, in pieces, from any position on.

    Parameters
    ----------
    url
        Names the file in messages.
    connect
        Opens the file at a position.
    n_retries
        How often in a row to open it again after trouble without getting a single byte.
    end
        Where to stop; None for the end of the file.
    """

    def __init__(
        self,
        url: str,
        connect: Callable[[int], Connection],
        n_retries: int = DEFAULT_RETRIES,
        end: int | None = None,
    ) -> None:
        self.url = url
        self._end = end
        self.position = 0
        self.size: int | None = None
        self._connect = connect
        self._n_retries = n_retries
        self._n_failures = 0
        self._version: str | None = None
        self._connection: Connection | None = None
        self._chunk_bytes = b""
        self._chunk = memoryview(self._chunk_bytes)
        self._chunk_start = 0

    def peek(self) -> memoryview:
        """Return the bytes at hand from the position on: at least one, unless the file ends there."""
        chunk_end = self._chunk_start + len(self._chunk)
        if not self._chunk_start <= self.position < chunk_end:
            if self.position != chunk_end:
                self._disconnect()
            self._have(self._read_chunk())
        return self._chunk[self.position - self._chunk_start :]

    def peek_head(self, n_bytes: int) -> bytes:
        """Return the next bytes, fewer only where the file ends; what they came with stays at hand."""
        view, start = self.peek(), self.position
        while len(view) < n_bytes:
            self.position += len(view)
            more = self.peek()
            self.position = start
            self._have(bytes(view) + bytes(more))
            view = self._chunk
            if not more:
                break
        return bytes(view[:n_bytes])

    def peek_to(self, pattern: bytes, n_least: int, n_most: int) -> memoryview:
        """Return the bytes at hand, `n_most` at most, up to where `pattern` comes next behind the first `n_least`."""
        view = self.peek()[:n_most]
        start = self.position - self._chunk_start
        found = self._chunk_bytes.find(pattern, start + n_least, start + len(view))
        return view if found < 0 else view[: found - start]

    def advance(self, n_bytes: int) -> None:
        """Move on inside the bytes last seen."""
        self.position += n_bytes

    def seek(self, position: int) -> None:
        """Go to `position`: free inside the current chunk, a new request elsewhere."""
        self.position = position

    def close(self) -> None:
        """Give the connection up."""
        self._disconnect()

    def __enter__(self) -> ByteStream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _have(self, chunk: bytes) -> None:
        self._chunk_bytes, self._chunk_start = chunk, self.position
        self._chunk = memoryview(chunk)

    def _read_chunk(self) -> bytes:
        """Return the next chunk, whole unless the file ends; after trouble what came before, the next call meets it."""
        while True:
            chunk = bytearray()
            try:
                connection = self._connection or self._open()
                n_wanted = self._n_wanted()
                while len(chunk) < n_wanted and (piece := connection.read(n_wanted - len(chunk))):
                    chunk += piece
                if not chunk and self._is_incomplete():
                    ended = f"{self.url} ended after {self.position} of {self.size} bytes: the connection broke"
                    raise RequestFailed(ended, is_temporary=True)
            except RequestFailed as failure:
                if not chunk:
                    self._disconnect()
                    self._wait_or_give_up(failure)
                    continue
            self._n_failures = 0
            return bytes(chunk)

    def _n_wanted(self) -> int:
        return CHUNK_BYTES if self._end is None else min(CHUNK_BYTES, self._end - self.position)

    def _is_incomplete(self) -> bool:
        end = min((limit for limit in (self._end, self.size) if limit is not None), default=self.position)
        return self.position < end

    def _open(self) -> Connection:
        connection = self._connect(self.position)
        self._connection = connection
        if self._version not in (None, connection.version) or self.size not in (None, connection.size):
            raise SourceError(f"{self.url} changed while it was read: start again")
        self._version, self.size = connection.version, connection.size
        n_ahead = self.position - connection.start
        if n_ahead < 0:
            other = f"{self.url} answered from byte {connection.start}, asked for byte {self.position}"
            raise RequestFailed(other, is_temporary=True)
        while n_ahead > 0:  # the server ignored the range
            skipped = connection.read(min(n_ahead, CHUNK_BYTES))
            if not skipped:
                raise RequestFailed(f"{self.url} ended before byte {self.position}", is_temporary=True)
            n_ahead -= len(skipped)
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def _wait_or_give_up(self, failure: RequestFailed) -> None:
        self._n_failures += 1
        if not failure.is_temporary or self._n_failures > self._n_retries:
            tried = f" (tried {self._n_failures} times)" if self._n_failures > 1 else ""
            refusal = MissingSource if failure.status in _MISSING_STATUSES else SourceError
            raise refusal(f"{failure}{tried}") from failure
        wait = _FIRST_WAIT * 2 ** (self._n_failures - 1) * random.uniform(0.75, 1.25)  # not all workers at once
        time.sleep(max(wait, min(failure.retry_after, _LONGEST_WAIT)))


def open_stream(url: str, storage_options: Mapping[str, Any] | None = None, *, end: int | None = None) -> ByteStream:
    """Open a local path or any fsspec URL for streaming.

    Parameters
    ----------
    url
        A path, or a URL of any scheme fsspec knows.
    end
        Where to stop, so that a request asks for no more; None for the end of the file.
    storage_options
        For fsspec. Over HTTP ``headers``, ``client_kwargs`` and ``timeout`` (seconds) count; everywhere ``retries``.
    """
    options = dict(storage_options or {})
    n_retries = int(options.pop("retries", DEFAULT_RETRIES))
    if url.startswith(("http://", "https://")):
        request = RequestOptions.from_storage_options(options)
        return ByteStream(url, lambda position: open_url(url, request, start=position, end=end), n_retries, end)
    if is_local(url):
        return ByteStream(url, lambda position: _open_local(url, position), n_retries, end)
    fs, path = find_filesystem(url, options)
    if hasattr(fs, "_call_s3"):
        return ByteStream(url, lambda position: _open_s3(fs, path, url, position, end), n_retries, end)
    return ByteStream(url, lambda position: _open_other(fs, path, url, position), n_retries, end)


def read_range(
    url: str, start: int, n_bytes: int, storage_options: Mapping[str, Any] | None = None
) -> tuple[bytes, int | None]:
    """Return up to `n_bytes` bytes of a file from `start` on, and the size of the file where it is told."""
    with open_stream(url, storage_options, end=start + n_bytes) as stream:
        stream.seek(start)
        pieces: list[bytes] = []
        n_missing = n_bytes
        while n_missing and (view := stream.peek()):
            pieces.append(bytes(view[:n_missing]))
            stream.advance(len(pieces[-1]))
            n_missing -= len(pieces[-1])
        return b"".join(pieces), stream.size


def stream_bytes(url: str, data: bytes) -> ByteStream:
    """Wrap bytes at hand, taken out of the file `url`, as a stream."""
    return ByteStream(url, lambda position: _FileConnection(BytesIO(data[position:]), url, position, len(data)))


def is_local(url: str) -> bool:
    """Say whether `url` is a path of this machine.

    Examples
    --------
    >>> is_local("/data/a.warc.gz"), is_local("s3://bucket/a.warc.gz"), is_local("zip://a.warc::b.zip")
    (True, False, False)
    """
    return "://" not in url and "::" not in url


def find_filesystem(url: str, storage_options: Mapping[str, Any] | None) -> tuple[Any, str]:
    """Return fsspec's file system for `url` and the path inside it."""
    try:
        fs, path = url_to_fs(
            url, **{name: value for name, value in (storage_options or {}).items() if name not in _OURS}
        )
    except ValueError as error:
        known = "a path, https://, s3:// or another scheme that fsspec knows"
        raise SourceError(f"cannot open {url!r}: {error}: expected {known}") from error
    except ImportError as error:
        raise SourceError(f"cannot open {url!r}: {error}") from error
    except TypeError as error:
        raise SourceError(f"cannot open {url!r} with these storage options: {error}") from error
    return fs, path


def explain_failure(url: str, error: BaseException) -> SourceError:
    """Say in one line why a file system refused `url`."""
    if isinstance(error, SourceError):
        return error
    if isinstance(error, RequestFailed):
        return SourceError(str(error))
    detail = " ".join(str(error).split()) or type(error).__name__
    if url.startswith("s3://commoncrawl/") and not isinstance(error, FileNotFoundError):
        return SourceError(f"cannot read {url}: {detail}: {_COMMON_CRAWL_HINT}")
    match error:
        case FileNotFoundError():
            return MissingSource(f"no such file: {url}: check the spelling")
        case IsADirectoryError():
            return MissingSource(f"{url} is a folder, expected a file")
        case PermissionError():
            return SourceError(f"no permission to read {url}: {detail}: check its access rights or pass credentials")
        case TimeoutError():
            return SourceError(f"no answer for {url} in time: try again later")
    if "credentials" in detail.lower():
        return SourceError(f"no credentials to read {url}: configure them, or pass the storage option anon=true")
    return SourceError(f"cannot read {url}: {detail}")


@dataclass(slots=True)
class _FileConnection:
    """A file object as a connection. File systems raise what they like: all of it becomes one kind of failure."""

    file: Any
    url: str
    start: int
    size: int | None
    version: str | None = None

    def read(self, n_bytes: int, /) -> bytes:
        try:
            data: bytes = self.file.read(n_bytes)
        except (OSError, ValueError) as error:
            raise RequestFailed(str(explain_failure(self.url, error)), is_temporary=True) from error
        return data

    def close(self) -> None:
        self.file.close()


def _open_local(path: str, position: int) -> Connection:
    try:
        file = Path(path).open("rb", buffering=0)  # noqa: SIM115 - closed with its connection
        file.seek(position)
        return _FileConnection(file, path, position, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise explain_failure(path, error) from error


def _open_other(fs: Any, path: str, url: str, position: int) -> Connection:
    try:
        file = fs.open(path, "rb", block_size=_GENERIC_BLOCK_BYTES, cache_type="readahead")
        file.seek(position)
    except (OSError, ValueError) as error:
        raise explain_failure(url, error) from error
    return _FileConnection(file, url, position, getattr(file, "size", None))


class _S3Connection:
    """The body of one GetObject request: s3fs's own files would send a range request per block."""

    def __init__(self, fs: Any, answer: Mapping[str, Any], url: str) -> None:
        self._fs = fs
        self._body = answer["Body"]
        self._url = url
        self.start, self.size = content_extent(answer.get("ContentRange", ""), str(answer["ContentLength"]))
        self.version: str | None = answer.get("ETag")

    def read(self, n_bytes: int, /) -> bytes:
        try:
            data: bytes = sync(self._fs.loop, self._body.read, n_bytes)
        except Exception as error:  # aiohttp, urllib3 and botocore each have their own, with no common base
            if type(error).__name__ == "FlexibleChecksumError":  # known at the end only: all of it is in doubt
                raise TransferError(f"{self._url} did not arrive as it was stored: try again later") from error
            raise RequestFailed(f"connection to {self._url} failed: {error}", is_temporary=True) from error
        return data

    def close(self) -> None:
        self._fs.loop.call_soon_threadsafe(self._body.close)


def _open_s3(fs: Any, path: str, url: str, position: int, end: int | None) -> Connection:
    bucket, key, version_id = fs.split_path(path)
    options: dict[str, Any] = {}
    if position or end is not None:
        options["Range"] = f"bytes={position}-{'' if end is None else end - 1}"
    if version_id:
        options["VersionId"] = version_id
    try:
        answer = sync(fs.loop, fs._call_s3, "get_object", Bucket=bucket, Key=key, **options)
    except Exception as error:  # botocore's errors have no common base with OSError
        if isinstance(error, OSError) and error.errno == errno.EINVAL:  # no such byte
            if position == 0:  # an empty object
                return _FileConnection(BytesIO(), url, 0, 0)
            raise MissingSource(f"{url} ends before byte {position}: check the offset") from error
        raise explain_failure(url, error) from error
    return _S3Connection(fs, answer, url)
