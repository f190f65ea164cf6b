"""Repeated records of a page: find them, select them, show them.

In the order of the flow: ``page`` (HTML to numbered elements and their spliced tree), ``regions`` (`find_records`),
``fields`` (what varies from record to record), ``ranking`` (which region a person would name), ``steps``, ``walk``,
``paths`` and ``selectors`` (what selects just the records, tried out), ``render`` (table, JSON, CSV) and ``outline``
(the page with its records outlined).
"""

from treesim_dask.records.regions import RecordRegion, find_records

__all__ = ["RecordRegion", "find_records"]
