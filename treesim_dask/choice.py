"""Which input is read: what the user names, files and folders or extracts of a crawl's index, and how much of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from treesim_dask.config import check_count
from treesim_dask.crawl.extracts import Place, is_cdxj, locate_places, make_extract_sources, read_cdxj
from treesim_dask.crawl.inputs import DEFAULT_CRAWL_BASE_URL, find_files, make_sources, stable_hash
from treesim_dask.crawl.listing import FoundFile, normalise
from treesim_dask.errors import SourceError
from treesim_dask.index.tables import read_places
from treesim_dask.types import Source


@dataclass(frozen=True, slots=True)
class InputChoice:
    """Which input is read, and how it is reached.

    Parameters
    ----------
    names
        As for `treesim_dask.crawl.inputs.find_sources`, or extracts (``.cdxj``, ``.jsonl``, ``.parquet``).
    limit
        Only the first `limit` files. Of an extract each WARC file it names counts as one.
    sample
        Only a random choice of `sample` files; a larger sample with the same seed contains a smaller one.
    sample_seed
        Seeds the choice.
    storage_options
        For fsspec.
    crawl_base_url
        Where crawl ids and the paths of Common Crawl's lists are found.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("a.warc", "b.warc"):
    ...         with open(f"{folder}/{name}", "w") as file:
    ...             _ = file.write("WARC/1.1")
    ...     [source] = InputChoice((folder,), limit=1).find_sources()
    ...     source.url.removeprefix(folder)
    '/a.warc'
    """

    names: Sequence[str | os.PathLike[str]] | str | os.PathLike[str]
    limit: int | None = None
    sample: int | None = None
    sample_seed: int = 0
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    crawl_base_url: str = DEFAULT_CRAWL_BASE_URL

    def __post_init__(self) -> None:
        for name, value in (("limit", self.limit), ("sample", self.sample)):
            if value is not None:
                check_count(name, value)

    @property
    def paths(self) -> list[str]:
        """What is named, as strings."""
        names = [self.names] if isinstance(self.names, (str, os.PathLike)) else self.names
        return [os.fspath(name) for name in names]

    @property
    def is_whole(self) -> bool:
        """True if nothing of what is named is left out."""
        return self.limit is None and self.sample is None

    def find_sources(self) -> list[Source]:
        """Return the sources, sorted by url.

        Of several extracts the places in one WARC file are one source; a WARC file that is named itself needs none.
        """
        extracts = [path for path in self.paths if _is_extract(path)]
        others = [path for path in self.paths if not _is_extract(path)]
        files: list[FoundFile] = []
        if others or not extracts:
            files = find_files(others, self.storage_options, self.crawl_base_url)
        whole = {file.url for file in files}
        places = [place for path in extracts for place in self._read_extract(path) if place[0] not in whole]
        chosen = self._choose([*files, *make_extract_sources(places)])
        found = make_sources([file for file in chosen if isinstance(file, FoundFile)])
        found += [source for source in chosen if isinstance(source, Source)]
        return sorted(found, key=lambda source: source.url)

    def _choose(self, found: Iterable[FoundFile | Source]) -> list[FoundFile | Source]:
        chosen = sorted(found, key=lambda file: file.url)[: self.limit]
        if self.sample is None:
            return chosen
        return sorted(chosen, key=lambda file: stable_hash(f"{self.sample_seed} {file.url}"))[: self.sample]

    def _read_extract(self, name: str) -> list[Place]:
        url = normalise(name)
        if is_cdxj(name):
            return locate_places(read_cdxj(url, self.storage_options), url, self.crawl_base_url)
        try:
            return locate_places(read_places(url, self.storage_options), url, self.crawl_base_url)
        except (OSError, ValueError) as error:
            raise error if isinstance(error, SourceError) else SourceError(f"cannot read {name}: {error}") from None


def _is_extract(name: str) -> bool:
    return is_cdxj(name) or name.endswith(".parquet")
