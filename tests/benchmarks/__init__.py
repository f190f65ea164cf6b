"""Benchmarks: what a build costs beside its peers, how it grows, and what Dask adds.

Run from the root of a checkout with the extras ``bench`` and ``fast`` installed::

    python -m tests.benchmarks.build crawl/*.warc.gz --out build.json     # or --demo 4000 for a synthetic crawl
    python -m tests.benchmarks.growth --pages 1000 100000 --out growth.json --plot growth.png
    python -m tests.benchmarks.graph --files 100000 --out graph.json

Absolute times belong to a machine; ratios between contenders of one run are what to compare.
"""
