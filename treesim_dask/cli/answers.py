"""Answers as they leave the program: tables for people; JSON, JSON lines, CSV and Parquet, streamed, for others."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from treesim_dask.cli.display import format_table, printable, tell

if TYPE_CHECKING:
    from treesim_dask.errors import TreesimError
    from treesim_dask.query.matches import SegmentAnswer
    from treesim_dask.query.page import QueryPage

Answers = Iterable[tuple["QueryPage", "SegmentAnswer"]]


def print_answers(answers: Answers, args: argparse.Namespace) -> int:
    """Print or write the answers in the chosen format and return how many there were."""
    counted = _say_if_none(answers)
    if args.csv:
        return print_csv(counted)
    if args.parquet:
        return write_parquet(args.parquet, counted)
    if args.batch:
        return print_json_lines(counted)
    listed = list(counted if args.json else answers)
    if args.json:
        print(json.dumps([describe(query, answer) for query, answer in listed], indent=1, ensure_ascii=False))
    else:
        for query, answer in listed:
            print_table(query.name, answer, is_only=len(listed) == 1)
    return len(listed)


def _say_if_none(answers: Answers) -> Answers:
    """Pass answers on, and say at the end if there was not one match; standard output stays as programs expect it."""
    n_matches = 0
    for query, answer in answers:
        n_matches += len(answer)
        yield query, answer
    if not n_matches:
        tell("no match found")


def describe(query: QueryPage, answer: SegmentAnswer) -> dict[str, Any]:
    """Return an answer as plain JSON values."""
    return {"query": query.name, **answer.to_dict()}


def print_json_lines(answers: Answers) -> int:
    """Print one JSON object a query, as they come."""
    n_answers = 0
    for query, answer in answers:
        n_answers += 1
        print(json.dumps(describe(query, answer), ensure_ascii=False))
    return n_answers


def print_failure(name: str, error: TreesimError, args: argparse.Namespace) -> None:
    """Say which line of a list has no answer, and why; among JSON lines on a line of its own too."""
    tell(f"not asked: {name}: {error}")
    if not (args.csv or args.parquet):
        print(json.dumps({"query": name, "error": str(error)}, ensure_ascii=False))


def print_csv(answers: Answers) -> int:
    """Print matches as CSV with a header, as they come."""
    from treesim_dask.query.matches import Match

    writer = csv.DictWriter(sys.stdout, ["query", *Match._fields])
    writer.writeheader()
    n_answers = 0
    for query, answer in answers:
        n_answers += 1
        rows = ({"query": query.name, **match.to_row()} for match in answer.matches)
        writer.writerows({**row, "bands": " ".join(map(str, row["bands"]))} for row in rows)
    return n_answers


def write_parquet(path: str, answers: Answers) -> int:
    """Write the matches into a Parquet file, as they come."""
    from treesim_dask.index.tables import write_matches

    n_answers = 0

    def rows() -> Iterator[list[dict[str, Any]]]:
        nonlocal n_answers
        for query, answer in answers:
            n_answers += 1
            yield [{"query": query.name, **match.to_row()} for match in answer.matches]

    n_matches = write_matches(path, rows())
    tell(f"{n_matches:,} matches written to {path}")
    return n_answers


def print_table(page: str, answer: SegmentAnswer, is_only: bool) -> None:
    """Print the matches of one page for people."""
    if not is_only:
        print(printable(f"{page}:"))
    for note in answer.notes():
        tell(f"{page}: {note}")
    if not answer.matches:
        why = "none meets the conditions" if answer.n_candidates else "--fill also takes pages that resemble it less"
        tell(f"no match for {page} among {answer.n_candidates} candidates: {why}")
        return
    rows = [
        (
            str(match.rank),
            f"{match.score:.4f}",
            f"{match.cosine:.3f}",
            f"{match.jaccard:.3f}",
            str(len(match.bands)),
            match.url + (" (the page itself)" if match.is_query else ""),
            f"id:{match.page_id}",
        )
        for match in answer.matches
    ]
    header = ("rank", "score", "cosine", "jaccard", "bands", "url", "page")
    print(format_table(header, rows, [True, True, True, True, True, False, False]))
