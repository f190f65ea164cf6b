"""Small indexes written straight from shapes, and what a search over them must answer, by brute force."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from strategies import shape_batch

from treesim_dask.config import IndexConfig, PageFilter
from treesim_dask.hashing.bands import band_keys
from treesim_dask.hashing.family import make_family
from treesim_dask.index.manifest import write_manifest
from treesim_dask.index.segment import segment_id_of
from treesim_dask.index.store import Store
from treesim_dask.index.writer import SegmentWriter
from treesim_dask.query.metrics import METRICS, measure_overlap
from treesim_dask.query.page import make_query
from treesim_dask.types import PageBatch, Source

CONFIG = IndexConfig(n_bands=6, n_rows=2)


def random_sources(seed: int, n_sources: int = 3, n_pages: int = 40, n_templates: int = 5) -> dict[str, list[dict]]:
    """Pages of a few templates, many of one shape, spread over sources. A page is a dict of its columns."""
    rng = np.random.default_rng(seed)
    templates = [rng.choice(400, 25, replace=False) + 1 for _ in range(n_templates)]
    sources: dict[str, list[dict]] = {}
    for source in range(n_sources):
        pages = sources.setdefault(f"file:///crawl/{seed}-{source}.warc", [])
        for number in range(n_pages):
            template = templates[rng.integers(n_templates)]
            shape = {int(b): 1 for b in template[: 20 + int(rng.integers(6))]}
            shape[int(template[0])] = int(rng.integers(1, 4))
            site = f"www.site{rng.integers(8)}.{('example', 'co.uk')[int(rng.integers(2))]}"
            pages.append({"url": f"https://{site}/{source}/{number}", "date": int(number * 86_400_000), "shape": shape})
    return sources


def write_index(folder: Path | str, sources: dict[str, list[dict]], config: IndexConfig = CONFIG) -> Store:
    """Write a segment a source, as a build does."""
    store = Store(str(folder))
    write_manifest(store, config)
    for url, pages in sources.items():
        write_source(store, url, pages, config)
    return store


def write_source(store: Store, url: str, pages: list[dict], config: IndexConfig = CONFIG) -> None:
    source = Source(url, "archive", (url,), size=len(pages))
    with SegmentWriter(store, source, config, PageFilter()) as segment:
        for first in range(0, len(pages), 16):
            some = pages[first : first + 16]
            batch = PageBatch(
                html=[b"<p>"] * len(some),
                url=[page["url"] for page in some],
                date=[page["date"] for page in some],
                status=[200] * len(some),
                warc=[url] * len(some),
                offset=list(range(first, first + len(some))),
                length=[1] * len(some),
                digest=[None] * len(some),
            )
            shapes = segment.add_pages(batch, shape_batch([page["shape"] for page in some]))
            signatures = make_family(config).sign(shapes)
            segment.add_shapes(shapes, signatures, band_keys(signatures, config.n_bands))
        segment.skipped.add("status", url, 7)
        segment.publish()


def all_pages(sources: dict[str, list[dict]]) -> list[dict]:
    """Every page with its id, in the order of the ids."""
    pages = [
        {**page, "page_id": f"{segment_id_of(url)}-{row}", "warc": url}
        for url, rows in sources.items()
        for row, page in enumerate(rows)
    ]
    return sorted(pages, key=lambda page: (page["page_id"].split("-")[0], int(page["page_id"].split("-")[1])))


def query_of(page: dict, config: IndexConfig = CONFIG):
    return make_query(page["page_id"], shape_batch([page["shape"]]), config, page_id=page["page_id"], url=page["url"])


def brute_force(pages: list[dict], query, metric="log-cosine", k=10, keep=lambda page: True, site=None, config=CONFIG):
    """The page ids and scores of the best k among all pages that share a bucket with the query."""
    shapes = shape_batch([page["shape"] for page in pages])
    keys = band_keys(make_family(config).sign(shapes), config.n_bands)
    scores = METRICS[metric].scores(measure_overlap(query.shape, shapes))
    sign = 1 if METRICS[metric].is_distance else -1
    candidates = [i for i in range(len(pages)) if (keys[i] == query.keys).any() and keep(pages[i])]
    candidates.sort(key=lambda i: (sign * scores[i], i))
    if site is not None:
        seen: set[str] = set()
        candidates = [i for i in candidates if not (site(pages[i]) in seen or seen.add(site(pages[i])))]
    return [(pages[i]["page_id"], float(scores[i])) for i in candidates[:k]]


def found(answer) -> list[tuple[str, float]]:
    return [(match.page_id, match.score) for match in answer.matches]


def day(number: int) -> datetime:
    return datetime.fromtimestamp(number * 86_400, UTC)
