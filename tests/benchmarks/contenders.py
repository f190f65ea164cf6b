"""What is compared: the floor, this package, and the pipeline of the report.

A contender is a context manager with `run`, which reads files and returns the number of pages, and `details`, which
says what came of it. What it starts (workers, a JVM) it starts on entry.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

from tests.benchmarks import report
from treesim_dask.allocator import keep_freed_memory

_SPARK_BATCH_PAGES = 1000


class Contender:
    """One way to handle the pages of some archives."""

    def __enter__(self) -> Contender:
        keep_freed_memory()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop what was started."""

    def run(self, files: Sequence[str], folder: Path) -> int:
        """Handle the files, write to `folder` if anything, and return the number of pages."""
        raise TypeError(f"{type(self).__name__} does nothing")

    def details(self, folder: Path) -> dict[str, Any]:
        """Return figures beyond time and memory."""
        return {}


class Floor(Contender):
    """FastWARC reads, lexbor parses, nothing else happens: no build on these libraries can take less."""

    def run(self, files: Sequence[str], folder: Path) -> int:
        from fastwarc.warc import ArchiveIterator, WarcRecordType
        from selectolax.lexbor import LexborHTMLParser

        n_pages = 0
        for file in files:
            with open(file, "rb") as stream:  # noqa: PTH123
                for record in ArchiveIterator(stream, record_types=WarcRecordType.response):
                    headers = record.http_headers
                    if headers is not None and headers.status_code == 200 and "html" in headers.get("Content-Type", ""):
                        LexborHTMLParser(record.reader.read())
                        n_pages += 1
        return n_pages


class FloorOnTwo(Contender):
    """The floor in two processes at once, each taking the next file: how much two cores of this machine are to one."""

    def __enter__(self) -> FloorOnTwo:
        self._pool = ProcessPoolExecutor(2)
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()

    def run(self, files: Sequence[str], folder: Path) -> int:
        return sum(self._pool.map(_run_floor, files))


def _run_floor(file: str) -> int:
    with Floor() as floor:
        return floor.run([file], Path())


class PlainFloor(Contender):
    """warcio reads, lexbor parses, nothing else happens."""

    def run(self, files: Sequence[str], folder: Path) -> int:
        from selectolax.lexbor import LexborHTMLParser

        n_pages = 0
        for _, html in report.read_html(files):
            LexborHTMLParser(html)
            n_pages += 1
        return n_pages


class Build(Contender):
    """This package, complete: segments are written, one after the other, in this process."""

    def __enter__(self) -> Contender:
        _read_large_page()
        return super().__enter__()

    def run(self, files: Sequence[str], folder: Path) -> int:
        from treesim_dask import dataflow

        return sum(dataflow.index_source(source, _job(folder)).n_pages for source in _sources(files))

    def details(self, folder: Path) -> dict[str, Any]:
        parts: defaultdict[str, int] = defaultdict(int)
        for path in folder.rglob("*"):
            if path.is_file():
                parts[path.relative_to(folder).parts[2] if "segments" in path.parts else path.name] += (
                    path.stat().st_size
                )
        return {"index_bytes": dict(sorted(parts.items()))}


