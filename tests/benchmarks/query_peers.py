"""The same pages, the same queries, the same exact rerank: this index beside other ways to find near neighbours.

All index the distinct shapes of a synthetic index (see `benchmarks.synthetic`) and are asked for the ten most similar
pages by log-cosine. Recall is the share of answers as good as the tenth of a brute-force search. Times include
hashing the query and the exact rerank, and are the median of five rounds after one to warm up. Ours reads from disk
and keeps what it has read within its usual bound, the others hold everything in memory. Spark is asked for few queries
and once, since each of them scans its table.

    PYTHONPATH=tests python -m benchmarks.query_peers INDEX [N_QUERIES] [SPARK_QUERIES]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from treesim_dask import open_index
from treesim_dask.index.parts import join_vectors
from treesim_dask.query.metrics import METRICS, measure_overlap
from treesim_dask.query.page import make_queries
from treesim_dask.types import ShapeBatch

K = 10
Answer = tuple[list[np.ndarray], float]  # the scores found for each query, and seconds

METRIC = METRICS["log-cosine"]


class Pages:
    """The distinct shapes of an index in memory, and how many pages have each."""

    def __init__(self, url: str) -> None:
        segments = open_index(url).segments
        self.shapes = join_vectors([segment.read_all_shapes() for segment in segments])
        self.n_pages = np.concatenate([np.bincount(segment.page_shapes) for segment in segments])

    def rerank(self, query: ShapeBatch, candidates: np.ndarray) -> np.ndarray:
        """Return the scores of the best pages among those of some shapes."""
        scores = METRIC.scores(measure_overlap(query, self.shapes.take(candidates)))
        best = np.argsort(-scores, kind="stable")[:K]
        return np.repeat(scores[best], self.n_pages[candidates[best]])[:K]


def timed(ask: Callable[[], list[np.ndarray]], n_rounds: int = 5) -> Answer:
    """Ask once to warm up, then some times more, and return the scores and the median time."""
    ask()
    seconds = []
    for _ in range(n_rounds):
        started = time.perf_counter()
        scores = ask()
        seconds.append(time.perf_counter() - started)
    return scores, float(np.median(seconds))


def ask_ours(url: str, queries: Sequence[ShapeBatch], with_matches: bool = False) -> Answer:
    """All queries as a batch, on an index that has been asked before, as the others have all in memory.

    Like the others it gives pages and scores; `with_matches` makes of them what a user looks at: URLs, dates, places.
    """
    index = open_index(url)

    def ask() -> list[np.ndarray]:
        asked = make_queries([""] * len(queries), join_vectors(queries), index.config)
        answers = [answer for _, answer in index.search_many(asked, K)]
        if with_matches:
            return [np.array([match.score for match in answer.matches]) for answer in answers]
        return [answer.scores for answer in answers]

    return timed(ask)


def ask_datasketch(pages: Pages, queries: Sequence[ShapeBatch]) -> Answer:
    """MinHashLSH with the same bands and rows, in memory."""
    from datasketch import MinHash, MinHashLSH

    def sign(branches: np.ndarray) -> MinHash:
        signature = MinHash(num_perm=125, hashfunc=int)
        signature.update_batch(branches.tolist())
        return signature

    shapes = pages.shapes
    lsh = MinHashLSH(num_perm=125, params=(25, 5))
    with lsh.insertion_session() as session:
        for row in range(len(shapes)):
            signature = sign(shapes.branches[shapes.indptr[row] : shapes.indptr[row + 1]])
            session.insert(row, signature, check_duplication=False)

    def find(query: ShapeBatch) -> np.ndarray:
        return np.array(sorted(lsh.query(sign(query.branches))), np.int64)

    return timed(lambda: [pages.rerank(query, find(query)) for query in queries])


def project(shapes: ShapeBatch, n_dimensions: int = 256) -> np.ndarray:
    """Return dense unit vectors whose products estimate log-cosine: branches hashed to signed places."""
    mixed = (shapes.branches.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)
    row = np.repeat(np.arange(len(shapes)), np.diff(shapes.indptr))
    place = row * n_dimensions + (mixed % np.uint64(n_dimensions)).astype(np.int64)
    signs = np.where((mixed >> np.uint64(30)) & np.uint64(1), 1.0, -1.0)
    sums = np.bincount(place, signs * np.log1p(shapes.counts), minlength=len(shapes) * n_dimensions)
    vectors = sums.reshape(len(shapes), n_dimensions).astype(np.float32)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def ask_faiss(pages: Pages, queries: Sequence[ShapeBatch], n_reranked: int = 50) -> Answer:
    """HNSW over the projected vectors, all queries as a batch, the nearest reranked exactly."""
    import faiss

    shapes = pages.shapes
    index = faiss.IndexHNSWFlat(256, 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efSearch = 128
    index.add(project(shapes))

    def ask() -> list[np.ndarray]:
        _, nearest = index.search(project(join_vectors(queries)), n_reranked)
        return [pages.rerank(query, row[row >= 0]) for query, row in zip(queries, nearest, strict=True)]

    return timed(ask)


def ask_spark(pages: Pages, queries: Sequence[ShapeBatch]) -> Answer:
    """MLlib's MinHashLSH, approxNearestNeighbors, the nearest reranked exactly."""
    from pyspark.ml.feature import MinHashLSH
    from pyspark.ml.linalg import Vectors
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    shapes, size = pages.shapes, 2**30

    def vector(row: int, batch: ShapeBatch) -> object:
        places = batch.branches[batch.indptr[row] : batch.indptr[row + 1]].tolist()
        return Vectors.sparse(size, places, [1.0] * len(places))

    table = spark.createDataFrame([(row, vector(row, shapes)) for row in range(len(shapes))], ["row", "features"])
    model = MinHashLSH(inputCol="features", outputCol="hashes", numHashTables=25, seed=1).fit(table)
    hashed = model.transform(table).cache()
    hashed.count()

    def find(query: ShapeBatch) -> np.ndarray:
        nearest = model.approxNearestNeighbors(hashed, vector(0, query), 50).select("row").collect()
        return np.array([row[0] for row in nearest], np.int64)

    answer = timed(lambda: [pages.rerank(query, find(query)) for query in queries], n_rounds=1)
    spark.stop()
    return answer


