"""An index, opened: ask it, look at it, check it."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from treesim_dask.config import IndexConfig
from treesim_dask.index.cache import DEFAULT_MEMORY, Cache
from treesim_dask.index.live import live_segments
from treesim_dask.index.manifest import read_manifest
from treesim_dask.index.store import Store
from treesim_dask.query.metrics import DEFAULT_METRIC, find_metric
from treesim_dask.query.options import SearchOptions
from treesim_dask.query.page import QueryPage, load_query
from treesim_dask.query.search import SegmentAnswer, search_segments

if TYPE_CHECKING:
    import dask.array
    import dask.dataframe
    import pandas
    from distributed import Client

    from treesim_dask.index.check import Problem
    from treesim_dask.query.evaluate import Evaluation


def open_index(url: str, storage_options: Mapping[str, Any] | None = None, memory: int = DEFAULT_MEMORY) -> Index:
    """Open an index for queries.

    Keep it open for many: what it has read stays in memory, up to a bound.

    Parameters
    ----------
    url
        A local path or any fsspec URL.
    storage_options
        Passed to the fsspec file system.
    memory
        Bytes of band tables, vectors and pages kept between queries; what was used least recently goes first.
    """
    return Index(Store(url, storage_options), memory)


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """What an index holds, in numbers."""

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
        self.cache = Cache(memory)
        self.refresh()

    def refresh(self) -> None:
        """See the index as it is now."""
        self.segments = live_segments(self.store, self.cache)

    @property
    def url(self) -> str:
        """Where the index lies."""
        return self.store.url

    def search(
        self,
        page: str | bytes | QueryPage,
        k: int = 10,
        client: Client | None = None,
        storage_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> SegmentAnswer:
        """Return the matches of a page as objects, with the number of candidates; see `query`."""
        chosen = SearchOptions(k, **options)
        query = page if isinstance(page, QueryPage) else load_query(page, self.segments, self.config, storage_options)
        return self._answer([query], chosen, client)[0]

    def _answer(
        self, queries: Sequence[QueryPage], options: SearchOptions, client: Client | None
    ) -> list[SegmentAnswer]:
        """Answer queries; where compaction has removed a segment meanwhile, from those that took its place."""
        try:
            return self._answer_now(queries, options, client)
        except FileNotFoundError:
            self.refresh()
            return self._answer_now(queries, options, client)

    def _answer_now(
        self, queries: Sequence[QueryPage], options: SearchOptions, client: Client | None
    ) -> list[SegmentAnswer]:
        if client is None:
            return search_segments(self.segments, queries, options)
        from treesim_dask.dataflow import search_on_cluster

        return search_on_cluster(client, self.segments, queries, options)

    def query(self, page: str | bytes | QueryPage, k: int = 10, **options: Any) -> pandas.DataFrame:
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
            A row a match, with the columns of `treesim_dask.query.search.Match`.
        """
        import pandas

        from treesim_dask.query.search import Match

        answer = self.search(page, k, **options)
        columns = list(Match.__slots__)
        return pandas.DataFrame([[getattr(m, name) for name in columns] for m in answer.matches], columns=columns)

    def evaluate(self, labels: Mapping[str, str], metric: str = DEFAULT_METRIC, **options: Any) -> Evaluation:
        """Measure precision against labels and recall against exact search; see `treesim_dask.query.evaluate`."""
        from treesim_dask.query.evaluate import evaluate

        return evaluate(self.segments, self.config, labels, find_metric(metric), **options)

    @property
    def pages(self) -> dask.dataframe.DataFrame:
        """The page tables of all segments as a lazy Dask DataFrame, one partition a segment."""
        from treesim_dask.dataflow import page_frame

        return page_frame(self.segments)

    @property
    def signatures(self) -> dask.array.Array:
        """The signatures of all distinct shapes as a lazy Dask array. Shape (n_shapes, n_hashes), dtype uint32."""
        from treesim_dask.dataflow import signature_array

        return signature_array(self.segments, self.config.n_hashes)

    @cached_property
    def info(self) -> IndexInfo:
        """What the index holds."""
        summaries = [segment.summary for segment in self.segments]
        return IndexInfo(
            url=self.url,
            config=self.config,
            n_segments=len(summaries),
            n_pages=sum(s.n_pages for s in summaries),
            n_shapes=sum(s.n_shapes for s in summaries),
            n_nodes=sum(s.n_nodes for s in summaries),
            n_html_bytes=sum(s.n_html_bytes for s in summaries),
            n_index_bytes=sum(s.n_bytes for s in summaries),
            skipped=dict(sum((Counter(s.skipped) for s in summaries), Counter())),
        )

    def check(
        self, repair: bool = False, on_segment: Callable[[int, int], None] = lambda done, total: None
    ) -> list[Problem]:
        """Return everything that is wrong with the index; with `repair`, remove orphans and return what is left."""
        from treesim_dask.index.check import check_index, remove_orphans

        problems = list(check_index(self.store, on_segment))
        if not repair:
            return problems
        removed = remove_orphans(self.store, problems)
        return [problem for problem in problems if problem not in removed]

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
