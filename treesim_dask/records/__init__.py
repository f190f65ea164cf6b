"""Repeated records of a page: find them, select them, show them.

In the order of the flow: ``page`` (HTML to numbered elements and their spliced tree), ``regions`` (`find_records`),
``selectors``, ``steps`` and ``walk`` (paths that select just the records, tried out), ``fields``
(what varies from record to record), ``render`` (table, JSON, CSV) and ``outline`` (the page with its records outlined).
"""

from treesim_dask.records.regions import RecordRegion, find_records

__all__ = ["RecordRegion", "find_records"]