def _padded(scores: np.ndarray) -> np.ndarray:
    """Return the first K scores; what was not found counts as no match at all."""
    return np.append(scores[:K], np.full(K - min(K, len(scores)), -1.0))


def main(url: str, n_queries: int = 300, n_spark: int = 10) -> None:
    """Ask all, and print the table ordered by recall."""
    pages = Pages(url)
    shapes = pages.shapes
    rows = np.random.default_rng(5).choice(len(shapes), n_queries, replace=False)
    queries = [shapes.take(np.array([row])) for row in rows]
    started = time.perf_counter()
    exact = [pages.rerank(query, np.arange(len(shapes))) for query in queries]
    seconds = time.perf_counter() - started
    print(f"{len(shapes):,} distinct shapes, {n_queries} queries", flush=True)
    table = [("brute force", 1.0, n_queries / seconds)]
    contenders: list[tuple[str, Callable[[], Answer]]] = [
        ("treesim_dask, batch", lambda: ask_ours(url, queries)),
        ("treesim_dask, batch, as match objects", lambda: ask_ours(url, queries, with_matches=True)),
        ("datasketch MinHashLSH, 25 x 5", lambda: ask_datasketch(pages, queries)),
        ("FAISS HNSW, 256 dimensions", lambda: ask_faiss(pages, queries)),
        ("Spark MLlib MinHashLSH, 25 tables", lambda: ask_spark(pages, queries[:n_spark])),
    ]
    for name, ask in contenders:
        try:
            scores, seconds = ask()
        except ImportError as error:
            print(f"{name}: not installed ({error.name})", flush=True)
            continue
        recalls = [np.mean(_padded(found) >= best[-1]) for found, best in zip(scores, exact, strict=False)]
        table.append((name, float(np.mean(recalls)), len(scores) / seconds))
        print(f"{name:<36} recall {table[-1][1]:.4f}  {table[-1][2]:>10,.1f} queries/s", flush=True)
    print("\n| | recall at 10 | queries a second |\n|---|---|---|")
    for name, recall, rate in sorted(table, key=lambda line: -line[1]):
        print(f"| {name} | {recall:.4f} | {rate:,.1f} |")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