class BuildStages(Build):
    """The same with a clock around each stage."""

    def __enter__(self) -> BuildStages:
        from treesim_dask import dataflow
        from treesim_dask.dom import shapes
        from treesim_dask.dom.features import Feature
        from treesim_dask.index.writer import SegmentWriter

        super().__enter__()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        shapes.parse_trees = self._clocked("parse and walk", shapes.parse_trees)
        Feature.count = self._clocked("branches", Feature.count)  # type: ignore[method-assign]
        dataflow.band_keys = self._clocked("bands", dataflow.band_keys)
        for name in ("__enter__", "add_pages", "add_shapes", "publish"):
            setattr(SegmentWriter, name, self._clocked("write", getattr(SegmentWriter, name)))
        dataflow.read_pages = self._clocked_iterator("read", dataflow.read_pages)
        make_family = dataflow.make_family
        dataflow.make_family = lambda config: _ClockedFamily(make_family(config), self._clocked)
        return self

    def run(self, files: Sequence[str], folder: Path) -> int:
        self._seconds.clear()
        return super().run(files, folder)

    def details(self, folder: Path) -> dict[str, Any]:
        return {"stage_seconds": dict(self._seconds)}

    def _clocked(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def clocked(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self._seconds[stage] += time.process_time() - start

        return clocked

    def _clocked_iterator(self, stage: str, function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def clocked(*args: Any, **kwargs: Any) -> Iterator[Any]:
            step = self._clocked(stage, function(*args, **kwargs).__next__)
            while True:
                try:
                    item = step()
                except StopIteration:
                    return
                yield item

        return clocked


class _ClockedFamily:
    def __init__(self, family: Any, clocked: Callable[..., Any]) -> None:
        self.sign = clocked("signatures", family.sign)


class Report(Contender):
    """The report's pipeline on one core; its model stays in memory, so nothing is written."""

    def run(self, files: Sequence[str], folder: Path) -> int:
        model = report.Model()
        for page in report.read_html(files):
            model.add(report.process_page(page))
        return len(model)


class SparkReport(Contender):
    """The report's pipeline as the report ran it: batches to Spark, the model on the master."""

    def __enter__(self) -> SparkReport:
        from pyspark.sql import SparkSession

        settings = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        self._session = settings.config("spark.driver.maxResultSize", "4g").getOrCreate()
        self._session.sparkContext.setLogLevel("ERROR")
        return self

    def __exit__(self, *error: object) -> None:
        self._session.stop()

    def run(self, files: Sequence[str], folder: Path) -> int:
        model = report.Model()
        for batch in _batches(report.read_html(files), _SPARK_BATCH_PAGES):
            for page in self._session.sparkContext.parallelize(batch, 4).map(report.process_page).collect():
                model.add(page)
        return len(model)


class DaskBuild(Build):
    """This package on local Dask workers."""

    n_workers = 1

    def __enter__(self) -> DaskBuild:
        from treesim_dask.clients import open_client

        self._stack = ExitStack()
        self._client = self._stack.enter_context(open_client(workers=self.n_workers))
        self._client.run(_read_large_page)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def run(self, files: Sequence[str], folder: Path) -> int:
        from treesim_dask.dataflow import build_segments

        return sum(outcome.n_pages for outcome, _ in build_segments(self._client, _sources(files), _job(folder)))


class DaskBuildOnTwo(DaskBuild):
    """This package on two local Dask workers."""

    n_workers = 2


def _read_large_page() -> None:
    """Have compiled what only large pages need: none comes in the warm-up."""
    from treesim_dask.dom.cost import is_affordable

    is_affordable(b"<p>" * 2**19)


def _job(folder: Path) -> Any:
    from treesim_dask.config import IndexConfig, PageFilter
    from treesim_dask.dataflow import BuildJob

    return BuildJob(str(folder), IndexConfig(), PageFilter(), False, {}, {})


def _sources(files: Sequence[str]) -> list[Any]:
    from treesim_dask.types import Source

    paths = [str(Path(file).absolute()) for file in files]
    return [Source(path, "archive", (path,)) for path in paths]


def _batches(pages: Iterable[Any], n_pages: int) -> Iterator[list[Any]]:
    remaining = iter(pages)
    while batch := list(islice(remaining, n_pages)):
        yield batch


CONTENDERS: dict[str, type[Contender]] = {
    "floor": Floor,
    "floor-2": FloorOnTwo,
    "floor-plain": PlainFloor,
    "build": Build,
    "build-plain": Build,
    "stages": BuildStages,
    "report": Report,
    "spark": SparkReport,
    "dask-1": DaskBuild,
    "dask-2": DaskBuildOnTwo,
}
