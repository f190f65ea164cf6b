"""What the user names to sources: files, folders, globs, URLs, lists of paths, crawl ids, HTML files.

The url of an archive is its normal form (see `listing.normalise`), so that two spellings of one file are one source.
Plain HTML files are grouped by a stable hash of their path, about a thousand files a group: a file stays in its
group when others come and go, until their number doubles.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urljoin

from treesim_dask.crawl.listing import FoundFile, kind_by_name, list_files, normalise, spell_out
from treesim_dask.crawl.lists import read_list
from treesim_dask.crawl.sniffing import (
    GZIP_MAGIC,
    RECORD_START_INSIDE,
    ZSTD_DICTIONARY_MAGIC,
    ZSTD_MAGIC,
    begins_record,
    looks_binary,
    looks_like_html,
    name_foreign_format,
)
from treesim_dask.crawl.streams import is_local, read_range
from treesim_dask.errors import SourceError
from treesim_dask.types import Source

DEFAULT_CRAWL_BASE_URL = "https://data.commoncrawl.org/"
_CRAWL_ID = re.compile(r"CC-[A-Z]+-\d{4}(?:-\d{2,4})?")
_FILES_PER_GROUP = 1000
_SNIFF_BYTES = 8192
_MAX_LIST_BYTES = 2**28
_PROBE_RETRIES = 2  # someone is waiting for the answer
_EXPECTED = "expected a WARC or ARC archive, an HTML file, or a list of paths (.paths, .txt)"


def find_sources(
    inputs: Sequence[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
    crawl_base_url: str = DEFAULT_CRAWL_BASE_URL,
) -> list[Source]:
    """Resolve inputs to sources, sorted by url and without doubles.

    Parameters
    ----------
    inputs
        Files, folders (read to any depth), globs; URLs of any scheme fsspec knows; lists of paths (``*.paths``,
        ``*.txt``, also gzipped); crawl ids such as ``CC-MAIN-2026-42``.
    storage_options
        For fsspec.
    crawl_base_url
        Where crawl ids and the paths of Common Crawl's lists are found.

    Raises
    ------
    SourceError
        An input is missing, refused, empty, or not something to read pages from.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.html").write_text("<p>a"), Path(folder, "b.html").write_text("<p>b")
    ...     [source] = find_sources([folder])
    ...     source.kind, len(source.members), source.size, source.url.removeprefix(folder)
    ('html', 2, 8, '#html-0-of-1')
    """
    return make_sources(find_files(inputs, storage_options, crawl_base_url))


def find_files(
    inputs: Sequence[str], storage_options: Mapping[str, Any] | None, crawl_base_url: str
) -> list[FoundFile]:
    """Return the files behind inputs, sorted by url and without doubles."""
    if not inputs:
        raise SourceError("no input: give files, folders, URLs, a list of paths or a crawl id")
    is_only = len(inputs) == 1
    return _drop_doubles(
        file for place in inputs for file in _find_files(place, storage_options, crawl_base_url, is_only)
    )


def make_sources(files: Sequence[FoundFile]) -> list[Source]:
    """Make a source of each archive and of each group of HTML files, sorted by url."""
    archives = [
        Source(file.url, "archive", (file.url,), file.size, modified=file.modified)
        for file in files
        if file.kind == "archive"
    ]
    groups = _group_html([file for file in files if file.kind == "html"])
    sources = sorted([*archives, *groups], key=lambda source: source.url)
    for source in sources:
        if (name := spell_out(source.url)) != source.url:
            raise SourceError(f"the name {name} is not UTF-8: rename it, or link to it under another name")
    return sources


def _find_files(
    place: str, storage_options: Mapping[str, Any] | None, crawl_base_url: str, is_only: bool
) -> list[FoundFile]:
    """Return the files behind one input. Among several, an archive that turns out to be none is left to the build."""
    if not place.strip():
        raise SourceError("an input is empty: give a file, folder, URL, list of paths or crawl id")
    base_url = crawl_base_url.rstrip("/") + "/"
    if _CRAWL_ID.fullmatch(place) and not Path(place).exists():
        return _read_crawl(place, storage_options, base_url)
    files = list_files(place, storage_options)
    if files is not None:
        return files
    url = normalise(place)
    head, size = read_range(url, 0, _SNIFF_BYTES, _quick(storage_options))
    unread = not is_only and kind_by_name(url) == "archive"
    kind = "archive" if unread else _kind_of(url, head)
    if kind == "list":
        return _read_list(url, storage_options, base_url)
    return [FoundFile(url, kind, size, modified=Path(url).stat().st_mtime if is_local(url) else None)]


def _quick(storage_options: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"retries": _PROBE_RETRIES, **(storage_options or {})}


def _kind_of(url: str, head: bytes) -> Literal["archive", "html", "list"]:
    """Say what a file is by its first bytes, and by its name where they leave it open."""
    name = kind_by_name(url)
    if not head:
        raise SourceError(f"{url} is empty (0 bytes): {_EXPECTED}")
    if foreign := name_foreign_format(head):
        raise SourceError(f"{url} is a {foreign} file: unpack it first; {_EXPECTED}")
    content = _gunzip_head(head, len(head) * 8) if head.startswith(GZIP_MAGIC) else head
    if begins_record(content) or head.startswith((ZSTD_MAGIC, ZSTD_DICTIONARY_MAGIC)):
        return "archive"
    if name == "archive" and (RECORD_START_INSIDE.search(content) or (content is not head and not content)):
        return "archive"  # damaged at its very beginning: the reader goes on behind the damage
    if content is head and looks_like_html(head):
        return "html"
    if name in ("html", "list") and not looks_binary(content):
        return name
    raise SourceError(f"{url} is neither WARC nor ARC nor HTML: {_EXPECTED}")


def _gunzip_head(data: bytes, max_bytes: int) -> bytes:
    """Return what the first bytes of a file begin with, unpacked."""
    try:
        return zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(data, max_bytes)
    except zlib.error:
        return b""


def _read_crawl(crawl_id: str, storage_options: Mapping[str, Any] | None, base_url: str) -> list[FoundFile]:
    url = f"{base_url}crawl-data/{crawl_id}/warc.paths.gz"
    try:
        return _read_list(url, storage_options, base_url)
    except SourceError as error:
        hint = "the ids are listed at https://index.commoncrawl.org/"
        raise SourceError(f"cannot resolve the crawl id {crawl_id}: {error}; {hint}") from error


def _read_list(url: str, storage_options: Mapping[str, Any] | None, base_url: str) -> list[FoundFile]:
    """Return the files that a list names, one a line; empty lines and lines beginning with # do not count."""
    lines = read_lines(url, storage_options)
    if not lines:
        raise SourceError(f"the list {url} names no file: write one path or URL a line")
    return [_listed_file(line, url, base_url) for line in lines]


