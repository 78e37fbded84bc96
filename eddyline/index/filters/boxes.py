"""Box trees: which of many boxes, products of code ranges over the same few attributes, contain a row.

Structure: an R-tree of fixed shape. The boxes are packed in tiles (sorted by their middles along one attribute, cut
into slabs, each slab sorted along the next attribute, …), 32 to a leaf. A node has, per attribute, the low ends and the
widths of the hulls of its 32 children, one cache line each. Level 0 has the leaves, the last level one node. Invariant:
a box lies within the hull of every node above it. Unused lanes have the low end 65,535, which is no value's code. Cost
of a row: one test of 2 · attributes cache lines per node whose hull contains it; a leaf without a match is rarely
visited when boxes are small. Memory: 4 bytes per attribute and box, a thirty-second more for the nodes, and 4 for the
slot.

Where codes are not exact, a row at the first or last code of a range may be outside: that match is *unsure*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from eddyline.arrays import Codes, Ints, Ints32, Mask
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.vectors import LANES, bits_set, lanes_within, lowest_bit, on_lines

NO_CODE = 65_535
TILED_ATTRIBUTES = 3  # more would leave less than two slabs along each


class BoxTree(NamedTuple):
    attributes: Ints  # the attributes that the boxes restrict
    shared: Ints  # ranges that all boxes have besides: attribute, low and high end, one row each
    exact: Mask  # by attribute: whether codes decide
    owners: Ints32  # by box: the query slot
    nodes: Codes  # all levels end to end, node by node: per attribute 32 low ends, 32 widths
    levels: Ints  # the first node of each level, leaves first
    unsure: bool  # whether all matches are unsure


def box_tree(
    attributes: Ints, shared: Ints, exact: Mask, owners: Ints32, low: Codes, high: Codes, *, unsure: bool
) -> BoxTree:
    """The tree over boxes [low[i, j], high[i, j]] by attribute i and box j. O(n log n)."""
    order = tiles(low, high)
    low, high = low[:, order], high[:, order]
    levels = [_nodes(low, high)]
    while len(levels[-1]) > 1:
        low, high = _hulls(low, high)
        levels.append(_nodes(low, high))
    starts = np.cumsum([0, *(len(x) for x in levels)])
    nodes = on_lines((int(starts[-1]), len(low), 2, LANES), np.uint16)
    np.concatenate(levels, out=nodes)
    return BoxTree(attributes, shared, exact, owners[order], nodes.reshape(-1), starts[:-1], unsure)


def tiles(low: Codes, high: Codes) -> Ints:
    """An order of the boxes in which neighbours overlap; it sorts by the attributes in which boxes are narrowest."""
    n = low.shape[1]
    if not n:
        return np.empty(0, np.int64)
    leaves = -(-n // LANES)
    top = np.maximum(high.max(axis=1), 1)
    share = (high.astype(np.int64) - low + 1).mean(axis=1) / top
    along = np.argsort(share, kind="stable")[: tiled(np.sort(share), leaves)[0]]
    slab, slabs = np.zeros(n, np.int64), 1
    for i, a in enumerate(along):
        middle = (low[a].astype(np.int64) + high[a]) >> 1
        order = np.argsort((slab << 16) | middle)
        if i == len(along) - 1:
            break
        cuts = int(np.ceil((leaves / slabs) ** (1 / (len(along) - i))))
        begin = np.searchsorted(slab[order], np.arange(slabs + 1))
        size = np.diff(begin)
        rank = np.arange(n) - np.repeat(begin[:-1], size)
        slab[order] = np.repeat(np.arange(slabs), size) * cuts + rank * cuts // np.repeat(size, size)
        slabs *= cuts
    return order


def tiled(share: npt.NDArray[np.float64], leaves: float) -> tuple[int, float]:
    """The best number of attributes to cut tiles along, and the share of leaves that a row visits then.

    `share` has, ascending, the mean share of codes that boxes accept. With k attributes a tile spans a share of
    leaves^(-1/k) of each, and its hull reaches further by the width of a box.
    """
    options = range(1, min(TILED_ATTRIBUTES, len(share)) + 1)
    visited = [float(np.prod(np.minimum(1.0, leaves ** (-1 / k) + share[:k]))) for k in options]
    best = int(np.argmin(visited))
    return best + 1, visited[best]


def _nodes(low: Codes, high: Codes) -> Codes:
    """Boxes as nodes: by node and attribute, the low ends and the widths."""
    attributes, n = low.shape
    count = max(1, -(-n // LANES))
    padded = np.full((2, attributes, count * LANES), NO_CODE, np.uint16)
    padded[0, :, :n] = low
    padded[1] = 0
    padded[1, :, :n] = high - low
    return padded.reshape(2, attributes, count, LANES).transpose(2, 1, 0, 3)


def _hulls(low: Codes, high: Codes) -> tuple[Codes, Codes]:
    begin = np.arange(0, low.shape[1], LANES)
    return np.minimum.reduceat(low, begin, axis=1), np.maximum.reduceat(high, begin, axis=1)


def _no_pairs() -> Ints32:
    return np.empty((2, 1024), np.int32)


@dataclass
class MatchPairs:
    """Pairs (row, query slot) of matches. An unsure match has the complement of its slot, which is negative."""

    table: Ints32 = field(default_factory=_no_pairs)  # rows, then slots
    used: int = 0

    @property
    def rows(self) -> Ints32:
        return self.table[0, : self.used]

    @property
    def slots(self) -> Ints32:
        return self.table[1, : self.used]

    def add(self, rows: npt.NDArray[Any], slots: npt.NDArray[Any]) -> None:
        while self.used + len(rows) > self.table.shape[1]:
            self.grow()
        self.table[:, self.used : self.used + len(rows)] = rows, slots
        self.used += len(rows)

    def grow(self) -> None:
        larger = np.empty((2, max(1024, 2 * self.table.shape[1])), np.int32)
        larger[:, : self.used] = self.table[:, : self.used]
        self.table = larger


def search_tree(tree: BoxTree, codes: Codes, alive: Mask, counts: Ints, pairs: MatchPairs, *, list_all: bool) -> None:
    """Adds the matches of every row of a batch to `counts`, and those that are unsure to `pairs`.

    `alive` flags the slots that count; it is empty if all do. With `list_all`, all matches go to `pairs`, and none is
    counted.
    """
    row = 0
    arrays = tuple(tree)  # Numba recognises a plain tuple faster, and a filter may have dozens of trees
    while True:
        row, pairs.used = _walk(arrays, codes, alive, list_all, counts, pairs.table, pairs.used, row)
        if row == codes.shape[1]:
            return
        pairs.grow()


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _walk(
    tree: tuple[Any, ...], codes: Codes, alive: Mask, list_all: bool, counts: Ints, pairs: Ints32, used: int, first: int
) -> tuple[int, int]:
    """Searches rows from `first` on, depth first. Stops before a row whose pairs do not fit; returns that row, and the
    number of pairs."""
    attributes, shared, exact, owners, nodes, levels, unsure = tree
    width = len(attributes)
    check_ends = not exact.all()
    count_only = not (list_all or check_ends or unsure) and len(alive) == 0
    stack = np.empty(len(levels) * 32 + 1, np.int64)
    one = np.uint32(1)
    for row in range(first, codes.shape[1]):
        passes = True
        for i in range(len(shared)):
            passes &= shared[i, 1] <= codes[shared[i, 0], row] <= shared[i, 2]
        if not passes:
            continue
        sure = 0
        before = used
        depth = 1
        stack[0] = len(levels) - 1
        while depth > 0:
            depth -= 1
            level, node = stack[depth] & 7, stack[depth] >> 3  # 32^8 boxes would need more levels
            at = (levels[level] + node) * width * 64
            held = lanes_within(nodes, at, codes[attributes[0], row])
            for i in range(1, width):
                held &= lanes_within(nodes, at + 64 * i, codes[attributes[i], row])
            if level == 0 and count_only:
                sure += bits_set(held)
                continue
            if level == 0 and held != 0 and used + 32 > pairs.shape[1]:
                return row, before
            while held != 0:
                k = lowest_bit(held)
                held &= np.uint32(held - one)
                if level > 0:
                    stack[depth] = ((node * 32 + k) << 3) | (level - 1)
                    depth += 1
                    continue
                slot = owners[node * 32 + k]
                if len(alive) > 0 and not alive[slot]:
                    continue
                certain = not unsure
                if check_ends:
                    for i in range(width):
                        off = np.uint16(codes[attributes[i], row] - nodes[at + 64 * i + k])
                        at_end = off == 0 or off == nodes[at + 64 * i + 32 + k]
                        certain &= exact[i] or not at_end
                if certain and not list_all:
                    sure += 1
                else:
                    pairs[0, used], pairs[1, used] = row, slot if certain else ~slot
                    used += 1
        counts[row] += sure
    return codes.shape[1], used
