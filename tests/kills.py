"""Ends a process in the middle of its writes, as a kill signal does, without ending the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from treesim_dask.index import store
from treesim_dask.index.store import Store


class Killed(BaseException):
    """Stands for a kill signal: nothing catches it."""


WRITES = ("write_bytes", "put_file", "publish", "remove")


def kill_at(monkeypatch, n):
    """Let the n-th write to any store end the process, before or in the middle of it."""
    calls = iter(range(n + 1))

    def interrupted(write):
        def call(self, *args):
            if next(calls, None) is None:
                if write.__name__ == "remove" and (files := sorted(Path(self.path(args[0])).rglob("*.parquet"))):
                    files[0].unlink()  # killed half-way through a folder
                raise Killed
            return write(self, *args)

        return call

    for name in WRITES:
        monkeypatch.setattr(Store, name, interrupted(getattr(Store, name)))


def kill_at_call(monkeypatch, n: int, calls: list[tuple[Any, str]]) -> None:
    """Let the n-th of some calls end a process that others can see to be gone afterwards."""
    left = iter(range(n))
    host = store._writer_name().rpartition(".")[0]
    monkeypatch.setattr(store, "_writer_name", lambda: f"{host}.{2**22 + 1}")

    def interrupted(call):
        def until_killed(*args, **options):
            if next(left, None) is None:
                raise Killed
            return call(*args, **options)

        return until_killed

    for place, name in calls:
        monkeypatch.setattr(place, name, interrupted(getattr(place, name)))
