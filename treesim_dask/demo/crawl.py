"""Synthetic crawls on disk, in Common Crawl's layout.

Below a folder: ``crawl-data/<crawl id>/segments/<segment>/warc/*.warc.gz``, ``crawl-data/<crawl id>/warc.paths.gz``
that lists them, and ``labels.csv`` with URL, template and site of every page.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import IO

from treesim_dask.config import check_count
from treesim_dask.demo.pages import demo_page, page_date, plan_page
from treesim_dask.demo.responses import other_response, page_response
from treesim_dask.demo.warc import exchange_records, revisit_record, warcinfo_record
from treesim_dask.errors import ConfigError, StorageError

DEFAULT_CRAWL_ID = "DEMO-2026-02"
_FILES_PER_SEGMENT = 10
_REVISIT_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class DemoFile:
    """One WARC file of a crawl: where it lies below the folder, and which pages it holds."""

    path: str
    first: int
    n_pages: int


@dataclass(frozen=True, slots=True)
class DemoCrawl:
    """A synthetic crawl. Nothing is made before it is asked for, and any part can be made by itself.

    Parameters
    ----------
    n_pages
        Pages in all. Redirects, errors, pictures and the like come on top, about 8 for 100 pages.
    n_files
        WARC files; the pages are shared out evenly.
    seed
        Another seed gives other sites and pages.
    crawl_id
        Names the crawl in paths.

    Examples
    --------
    >>> [(file.first, file.n_pages) for file in DemoCrawl(n_pages=10, n_files=3).files]
    [(0, 3), (3, 3), (6, 4)]
    """

    n_pages: int = 2000
    n_files: int = 4
    seed: int = 1
    crawl_id: str = DEFAULT_CRAWL_ID

    def __post_init__(self) -> None:
        check_count("n_pages", self.n_pages)
        if not 1 <= self.n_files <= self.n_pages:
            what = f"n_files must be from 1 to n_pages = {self.n_pages}, got {self.n_files}"
            raise ConfigError(what, "n_files", "n_pages")
        if not 0 <= self.seed < 2**32:
            raise ConfigError(f"seed must be from 0 to 2**32 - 1, got {self.seed}", "seed")

    @property
    def files(self) -> list[DemoFile]:
        """The WARC files of the crawl, in order."""
        bounds = [self.n_pages * number // self.n_files for number in range(self.n_files + 1)]
        return [
            DemoFile(self._file_path(number, first, end), first, end - first)
            for number, (first, end) in enumerate(pairwise(bounds))
        ]

    @property
    def paths_file(self) -> str:
        """Where the list of WARC files lies below the folder."""
        return f"crawl-data/{self.crawl_id}/warc.paths.gz"

    def labels(self) -> Iterator[tuple[str, str, str]]:
        """Yield URL, template and site of every page.

        Examples
        --------
        >>> url, template, site = next(DemoCrawl().labels())
        >>> site in url, template.count("/")
        (True, 1)
        """
        for number in range(self.n_pages):
            plan = plan_page(self.seed, number)
            yield plan.url, plan.template.label, plan.site.host

    def _file_path(self, number: int, first: int, end: int) -> str:
        segment = int(page_date(0).timestamp()) * 1000 + self.seed
        times = f"{page_date(first):%Y%m%d%H%M%S}-{page_date(end):%Y%m%d%H%M%S}"
        return (
            f"crawl-data/{self.crawl_id}/segments/{segment}.{number // _FILES_PER_SEGMENT}/warc/"
            f"{self.crawl_id}-{times}-{number:05d}.warc.gz"
        )


def write_demo_crawl(
    folder: str | os.PathLike[str],
    n_pages: int = 2000,
    n_files: int = 4,
    seed: int = 1,
    crawl_id: str = DEFAULT_CRAWL_ID,
) -> list[str]:
    """Write a whole synthetic crawl; see `DemoCrawl` for the parameters.

    A second run writes the same bytes over the same files.

    Returns
    -------
    list of str
        The WARC files.

    Raises
    ------
    ConfigError
        If the folder holds another crawl of the same id: the two would be taken for one.
    """
    crawl = DemoCrawl(n_pages, n_files, seed, crawl_id)
    _claim_folder(Path(folder), crawl)
    paths = [write_demo_warc(Path(folder, file.path), file.first, file.n_pages, seed) for file in crawl.files]
    write_demo_labels(Path(folder, "labels.csv"), crawl)
    return paths


def write_demo_warc(path: str | os.PathLike[str], first: int, n_pages: int, seed: int = 1) -> str:
    """Write one WARC file with the pages from `first` on, and return its path.

    Files can be written in any order and by any number of processes.
    """
    target = Path(path)

    def write_records(stream: IO[bytes]) -> None:
        file_key = f"seed {seed} file {first}"
        stream.write(warcinfo_record(target.name, file_key, page_date(first)))
        for number in range(first, first + n_pages):
            stream.write(_records_of(seed, number, file_key))

    return _write_whole(target, write_records)


def write_demo_labels(path: str | os.PathLike[str], crawl: DemoCrawl) -> str:
    """Write a CSV table with the columns url, template and site, a row for each page, and return its path."""

    def write_rows(stream: IO[bytes]) -> None:
        text = io.TextIOWrapper(stream, "utf-8", newline="")
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(("url", "template", "site"))
        rows.writerows(crawl.labels())
        text.detach()

    return _write_whole(Path(path), write_rows)


def _records_of(seed: int, number: int, file_key: str) -> bytes:
    """Return the WARC records of a page and of what the crawler met next to it."""
    key = f"seed {seed} page {number}"
    response = page_response(demo_page(seed, number))
    records = exchange_records(response, key, file_key)
    other = other_response(seed, number)
    if other is not None:
        records += exchange_records(other, f"{key} other", file_key)
    if Random(key).random() < _REVISIT_SHARE:
        records += revisit_record(response, key, file_key)
    return records


def _claim_folder(folder: Path, crawl: DemoCrawl) -> None:
    """Write the list of WARC files first: it says whose the folder is, even if the run is cut short."""
    listing = "".join(f"{file.path}\n" for file in crawl.files).encode("ascii")
    target = folder / crawl.paths_file
    with _storage_errors(target):
        is_taken = target.exists() and _read_listing(target) != listing
    if is_taken:
        raise ConfigError(
            f"{folder} holds another crawl {crawl.crawl_id}, of other size or seed; use an empty folder or remove it"
        )
    _write_whole(target, lambda stream: stream.write(gzip.compress(listing, mtime=0)))


def _read_listing(path: Path) -> bytes | None:
    """Return the unpacked list of WARC files, None for a file that is something else."""
    try:
        return gzip.decompress(path.read_bytes())
    except (gzip.BadGzipFile, EOFError, zlib.error):
        return None


def _write_whole(target: Path, write: Callable[[IO[bytes]], object]) -> str:
    """Write a file under a temporary name and rename it, so that a file of the right name is always whole."""
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    with _storage_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as stream:
                write(stream)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    return str(target)


@contextmanager
def _storage_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot write {target}: {error.strerror or error}; choose a folder with space and permission to write"
        ) from error