def read_lines(url: str, storage_options: Mapping[str, Any] | None = None) -> list[str]:
    """Return the lines of a list that count."""
    text = read_list(url, _MAX_LIST_BYTES, _quick(storage_options))
    return [line for raw in text.splitlines() if (line := raw.strip()) and not line.startswith("#")]


def _listed_file(line: str, list_url: str, base_url: str) -> FoundFile:
    url = listed_url(line, list_url, base_url)
    kind = kind_by_name(url)
    if kind not in ("archive", "html"):
        raise SourceError(f"the list {list_url} names {line[:200]!r}, which is neither .warc nor .arc nor .html")
    try:
        state = Path(url).stat() if is_local(url) else None
    except OSError as error:
        raise SourceError(f"the list {list_url} names {line!r}, which cannot be read: {error.strerror}") from error
    size, modified = (state.st_size, state.st_mtime) if state else (None, None)
    return FoundFile(url, kind, size, list_url, modified)


def listed_url(line: str, list_url: str, base_url: str = DEFAULT_CRAWL_BASE_URL) -> str:
    """Return what a line of a list names: as Common Crawl writes it below its address, else beside the list.

    Examples
    --------
    >>> listed_url("b.warc", "/data/list.txt"), listed_url("crawl-data/a.warc.gz", "/data/list.txt")
    ('/data/b.warc', 'https://data.commoncrawl.org/crawl-data/a.warc.gz')
    """
    if line.startswith("crawl-data/"):
        return normalise(base_url + line)
    if not is_local(line) or line.startswith(("/", "~")):
        return normalise(line)
    return normalise(str(Path(list_url).parent / line) if is_local(list_url) else urljoin(list_url, line))


def _drop_doubles(files: Iterable[FoundFile]) -> list[FoundFile]:
    """Keep each file once, sorted by url; of several roots the widest, so that the order of inputs does not matter."""
    best: dict[str, FoundFile] = {}
    for file in sorted(files, key=lambda file: (not file.root, len(file.root), file.root, file.url)):
        best.setdefault(os.path.realpath(file.url) if is_local(file.url) else file.url, file)
    return sorted(best.values(), key=lambda file: file.url)


def _group_html(files: Sequence[FoundFile]) -> list[Source]:
    by_root: defaultdict[str, list[FoundFile]] = defaultdict(list)
    for file in files:
        by_root[file.root or _folder_of(file.url)].append(file)
    return [source for root, group in by_root.items() for source in _split_root(_root_name(root, group), group)]


def _folder_of(url: str) -> str:
    return url.rpartition("/")[0]


def _root_name(root: str, files: Sequence[FoundFile]) -> str:
    """Name what a group of files is a part of.

    Files named one by one are no whole folder: a single one stands for itself, several are told apart by a digest,
    lest a later build with others of the same folder take their place.
    """
    if files[0].root:
        return root
    if len(files) == 1:
        return files[0].url
    return f"{root}@{stable_hash(' '.join(file.url for file in files)):016x}"


def _split_root(root: str, files: Sequence[FoundFile]) -> list[Source]:
    n_groups = 1
    while len(files) > _FILES_PER_GROUP * n_groups:
        n_groups *= 2
    groups: defaultdict[int, list[FoundFile]] = defaultdict(list)
    for file in files:
        groups[stable_hash(file.url.removeprefix(root)) % n_groups].append(file)
    return [_make_group(f"{root}#html-{number}-of-{n_groups}", group) for number, group in groups.items()]


def _make_group(url: str, files: Sequence[FoundFile]) -> Source:
    """Make a source of HTML files; its digest holds what is known of each on every machine."""
    sizes = [file.size for file in files if file.size is not None]
    states = "\n".join(f"{file.size} {file.url}" for file in files)
    return Source(
        url,
        "html",
        tuple(file.url for file in files),
        sum(sizes) if len(sizes) == len(files) else None,
        f"{stable_hash(states):016x}",
        max((file.modified for file in files if file.modified is not None), default=None),
    )


def stable_hash(text: str) -> int:
    """Return 64 bits that are the same on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "big")
