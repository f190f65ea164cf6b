"""Many segments into one: what is compacted, in which steps, and the one write that makes it so.

The steps are plain functions of a plan; whoever runs them may run the tasks of one step at the same time. Each leaves
a note when it is finished, so that an interrupted compaction goes on where it stopped. The old segments serve until
`publish` writes the summary of the new one, and are removed after that.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from treesim_dask.config import IndexConfig
from treesim_dask.errors import IndexFormatError
from treesim_dask.index.catalog import forget_segments
from treesim_dask.index.gathering import Range, write_lookup
from treesim_dask.index.leftovers import SEGMENT_NAME, clear_leftovers
from treesim_dask.index.live import SOURCES, IndexedSource, origin_digests, read_sources
from treesim_dask.index.manifest import to_json
from treesim_dask.index.segment import COMPACTED_PREFIX, LOOKUP, SEGMENTS, SUMMARY, Segment, SegmentSummary, unpublish
from treesim_dask.index.splitting import SCRATCH, Unit, Work, choose_cuts
from treesim_dask.index.store import STAGING, Store, staged_for
from treesim_dask.index.tables import SKIPPED, SKIPPED_SCHEMA, TableWriter
from treesim_dask.index.writer import file_checksums

DEFAULT_MAX_PAGES = 2**23
SHAPES_PER_PART = 2**16  # about 150 MB of vectors, signatures and keys: what one task holds
PAGES_PER_PART = 2**19
ROWS_PER_CELL = 2**21
ROWS_PER_BAND_FILE = 2**22
_VERSION = 2  # of the intermediate files: another one starts anew
_MOST_DAMAGE = 20
_STEPS = re.compile(rf"{COMPACTED_PREFIX}[0-9a-f]{{16}}-[0-9a-f]{{8}}")


@dataclass(frozen=True, slots=True)
class Plan:
    """One compacted segment to be: the segments it takes the place of, and the work."""

    segments: tuple[Segment, ...]
    units: tuple[Unit, ...]
    work: Work
    shapes_per_part: int


def plan_compactions(
    segments: Sequence[Segment],
    config: IndexConfig,
    max_pages: int = DEFAULT_MAX_PAGES,
    shapes_per_part: int = SHAPES_PER_PART,
) -> list[Plan]:
    """Decide which live segments become one: as many as have `max_pages` together, in the order of their names.

    A compacted segment of which nothing was deleted, and which is alone or large enough, is left as it is.
    """
    groups: list[list[Segment]] = [[]]
    for segment in sorted(segments, key=lambda segment: segment.has_vectors):  # both kinds stay apart
        n_pages = segment.summary.n_pages
        if segment.is_compacted and not segment.deletions and 2 * n_pages >= max_pages:
            continue
        is_full = sum(s.summary.n_pages for s in groups[-1]) + n_pages > max_pages
        if groups[-1] and (is_full or groups[-1][0].has_vectors != segment.has_vectors):
            groups.append([])
        groups[-1].append(segment)
    plans = [_plan(group, config, shapes_per_part) for group in groups if group and not _is_compact(group)]
    return [plan for plan in plans if plan.units]


def _is_compact(group: Sequence[Segment]) -> bool:
    return len(group) == 1 and group[0].is_compacted and not group[0].deletions


def _plan(group: Sequence[Segment], config: IndexConfig, shapes_per_part: int) -> Plan:
    n_shapes = sum(segment.summary.n_shapes for segment in group)
    origins = {name for segment in group for name in segment.live_origins()}
    compacted_id = _name_of(group)
    work = Work(
        group[0].store,
        compacted_id,
        f"{compacted_id}-{_parameters_digest(shapes_per_part)}",
        tuple(sorted(origins)),
        config.n_hashes,
        config.n_bands,
        n_ranges=max(1, -(-n_shapes // ROWS_PER_CELL)),
        n_parts=max(1, -(-n_shapes // shapes_per_part)),
        with_vectors=group[0].has_vectors,
    )
    return Plan(tuple(group), tuple(unit for segment in group for unit in _units_of(segment)), work, shapes_per_part)


def _name_of(group: Sequence[Segment]) -> str:
    """Name a compacted segment after its content: the same segments with the same deletions give the same name."""
    content = hashlib.sha256()
    for segment in group:
        content.update(f"{segment.segment_id} {segment.digest} ".encode())
        content.update(segment.deletions.origins.tobytes() + b" " + segment.deletions.whole.tobytes())
    return COMPACTED_PREFIX + content.hexdigest()[:16]


def _parameters_digest(shapes_per_part: int) -> str:
    """Digest what decides how the work is cut: steps made with other values do not fit together."""
    values = (_VERSION, shapes_per_part, PAGES_PER_PART, ROWS_PER_CELL, ROWS_PER_BAND_FILE)
    return hashlib.sha256(repr(values).encode()).hexdigest()[:8]


def _units_of(segment: Segment) -> list[Unit]:
    if segment.summary.compaction is None:
        return [Unit(segment, 0, 0, segment.summary.n_shapes)] if segment.summary.n_shapes else []
    units, first = [], 0
    for part, (n_shapes, _) in enumerate(segment.summary.compaction["parts"]):
        if n_shapes:
            units.append(Unit(segment, part, first, n_shapes))
        first += n_shapes
    return units


def make_parts(plan: Plan, splits: Sequence[dict[str, Any]]) -> list[Range]:
    """Return the parts of the new segment, from what splitting its units gave."""
    cuts = choose_cuts(splits, plan.shapes_per_part, PAGES_PER_PART)
    return [Range(n, low, high) for n, (low, high) in enumerate(zip(cuts, [*cuts[1:], 2**64], strict=True))]


def make_band_files(plan: Plan, n_shapes: int) -> list[list[int]]:
    """Return the (band, bucket range) cells of each file of the new band table."""
    work = plan.work
    cells = list(range(work.n_bands * work.n_ranges))
    per_file = max(1, ROWS_PER_BAND_FILE * work.n_ranges // max(n_shapes, 1))
    return [cells[first : first + per_file] for first in range(0, len(cells), per_file)]


def publish(plan: Plan, parts: Sequence[dict[str, Any]], bands: Sequence[dict[str, Any]]) -> SegmentSummary:
    """Write the rest of the new segment and, with its summary, put it in the place of the old ones."""
    work, store = plan.work, plan.work.store
    folder = f"{SEGMENTS}/{work.compacted_id}"
    _check_totals(plan, parts, bands)
    sources = _sources(plan)
    with work.scratch() as scratch:
        (scratch / LOOKUP).parent.mkdir()
        write_lookup(scratch / LOOKUP, [row for result in bands for row in result["lookup"]])
        (scratch / SOURCES).write_bytes(to_json(_describe(sources)))
        with TableWriter(scratch / SKIPPED, SKIPPED_SCHEMA) as table:
            for segment in plan.segments:
                table.append_table(segment.read_skipped())
        files = file_checksums(scratch)
        for name in files:
            store.put_file(scratch / name, f"{folder}/{name}")
    for result in (*parts, *bands):
        files.update(result["files"])
    _check_files(store, folder, files)
    summary = _summary(plan, sources, parts, len(bands), files)
    store.write_bytes(f"{folder}/{SUMMARY}", to_json(summary.to_dict()))
    return summary


def _check_totals(plan: Plan, parts: Sequence[dict[str, Any]], bands: Sequence[dict[str, Any]]) -> None:
    """Refuse to publish anything but all pages that are left, each once, and all bands of their shapes."""
    n_left = sum(len(segment.live_rows()) for segment in plan.segments)
    n_pages = sum(part["n_pages"] for part in parts)
    n_shapes = sum(part["n_shapes"] for part in parts)
    n_band_rows = sum(row[-1] for result in bands for row in result["lookup"])
    if n_pages != n_left or n_band_rows != n_shapes * plan.work.n_bands:
        raise IndexFormatError(
            f"the compaction has {n_pages} pages and {n_band_rows} band rows of {n_shapes} shapes, expected {n_left} "
            f"pages and {plan.work.n_bands} band rows a shape{_advice(plan.work.store)}"
        )


def _check_files(store: Store, folder: str, files: Mapping[str, list[Any]]) -> None:
    """Refuse to publish a segment whose files are no longer there as they were written."""
    found = store.find_sizes(folder)
    if wrong := sorted(name for name, (size, _) in files.items() if found.get(name) != size):
        raise IndexFormatError(
            f"{store.url}/{folder}/{wrong[0]} is gone or not as the compaction wrote it{_advice(store)}"
        )


def _advice(store: Store) -> str:
    return f"; the index is as it was: run check --repair on {store.url}, then compact again"


def remove_replaced(store: Store, segments: Sequence[Segment]) -> None:
    """Remove segments that are no longer live.

    The catalog forgets them first: an object store may go on listing an emptied folder, and what the catalog knows is
    not asked for.
    """
    forget_segments(store, {segment.segment_id for segment in segments})
    for segment in segments:
        unpublish(store, segment.segment_id)


def remove_abandoned(store: Store, current: Sequence[Plan] = ()) -> None:
    """Remove what compactions left unfinished, other than the current ones."""
    clear_leftovers(store)
    staged = {plan.work.compacted_id: plan.work.staging_id for plan in current}
    names = store.list_names(STAGING)
    for name in names:
        is_compaction = is_steps(name) or is_steps(staged_for(name).removesuffix(SCRATCH))
        if is_compaction and not name.startswith(tuple(staged.values())):
            store.remove(f"{STAGING}/{name}")
    for name in store.list_names(SEGMENTS):
        is_ours = name.startswith(COMPACTED_PREFIX) and SEGMENT_NAME.fullmatch(name)
        is_current = staged.get(name) in names  # else its parts were made with other parameters
        if is_ours and not is_current and not store.exists(f"{SEGMENTS}/{name}/{SUMMARY}"):
            store.remove(f"{SEGMENTS}/{name}")
    store.remove_if_empty(STAGING)


def is_steps(name: str) -> bool:
    """Tell whether something in staging is what the steps of a compaction have given so far.

    Examples
    --------
    >>> is_steps("compacted-0123456789abcdef-89abcdef"), is_steps("compacted-notes.txt")
    (True, False)
    """
    return bool(_STEPS.fullmatch(name))


def _sources(plan: Plan) -> dict[str, tuple[str, IndexedSource]]:
    """Return digest and description of each source that is left, by origin."""
    sources = {}
    for segment in plan.segments:
        known = read_sources(segment) if segment.is_compacted else [IndexedSource.of(segment.summary)]
        left, digests = segment.live_origins(), origin_digests(segment)
        sources.update({s.origin: (digests[s.origin], s) for s in known if s.origin in left})
    return sources


def _describe(sources: dict[str, tuple[str, IndexedSource]]) -> dict[str, Any]:
    described = {}
    for origin, (_, source) in sources.items():
        values = asdict(source)
        del values["origin"], values["indexed"]
        described[origin] = values
    return described


def _summary(
    plan: Plan,
    sources: dict[str, tuple[str, IndexedSource]],
    parts: Sequence[dict[str, Any]],
    n_band_files: int,
    files: dict[str, list[Any]],
) -> SegmentSummary:
    old = [segment.summary for segment in plan.segments]
    skipped: Counter[str] = sum((Counter(summary.skipped) for summary in old), Counter())
    return SegmentSummary(
        segment_id=plan.work.compacted_id,
        source_url="",
        source_kind="compacted",
        source_size=None,
        page_filter={},
        fingerprint=old[0].fingerprint,
        n_pages=sum(part["n_pages"] for part in parts),
        n_shapes=sum(part["n_shapes"] for part in parts),
        n_nodes=sum(part["n_nodes"] for part in parts),
        n_entries=sum(part["n_entries"] for part in parts),
        n_html_bytes=sum(summary.n_html_bytes for summary in old),
        skipped=dict(sorted(skipped.items())),
        damage=[place for summary in old for place in summary.damage][:_MOST_DAMAGE],
        files=dict(sorted(files.items())),
        compaction={
            "origins": {name: sources[name][0] for name in plan.work.origins},
            "replaces": [segment.segment_id for segment in plan.segments if segment.is_compacted],
            "parts": [[part["n_shapes"], part["n_pages"]] for part in parts],
            "n_band_files": n_band_files,
        },
    )
