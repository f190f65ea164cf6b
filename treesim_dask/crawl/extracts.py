"""URL lists with places: extracts of a crawl's index to sources that are read by range, one a WARC file.

Common Crawl's index server answers in CDXJ (a key, a time, then a JSON object) or in plain JSON lines; its columnar
index has the same in a table. Each names the WARC file, the offset and the length of a page.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from treesim_dask.crawl.inputs import DEFAULT_CRAWL_BASE_URL
from treesim_dask.crawl.listing import normalise
from treesim_dask.crawl.lists import read_list
from treesim_dask.crawl.streams import is_local
from treesim_dask.errors import SourceError
from treesim_dask.types import Source

Place = tuple[str, int, int]  # file, offset, length

_CDXJ_NAME = re.compile(r"\.(cdxj?|jsonl)(\.gz)?$", re.IGNORECASE)
_MOST_BYTES = 2**30
_MOST_RECORD_BYTES = 2**30  # far above what crawlers keep of a page


def is_cdxj(url: str) -> bool:
    """Tell by its name whether a file is an extract in CDXJ or JSON lines.

    Examples
    --------
    >>> is_cdxj("shops.cdxj.gz"), is_cdxj("crawl.warc.gz")
    (True, False)
    """
    return _CDXJ_NAME.search(url) is not None


def read_cdxj(url: str, storage_options: Mapping[str, Any] | None = None) -> Iterator[Place]:
    """Yield the places that an extract names, one a line."""
    for number, line in enumerate(read_list(url, _MOST_BYTES, storage_options).split("\n"), 1):
        if line.strip() and not line.startswith(("#", "!")):
            yield _read_line(line, f"line {number} of {url}")


def _read_line(line: str, where: str) -> Place:
    try:
        values = json.loads(line[line.index("{") :])
        filename, offset, length = str(values["filename"]), int(values["offset"]), int(values["length"])
        filename.encode()  # JSON can write what is no text
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise SourceError(
            f"{where} is not CDXJ: expected a JSON object with filename, offset and length, got {line[:100]!r}"
        ) from None
    if offset < 0 or not 0 < length <= _MOST_RECORD_BYTES:
        raise SourceError(
            f"{where} names {length} bytes at offset {offset}: expected an offset of 0 or more and a length from 1 to"
            f" {_MOST_RECORD_BYTES}"
        )
    return filename, offset, length


def locate_places(places: Iterable[Place], list_url: str, crawl_base_url: str = DEFAULT_CRAWL_BASE_URL) -> list[Place]:
    """Return the places that an extract names with their files where they are found."""
    base_url = crawl_base_url.rstrip("/") + "/"
    find_file = cache(lambda filename: _find_file(filename, list_url, base_url))  # many places are in the same one
    located = [(find_file(filename), offset, length) for filename, offset, length in places]
    if not located:
        raise SourceError(f"the extract {list_url} names no page: expected filename, offset and length of each")
    return located


def make_extract_sources(places: Iterable[Place]) -> list[Source]:
    """Group places by WARC file: one source each, named after the file and the choice of places in it.

    Examples
    --------
    >>> [source] = make_extract_sources([("/a.warc.gz", 70, 9), ("/a.warc.gz", 5, 60), ("/a.warc.gz", 70, 9)])
    >>> source.kind, source.members, source.size
    ('extract', ('/a.warc.gz', '5+60', '70+9'), 69)
    """
    by_file: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
    for warc, offset, length in places:
        by_file[warc].add((offset, length))
    return sorted((_source(warc, sorted(found)) for warc, found in by_file.items()), key=lambda source: source.url)


def _find_file(filename: str, list_url: str, base_url: str) -> str:
    """Return where a WARC file is: below the crawl's base, at its own URL or path, or beside the extract."""
    if filename.startswith("crawl-data/"):
        return normalise(base_url + filename)
    if not is_local(filename) or Path(filename).is_absolute():
        return normalise(filename)
    return normalise(str(Path(list_url).parent / filename) if is_local(list_url) else urljoin(list_url, filename))


def _source(warc: str, places: list[tuple[int, int]]) -> Source:
    members = [f"{offset}+{length}" for offset, length in places]
    choice = hashlib.blake2b(" ".join(members).encode(), digest_size=8).hexdigest()
    return Source(f"{warc}#extract-{choice}", "extract", (warc, *members), sum(length for _, length in places))


def places_of(source: Source) -> list[tuple[int, int]]:
    """Return offset and length of each WARC record of an extract source."""
    return [(int(offset), int(length)) for offset, _, length in (place.partition("+") for place in source.members[1:])]
