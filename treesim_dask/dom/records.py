"""Repeated records of one tree: which siblings are alike, in which regions of the page.

The children of each parent get labels, the same label where their subtrees are equal (or near enough). Runs of a
label are records; so are runs of a whole pattern of labels, such as a heading with its paragraphs. A region found
inside the records of another joins those at the same place of the other records: the cells of a grid are one
region, not one a row.

Comparing digests of subtrees finds the same equal siblings as the suffix tree of ``repeats`` in about the same time,
and unlike it goes on to siblings that are nearly equal. Where equal ones are enough, as in ``collapse``, digests take a
tenth of the time of the tree (17 and 190 ns a node).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treesim_dask.dom.similar import Subtrees, label_siblings, similar_pairs, survey_subtrees
from treesim_dask.dom.vocabulary import N_IDS, tag_id
from treesim_dask.errors import ConfigError
from treesim_dask.kernels import kernel
from treesim_dask.mixing import mix64
from treesim_dask.types import Int32Array, Int64Array, UInt16Array, UInt64Array, offsets_of

MAX_PERIOD = 8  # kinds of siblings in one record; few pages go beyond heading, image, text, price, button, rule
_NONE = -1
_HEADINGS = np.zeros(N_IDS, np.bool_)
_HEADINGS[[tag_id(name) for name in ("dt", "h1", "h2", "h3", "h4", "h5", "h6", "header", "legend", "summary")]] = True


@dataclass(frozen=True, slots=True)
class RecordRegions:
    """The regions of one tree that consist of repeated records, those that cover most nodes first.

    Parameters
    ----------
    indptr
        Shape (n_regions + 1,), dtype int64: the records of region i are ``indptr[i]:indptr[i + 1]``.
    starts, ends
        Shape (n_records,), dtype int64: the nodes of a record, one subtree or several that follow each other.
    depths
        Shape (n_regions,), dtype int32: the depth of the first node of each record.
    outer
        Shape (n_regions,), dtype int64: the region whose records hold this one, or -1.
    n_covered
        Shape (n_regions,), dtype int64: nodes in the records.
    """

    indptr: Int64Array
    starts: Int64Array
    ends: Int64Array
    depths: Int32Array
    outer: Int64Array
    n_covered: Int64Array

    def __len__(self) -> int:
        return len(self.indptr) - 1


def find_regions(
    tags: UInt16Array,
    depths: Int32Array,
    *,
    min_records: int = 2,
    similarity: float = 1.0,
    kinds: Int64Array | None = None,
) -> RecordRegions:
    """Find the repeated records of one tree.

    Parameters
    ----------
    tags, depths
        Shape (n_nodes,), dtype uint16 and int32: a tree in document order.
    min_records
        Records a region has at least, at least 2.
    similarity
        1 for equal records only, which must follow each other. Below 1, how similar siblings must be: the Dice
        coefficient of their binary branches, lists inside them collapsed. Other siblings may then stand in between.
    kinds
        Shape (n_nodes,), dtype int64: what else is known of each node, such as a number for its class; 0 for nothing.
        Siblings of one kind need be half as similar, unless they are large.

    Returns
    -------
    RecordRegions
        Nested regions included.

    Examples
    --------
    >>> from treesim_dask.dom.tree import parse_trees
    >>> tree = parse_trees([b"<ul><li><a></a><li><a></a><li><a></a></ul>"])
    >>> regions = find_regions(tree.tags, tree.depths)
    >>> regions.starts.tolist(), regions.ends.tolist(), regions.depths.tolist()
    ([4, 6, 8], [6, 8, 10], [3])
    """
    if min_records < 2 or not 0 < similarity <= 1:
        raise ConfigError(
            f"min_records must be at least 2 and similarity above 0 and at most 1, got {min_records} and {similarity}"
        )
    subtrees = survey_subtrees(tags, depths, exact=similarity == 1, kinds=kinds)
    labels = label_siblings(tags, subtrees, similarity)
    runs = _Runs(*_find_runs(tags, labels, subtrees.ends, _HEADINGS, min_records, similarity < 1))
    is_few = np.bincount(runs.record_regions, minlength=len(runs.region_heads)) < min_records
    is_chance = is_few & ~_are_of_one_kind(runs, subtrees.kinds)
    keys, outer, lone_keys = _place_regions(
        tags, subtrees.parents, runs.region_parents, runs.region_patterns, runs.region_heads, runs.of_node,
        runs.pattern_of_node, is_chance,
    )  # fmt: skip
    if similarity < 1:
        runs = _adopt_lone_records(tags, subtrees, runs, keys, lone_keys, similarity)
    return _join_regions(runs, keys, outer, depths, min_records)


@dataclass(frozen=True, slots=True)
class _Runs:
    """Regions parent by parent, before those at the same place of different records are joined."""

    record_regions: Int64Array
    starts: Int64Array
    ends: Int64Array
    region_parents: Int64Array
    region_patterns: Int64Array  # the pattern this run lies in, the region itself if it is one, or -1
    region_heads: Int64Array  # the first node of the first record
    of_node: Int64Array  # the region a child belongs to by its own label, or -1
    pattern_of_node: Int64Array  # the region a child belongs to by a pattern, or -1


def _are_of_one_kind(runs: _Runs, kinds: Int64Array) -> NDArray[np.bool_]:
    """Tell of which regions all records are of one kind."""
    others = kinds[runs.starts] != kinds[runs.region_heads[runs.record_regions]]
    is_one_kind: NDArray[np.bool_] = np.bincount(runs.record_regions[others], minlength=len(runs.region_heads)) == 0
    return is_one_kind


def _adopt_lone_records(
    tags: UInt16Array, subtrees: Subtrees, runs: _Runs, keys: UInt64Array, lone_keys: UInt64Array, similarity: float
) -> _Runs:
    """Add single records to regions at their place of other records: the last row of a grid may hold but one cell."""
    distinct, first = np.unique(keys, return_index=True)
    lone = np.flatnonzero(np.isin(lone_keys, distinct) & (lone_keys != 0))
    regions = first[np.searchsorted(distinct, lone_keys[lone])]
    alike = similar_pairs(tags, subtrees, np.stack((runs.region_heads[regions], lone), axis=1), similarity)
    lone, regions = lone[alike], regions[alike]
    return _Runs(
        np.concatenate((runs.record_regions, regions)),
        np.concatenate((runs.starts, lone)),
        np.concatenate((runs.ends, subtrees.ends[lone])),
        runs.region_parents, runs.region_patterns, runs.region_heads, runs.of_node, runs.pattern_of_node,
    )  # fmt: skip


def _join_regions(
    runs: _Runs, keys: UInt64Array, outer: Int64Array, depths: Int32Array, min_records: int
) -> RecordRegions:
    """Join regions of one key, leave out the small ones, and put those that cover most first."""
    _, first, joined = np.unique(keys, return_index=True, return_inverse=True)
    regions = joined[runs.record_regions]
    n_covered = np.zeros(len(first), np.int64)
    np.add.at(n_covered, regions, runs.ends - runs.starts)
    is_kept = np.bincount(regions, minlength=len(first)) >= min_records
    around = _skip_dropped(np.where(outer[first] >= 0, joined[outer[first]], _NONE), is_kept)
    by_cover = np.lexsort((runs.region_heads[first], -n_covered))
    by_cover = by_cover[is_kept[by_cover]]
    ranks = np.full(len(first) + 1, _NONE, np.int64)  # the last entry stands for no region
    ranks[by_cover] = np.arange(len(by_cover))
    order = np.lexsort((runs.starts, ranks[regions]))[np.count_nonzero(~is_kept[regions]) :]
    return RecordRegions(
        offsets_of(np.bincount(ranks[regions[order]], minlength=len(by_cover))), runs.starts[order], runs.ends[order],
        depths[runs.region_heads[first]][by_cover], ranks[around[by_cover]], n_covered[by_cover],
    )  # fmt: skip


def _skip_dropped(outer: Int64Array, is_kept: NDArray[np.bool_]) -> Int64Array:
    """Return for each region the nearest kept one around it, or -1."""
    outer = outer.copy()
    while (dropped := (outer >= 0) & ~is_kept[outer]).any():
        outer[dropped] = outer[outer[dropped]]
    return outer


@kernel
def _find_runs(
    tags: UInt16Array, labels: Int64Array, ends: Int64Array, is_heading: NDArray[np.bool_], min_records: int, near: bool
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array, Int64Array, Int64Array, Int64Array, Int64Array]:
    n = len(labels)
    min_run = 2 if near else min_records  # rows of two cells may join to a region of many
    records = np.empty((2 * n, 3), np.int64)  # region, start, end; a child is in one record of its own and one pattern
    regions = np.empty((n, 3), np.int64)  # parent, pattern, head
    counts = np.zeros(2, np.int64)  # regions and records so far
    of_node = np.full(n, _NONE, np.int64)
    pattern_of_node = np.full(n, _NONE, np.int64)
    runs = np.empty((n + 1, 5), np.int64)  # of one parent: first node, end, label, number of children, pattern
    totals = np.zeros(n, np.int64)  # children of each label outside patterns
    label_regions = np.full(n, _NONE, np.int64)
    for parent in range(n):
        n_runs = _list_runs(parent, labels, ends, runs)
        if n_runs == 0:
            continue
        for period in range(2, MAX_PERIOD + 1):
            _add_patterns(parent, runs[:n_runs], period, tags, is_heading, min_records, near, regions, records, counts)
        for i in range(n_runs):
            if runs[i, 4] == _NONE and near:
                totals[runs[i, 2]] += runs[i, 3]
        for i in range(n_runs):
            first, end, label, size, pattern = runs[i]
            joins = pattern == _NONE and near  # other siblings may stand between the records of one region
            if size >= min_run or (joins and totals[label] >= min_run):
                region = int(label_regions[label]) if joins else _NONE
                if region == _NONE:
                    region = _add_region(regions, counts, parent, pattern, first)
                    if joins:
                        label_regions[label] = region
                child = first
                while child < end:
                    _add_record(records, counts, region, child, ends[child])
                    of_node[child] = region
                    child = ends[child]
            child = first
            while child < end:
                pattern_of_node[child] = pattern
                child = ends[child]
    n_regions, n_records = counts
    return (
        records[:n_records, 0].copy(), records[:n_records, 1].copy(), records[:n_records, 2].copy(),
        regions[:n_regions, 0].copy(), regions[:n_regions, 1].copy(), regions[:n_regions, 2].copy(),
        of_node, pattern_of_node,
    )  # fmt: skip


@kernel
def _list_runs(parent: int, labels: Int64Array, ends: Int64Array, runs: Int64Array) -> int:
    """List the runs of children with one label, in order."""
    n_runs = 0
    child = parent + 1
    while child < ends[parent]:
        if n_runs == 0 or runs[n_runs - 1, 2] != labels[child]:
            runs[n_runs] = (child, child, labels[child], 0, _NONE)
            n_runs += 1
        runs[n_runs - 1, 1] = ends[child]
        runs[n_runs - 1, 3] += 1
        child = ends[child]
    return n_runs


@kernel
def _add_patterns(
    parent: int, runs: Int64Array, period: int, tags: UInt16Array, is_heading: NDArray[np.bool_], min_records: int,
    near: bool, regions: Int64Array, records: Int64Array, counts: Int64Array,
) -> None:  # fmt: skip
    """Add the regions whose records are `period` runs long: the labels come again after so many runs."""
    first = 0
    while first + period < len(runs):
        stop = first
        while stop < len(runs) and runs[stop, 4] == _NONE:
            if stop >= first + period and not _same_run(runs, stop, stop - period, tags, near):
                break
            stop += 1
        turn = first
        for i in range(first, min(first + period, stop)):  # a record begins with its heading, if it has one
            if is_heading[tags[runs[i, 0]]]:
                turn = i
                break
        n_full = (stop - turn) // period
        cut_short = near and turn + n_full * period < stop  # the last one may lack its end: no rule after it
        if n_full < 2 or n_full + cut_short < min_records:
            first += 1
            continue
        region = _add_region(regions, counts, parent, counts[0], runs[turn, 0])
        last = stop if cut_short else turn + n_full * period
        for i in range(turn, last, period):
            _add_record(records, counts, region, runs[i, 0], runs[min(i + period, last) - 1, 1])
        runs[turn:last, 4] = region
        first = stop


@kernel
def _same_run(runs: Int64Array, a: int, b: int, tags: UInt16Array, near: bool) -> bool:
    """Tell whether two runs have one label and one length.

    Near enough is another length where the tag differs from the tag before: a heading with two paragraphs and one
    with three, but not two kinds of table rows that come as they like.
    """
    free = near and tags[runs[a, 0]] != tags[runs[a - 1, 0]]
    return bool(runs[a, 2] == runs[b, 2] and (free or runs[a, 3] == runs[b, 3]))


@kernel
def _add_region(regions: Int64Array, counts: Int64Array, parent: int, pattern: int, head: int) -> int:
    regions[counts[0]] = (parent, pattern, head)
    counts[0] += 1
    return int(counts[0] - 1)


@kernel
def _add_record(records: Int64Array, counts: Int64Array, region: int, start: int, end: int) -> None:
    records[counts[1]] = (region, start, end)
    counts[1] += 1


@kernel
def _place_regions(
    tags: UInt16Array, parents: Int64Array, region_parents: Int64Array, region_patterns: Int64Array,
    region_heads: Int64Array, of_node: Int64Array, pattern_of_node: Int64Array, is_chance: NDArray[np.bool_],
) -> tuple[UInt64Array, Int64Array, UInt64Array]:  # fmt: skip
    """Give each region a key of its place: the same below the same path of tags in the records of one region.

    Returns the keys, the region around each, and for each child in no region the key of one it might belong to.
    """
    n = len(tags)
    places = np.empty(n, np.uint64)  # the path of tags since the record around a node began, or a number of its own
    around = np.full(n, _NONE, np.int64)  # the region of the record around a node
    lone_keys = np.zeros(n, np.uint64)
    keys = np.empty(len(region_parents), np.uint64)
    outer = np.full(len(region_parents), _NONE, np.int64)
    region = 0
    for node in range(n):
        tag = np.uint64(tags[node])
        own = of_node[node] if of_node[node] != _NONE else pattern_of_node[node]
        # two alike by chance, in no other record, are no region, so that what they hold is not to be joined
        if own != _NONE and not (is_chance[own] and outer[own] == _NONE):
            around[node] = own
            places[node] = mix64(keys[own] + tag)
        elif node > 0 and around[parents[node]] != _NONE:
            around[node] = around[parents[node]]
            lone_keys[node] = mix64(places[parents[node]] ^ (tag << np.uint64(32)))
            places[node] = mix64(places[parents[node]] + tag)
        else:
            places[node] = mix64(np.uint64(node))
        while region < len(region_parents) and region_parents[region] == node:
            pattern = region_patterns[region]
            inner = pattern != _NONE and pattern != region
            outer[region] = pattern if inner else around[node]
            place = keys[pattern] if inner else places[node] + np.uint64(pattern == region)
            if outer[region] == _NONE:
                place = mix64(~np.uint64(region))
            keys[region] = mix64(place ^ (np.uint64(tags[region_heads[region]]) << np.uint64(32)))
            region += 1
    return keys, outer, lone_keys
