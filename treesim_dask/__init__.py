"""Structure search over web crawls: find the pages built the same way.

``build(inputs, index)`` indexes the tag structure of every HTML page of a crawl; ``open_index(url).query(page)``
returns the pages most like a given one. Everything is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treesim_dask.api import Index, check, merge, open_index
    from treesim_dask.builder import build
    from treesim_dask.compactor import CompactReport, compact
    from treesim_dask.config import IndexConfig, PageFilter
    from treesim_dask.errors import TreesimError
    from treesim_dask.planner import make_plan
    from treesim_dask.query.options import Conditions
    from treesim_dask.records import RecordRegion, find_records
    from treesim_dask.report import BuildReport

__version__ = "0.1.0"
__all__ = [
    "BuildReport",
    "CompactReport",
    "Conditions",
    "Index",
    "IndexConfig",
    "PageFilter",
    "RecordRegion",
    "TreesimError",
    "build",
    "check",
    "compact",
    "find_records",
    "make_plan",
    "merge",
    "open_index",
]

_HOMES = {
    "BuildReport": "report",
    "CompactReport": "compactor",
    "Conditions": "query.options",
    "Index": "api",
    "IndexConfig": "config",
    "PageFilter": "config",
    "RecordRegion": "records",
    "TreesimError": "errors",
    "build": "builder",
    "check": "api",
    "compact": "compactor",
    "find_records": "records",
    "make_plan": "planner",
    "merge": "api",
    "open_index": "api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
