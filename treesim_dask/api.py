"""An index, opened: ask it, look at it, check it."""

from __future__ import annotations

import html
import os
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from treesim_dask.allocator import keep_freed_memory
from treesim_dask.config import IndexConfig, check_strings
from treesim_dask.errors import ConfigError, IndexFormatError, TreesimError
from treesim_dask.index.cache import DEFAULT_MEMORY, Cache
from treesim_dask.index.live import count_live, live_segments, stamp_segments
from treesim_dask.index.manifest import read_manifest
from treesim_dask.index.segment import SEGMENTS
from treesim_dask.index.store import Store
from treesim_dask.query.matches import SegmentAnswer
from treesim_dask.query.metrics import DEFAULT_METRIC, check_metric, find_metric
from treesim_dask.query.options import Conditions, SearchOptions, is_public_suffix
from treesim_dask.query.page import QueryPage, check_hosts, load_queries
from treesim_dask.query.search import fill_answers, in_blocks, search_segments

if TYPE_CHECKING:
    import dask.array
    import dask.dataframe
    import pandas
    from distributed import Client

    from treesim_dask.index.check import Problem
    from treesim_dask.query.evaluate import Evaluation

WORKING_MEMORY = 256 * 2**20  # what a process takes at most for queries beside what it may keep; a test holds it

PageLike = str | bytes | os.PathLike[str] | QueryPage  # a page or how it is called

_T = TypeVar("_T")
_OPTIONS = {field.name for field in fields(SearchOptions)} - {"n_agree", "bands_and_rows"}  # these are set here
_N_TRIES = 4  # to read an index between two of its changes
_PAGES_AT_ONCE = 64  # loaded and parsed together, as whole pages are large


def open_index(
    url: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None, memory: int = DEFAULT_MEMORY
) -> Index:
    """Open an index for queries.

    Keep it open for many: what it has read stays in memory, up to a bound.

    Parameters
    ----------
    url
        A local path or any fsspec URL.
    storage_options
        Passed to the fsspec file system.
    memory
        Bytes of band tables, vectors and pages kept between queries; what was used least recently goes first. A process
        grows by this and at most `WORKING_MEMORY` (256 MiB) more: compiled code, and what a block of a batch works on.
        A single query whose buckets hold millions of different shapes takes more; ``bucket_cap`` limits that.
    """
    return Index(Store(url, storage_options), memory)


def check(
    index: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    repair: bool = False,
    on_segment: Callable[[int, int], None] = lambda done, total: None,
    quick: bool = False,
) -> list[Problem]:
    """Return everything that is wrong with an index, one too damaged to be opened included.

    Parameters
    ----------
    index
        A local path or any fsspec URL.
    storage_options
        Passed to the fsspec file system.
    repair
        Remove orphans and return what is left. Refused while the index is compacted or merged into.
    on_segment
        Called after each segment with the number checked and the number of all.
    quick
        Compare names and sizes only, which opens no file of a segment.
    """
    from treesim_dask.index.check import check_index, repair_index

    store = Store(index, storage_options)
    if repair:
        return repair_index(store, on_segment, quick=quick)
    return list(check_index(store, on_segment, quick=quick))


def merge(
    others: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    index: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    on_segment: Callable[[int], None] = lambda n_copied: None,
) -> int:
    """Add the pages of other indexes to an index, a new one where there is none, and return the segments copied.

    A source that several of them hold is there once, without the pages that were deleted from any of them.

    Parameters
    ----------
    others
        Indexes with the same parameters.
    index
        What they are added to: a local path or any fsspec URL.
    storage_options
        For the fsspec file systems of all of them.
    on_segment
        Called after each segment with the number copied so far.
    """
    from treesim_dask.index.merging import merge_indexes

    urls = [others] if isinstance(others, (str, os.PathLike)) else others
    stores = [Store(url, storage_options) for url in urls]
    n_copied = 0
    for n_copied, _ in enumerate(merge_indexes(Store(index, storage_options), stores), 1):
        on_segment(n_copied)
    return n_copied


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """What an index holds, in numbers.

    Deleted pages are not counted. ``n_html_bytes`` and ``skipped`` are those of the sources as they were read.
    """

    url: str
    config: IndexConfig
    n_segments: int
    n_pages: int
    n_shapes: int
    n_nodes: int
    n_html_bytes: int
    n_index_bytes: int
    skipped: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "url": self.url,
            "fingerprint": self.config.fingerprint,
            "parameters": self.config.to_dict(),
            **{name: getattr(self, name) for name in IndexInfo.__slots__ if name.startswith("n_")},
            "skipped": self.skipped,
        }


