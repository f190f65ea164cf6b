"""An index on disk: segments of Parquet and Zarr, each published whole.

In the order of the flow: ``store`` (where an index lies), ``manifest`` (its parameters), ``arrays`` and ``tables``
(Zarr and Parquet as segments use them), ``writer`` (pages and shapes to a published segment); ``cache`` (what is kept
between queries), ``compression``, ``chunks`` and ``columns`` (arrays by chunk, integer columns by row group), ``bands``
(buckets to shapes), ``parts`` (shapes to vectors and pages),
``segment`` (reading one), ``catalog`` (what all of them hold, in one file), ``tombstones`` and ``deletion`` (pages
taken out), ``live`` (which segments make up the index), ``leftovers`` (of processes that are gone); ``splitting``,
``gathering`` and ``compaction`` (many segments into few), ``merging`` (two indexes into one); ``check`` (is everything
there, and as it was written?).
"""