class Index:
    """A published index. It is a snapshot: segments that are added later are seen after `refresh`.

    Use `open_index` to make one.
    """

    def __init__(self, store: Store, memory: int = DEFAULT_MEMORY) -> None:
        self.store = store
        self.config = read_manifest(store)
        self._memory = memory
        self.refresh()

    def refresh(self) -> None:
        """See the index as it is now; what was kept of it in memory is read again."""
        self.cache = Cache(self._memory)
        self._stamps = stamp_segments(self.store)
        self.segments = live_segments(self.store, self.cache, self.config.fingerprint)
        self._snapshot = uuid.uuid4().hex
        self.__dict__.pop("info", None)

    @property
    def url(self) -> str:
        """Where the index lies."""
        return self.store.url

    def search(
        self,
        page: PageLike,
        k: int = 10,
        client: Client | None = None,
        storage_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> SegmentAnswer:
        """Return the matches of a page as objects, with the number of candidates; see `query`."""
        chosen = self._options(k, storage_options, options)
        return self._answer([self._load(page, storage_options)], chosen, client)[0]

    def search_many(
        self,
        pages: Iterable[PageLike],
        k: int = 10,
        client: Client | None = None,
        storage_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Iterator[tuple[QueryPage, SegmentAnswer]]:
        """Yield each page with its answer, in order; some hundreds are answered at once. See `search`."""
        keep_freed_memory()  # each block needs again what the last one gave back: a fifth of the time
        chosen = self._options(k, storage_options, options)
        for block in in_blocks(self._load_all(pages, storage_options), k):
            yield from zip(block, self._answer(block, chosen, client), strict=True)

    def search_batch(
        self,
        batch: str | os.PathLike[str],
        k: int = 10,
        storage_options: Mapping[str, Any] | None = None,
        on_failure: Callable[[str, TreesimError], None] | None = None,
        **options: Any,
    ) -> Iterator[tuple[QueryPage, SegmentAnswer]]:
        """Yield all pages of a folder, a WARC file, another index or a list of pages, each with its answer.

        Parameters
        ----------
        batch
            See `treesim_dask.query.batch.read_queries`.
        k, options
            As for `search`.
        storage_options
            For reading archives, or another index.
        on_failure
            Called with each line of a list whose pages cannot be read and each page too costly to parse, and why;
            without it the first of these ends all.
        """
        from treesim_dask.query.batch import read_queries

        load = partial(self._load, storage_options=storage_options)
        queries = read_queries(os.fspath(batch), load, self.config, storage_options, on_failure)
        return self.search_many(queries, k, storage_options=storage_options, **options)

    def _load(self, page: PageLike, storage_options: Mapping[str, Any] | None) -> QueryPage:
        return next(self._load_all([page], storage_options))

    def _load_all(self, pages: Iterable[PageLike], storage_options: Mapping[str, Any] | None) -> Iterator[QueryPage]:
        remaining = iter(pages)
        while some := list(islice(remaining, _PAGES_AT_ONCE)):
            yield from self._retry(partial(self._load_some, some, storage_options))

    def _load_some(self, pages: Sequence[PageLike], storage_options: Mapping[str, Any] | None) -> list[QueryPage]:
        named = [os.fspath(page) if isinstance(page, os.PathLike) else page for page in pages]
        return load_queries(named, self.segments, self.config, storage_options)

    def _retry(self, ask: Callable[[], _T], is_here: bool = True) -> _T:
        """Ask; where something was read and the segments are no longer those that were opened, again of what is there.

        Compaction removes segments, and a source that is indexed anew has other files under the same names: what is
        kept in memory does not go with them. An answer from memory alone is right as it is, and nothing is looked up.
        """
        for n_failed in range(_N_TRIES):
            n_missed = self.cache.n_missed
            try:
                answer = ask()
                # workers keep their own pieces
                if (is_here and self.cache.n_missed == n_missed) or self._is_as_opened():
                    return answer
            except (FileNotFoundError, IndexFormatError):
                if n_failed and self._is_as_opened():
                    raise
            self.refresh()
        raise IndexFormatError(f"{self.url} changes faster than it can be read: ask again once its build is done")

    def _is_as_opened(self) -> bool:
        now = stamp_segments(self.store, [segment.segment_id for segment in self.segments])
        return now.items() <= self._stamps.items()

    def _see_changes(self) -> None:
        """See the index as it is now if its segments are not those that were opened: what is read later is of now."""
        # compaction removes segments before it writes the catalog
        is_there = {segment.segment_id for segment in self.segments}.issubset(self.store.list_names(SEGMENTS))
        if not is_there or not self._is_as_opened():
            self.refresh()

    def _answer(
        self, queries: Sequence[QueryPage], options: SearchOptions, client: Client | None
    ) -> list[SegmentAnswer]:
        check_metric(options.ordering, self.config)
        check_hosts(queries, options.conditions)
        ask = partial(self._ask, client)
        return self._retry(lambda: self._ask_and_fill(ask, queries, options), is_here=client is None)

    def _options(self, k: int, storage_options: Mapping[str, Any] | None, options: Mapping[str, Any]) -> SearchOptions:
        if unknown := options.keys() - _OPTIONS:
            raise ConfigError(f"a search has no option {min(unknown)!r}; there are {', '.join(sorted(_OPTIONS))}")
        has_formula = self.config.family == "minhash"
        bands_and_rows = (self.config.n_bands, self.config.n_rows) if has_formula else None
        return SearchOptions(k, storage_options=storage_options, bands_and_rows=bands_and_rows, **options)

    def _ask_and_fill(
        self,
        ask: Callable[[Sequence[QueryPage], SearchOptions], list[SegmentAnswer]],
        queries: Sequence[QueryPage],
        options: SearchOptions,
    ) -> list[SegmentAnswer]:
        return fill_answers(ask, queries, options, self.config.n_rows) if options.fill else ask(queries, options)

    def _ask(self, client: Client | None, queries: Sequence[QueryPage], options: SearchOptions) -> list[SegmentAnswer]:
        if client is None:
            return search_segments(self.segments, queries, options)
        from treesim_dask.dataflow import search_on_cluster

        return search_on_cluster(client, self.segments, queries, options, self._snapshot, self._memory)

    def query(self, page: PageLike, k: int = 10, **options: Any) -> pandas.DataFrame:
        """Return the pages built most like the given one, best first.

        Parameters
        ----------
        page
            HTML as bytes, or the name of a page: a URL (fetched), an HTML file, ``-`` for standard input,
            ``id:PAGE_ID``, ``warc:FILE#OFFSET``.
        k
            How many.
        options
            Those of `treesim_dask.query.options.SearchOptions` (``metric``, ``with_self``, ``conditions``, ...);
            ``client`` to search on a Dask cluster, ``storage_options`` for reading ``warc:`` pages.

        Returns
        -------
        pandas.DataFrame
            A row a match, with the columns of `treesim_dask.query.matches.Match`.
        """
        import pandas

        from treesim_dask.query.matches import Match

        answer = self.search(page, k, **options)
        columns = list(Match._fields)
        return pandas.DataFrame([[getattr(m, name) for name in columns] for m in answer.matches], columns=columns)

    def evaluate(self, labels: Mapping[str, str] | None, metric: str = DEFAULT_METRIC, **options: Any) -> Evaluation:
        """Measure precision against labels and recall against exact search; see `treesim_dask.query.evaluate`."""
        from treesim_dask.query.evaluate import evaluate

        return self._retry(lambda: evaluate(self.segments, self.config, labels, find_metric(metric), **options))

    @property
    def pages(self) -> dask.dataframe.DataFrame:
        """The pages of all segments as a lazy Dask DataFrame, one partition a segment."""
        from treesim_dask.dataflow import page_frame

        self._see_changes()
        return page_frame(self.segments)

    @property
    def signatures(self) -> dask.array.Array:
        """The signatures of all distinct shapes as a lazy Dask array. Shape (n_shapes, n_hashes), dtype uint32."""
        from treesim_dask.dataflow import signature_array

        self._see_changes()
        return signature_array(self.segments, self.config.n_hashes)

    @cached_property
    def info(self) -> IndexInfo:
        """What the index holds."""
        counts = self._retry(lambda: [count_live(segment) for segment in self.segments])
        summaries = [segment.summary for segment in self.segments]
        return IndexInfo(
            url=self.url,
            config=self.config,
            n_segments=len(summaries),
            n_pages=sum(count[0] for count in counts),
            n_shapes=sum(count[1] for count in counts),
            n_nodes=sum(count[2] for count in counts),
            n_html_bytes=sum(s.n_html_bytes for s in summaries),
            n_index_bytes=sum(s.n_bytes for s in summaries),
            skipped=dict(sum((Counter(s.skipped) for s in summaries), Counter())),
        )

    def delete(
        self,
        urls: Collection[str] = (),
        hosts: Collection[str] = (),
        page_ids: Collection[str] = (),
        warcs: Collection[str] = (),
        whole_suffix: bool = False,
    ) -> int:
        """Delete pages by URL, host (with its subdomains), page id or WARC file, and return how many.

        They are gone from all later answers at once, and from the files with the next compaction. A WARC file may be
        given by the end of its path. A host that is a public suffix, such as ``com``, is refused without
        `whole_suffix`: all sites below it are meant then.
        """
        from treesim_dask.index.deletion import delete_pages

        given = {"urls": urls, "hosts": hosts, "page_ids": page_ids, "warcs": warcs}
        for name, values in given.items():
            if "" in check_strings(name, values):
                raise ConfigError(f"one of the {name} to delete is empty")
        wanted, wanted_urls = Conditions(hosts=tuple(hosts)), set(urls)
        if not whole_suffix and (suffixes := [host for host in wanted.hosts if is_public_suffix(host)]):
            what = f"anybody may have a site below {suffixes[0]}: name the domains, or give whole_suffix to delete all"
            raise ConfigError(what, "whole_suffix")

        def is_meant(page: dict[str, Any]) -> bool:
            is_of_warc = any(page["warc"] == warc or page["warc"].endswith("/" + warc) for warc in warcs)
            is_of_host = bool(hosts) and wanted.accepts({**page, "n_nodes": 0})
            return page["url"] in wanted_urls or is_of_warc or is_of_host

        n_deleted = delete_pages(self.store, is_meant, {page_id.removeprefix("id:") for page_id in page_ids})
        self.refresh()
        return n_deleted

    def export(self, folder: str | os.PathLike[str], file_format: str = "parquet") -> dict[str, int]:
        """Write the index as three tables, ``pages``, ``shapes`` and ``bands``, and return the rows of each.

        Parameters
        ----------
        folder
            A local folder.
        file_format
            ``"parquet"`` or ``"arrow"``.
        """
        from treesim_dask.index.export import export_tables

        return self._retry(lambda: export_tables(self.segments, folder, file_format))

    def check(
        self,
        repair: bool = False,
        on_segment: Callable[[int, int], None] = lambda done, total: None,
        quick: bool = False,
    ) -> list[Problem]:
        """Return everything that is wrong with the index; see `treesim_dask.api.check`."""
        return check(self.url, self.store.storage_options, repair, on_segment, quick)

    def __repr__(self) -> str:
        info = self.info
        return (
            f"<Index {self.url}: {info.n_pages:,} pages of {info.n_shapes:,} shapes in {info.n_segments:,} segments, "
            f"{info.n_index_bytes / 2**20:,.1f} MiB, {self.config.n_bands} bands of {self.config.n_rows} rows>"
        )

    def _repr_html_(self) -> str:
        info = self.info
        rows = {
            "index": self.url,
            "pages": f"{info.n_pages:,}",
            "distinct shapes": f"{info.n_shapes:,}",
            "segments": f"{info.n_segments:,}",
            "size": f"{info.n_index_bytes / 2**20:,.1f} MiB",
            "family": self.config.family,
            "bands × rows": f"{self.config.n_bands} × {self.config.n_rows}",
        }
        cells = "".join(f"<tr><th>{name}</th><td>{html.escape(value)}</td></tr>" for name, value in rows.items())
        return f"<table>{cells}</table>"
