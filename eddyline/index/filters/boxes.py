"""Box trees: which of many boxes, products of code ranges over the same few attributes, hold a row.

Structure: the boxes are laid in tiles (sorted by their middles along one attribute, cut into slabs, each slab sorted
along the next attribute, …), 32 to a leaf. A node holds, per attribute, the low ends and the widths of the hulls of its
32 children, one cache line each; level 0 are the leaves, the last level is one node. Invariant: a box lies within the
hull of every node above it. Places beyond the last box hold low end 65,535, which no value has. Cost of a row: one test
of 2 · attributes cache lines per node whose hull holds it; a leaf visited for nothing is rare when boxes are small. 4
bytes per attribute and box, a thirty-second more for the nodes, and 4 for its number.

Where codes are not exact, a row at the first or last code of a range may be outside: that match is *unsure*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.arrays import Codes, Ints, Ints32, Mask
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.vectors import LANES, bits_set, lanes_within, lowest_bit, on_lines

NO_CODE = 65_535
TILED_ATTRIBUTES = 3  # more would leave less than two slabs along each


@dataclass(frozen=True)
class BoxTree:
    attributes: Ints  # which rows of a batch's codes it looks at
    common: Ints  # attribute, low and high end of ranges that all boxes have, one row each
    exact: Mask  # by attribute: whether codes tell all
    owners: Ints32  # the number each box belongs to
    nodes: Codes  # all levels end to end, node by node: per attribute 32 low ends, 32 widths
    levels: Ints  # the first node of each level, leaves first
    unsure: bool  # whether no match is certain

    @property
    def nbytes(self) -> int:
        return self.owners.nbytes + self.nodes.nbytes


def box_tree(
    attributes: Ints, common: Ints, exact: Mask, owners: Ints32, low: Codes, high: Codes, *, unsure: bool
) -> BoxTree:
    """The tree over boxes [low[i, j], high[i, j]] by attribute i and box j. O(n log n)."""
    order = tiles(low, high)
    low, high = low[:, order], high[:, order]
    stages = []
    while True:
        stages.append(_nodes(low, high))
        if len(stages[-1]) == 1:
            break
        low, high = _hulls(low, high)
    levels = np.cumsum([0, *(len(s) for s in stages[:-1])])
    nodes = on_lines((sum(len(s) for s in stages), len(low), 2, LANES), np.uint16)
    np.concatenate(stages, out=nodes)
    return BoxTree(attributes, common, exact, owners[order], nodes.reshape(-1), levels, unsure)


def tiles(low: Codes, high: Codes) -> Ints:
    """An order that keeps boxes near each other together: by attributes in the order of how narrow the boxes are."""
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
    """Along how many attributes tiles are best cut, and the share of leaves that a row visits then.

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


@dataclass
class Found:
    """Pairs (row, number) found so far; the number of an unsure one is turned: ~number."""

    rows: Ints32
    numbers: Ints32
    used: int = 0

    @classmethod
    def with_room(cls, room: int) -> Found:
        return cls(np.empty(room, np.int32), np.empty(room, np.int32))

    def add(self, rows: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> None:
        while self.used + len(rows) > len(self.rows):
            self.grow()
        self.rows[self.used : self.used + len(rows)] = rows
        self.numbers[self.used : self.used + len(rows)] = numbers
        self.used += len(rows)

    def grow(self) -> None:
        room = max(1024, 2 * len(self.rows))
        for name in ("rows", "numbers"):
            bigger = np.empty(room, np.int32)
            bigger[: self.used] = getattr(self, name)[: self.used]
            setattr(self, name, bigger)


def search(tree: BoxTree, codes: Codes, alive: Mask, counts: Ints, found: Found, *, list_all: bool) -> None:
    """Adds the matches of every row of a batch to `counts`, and those that are unsure to `found`.

    `alive`: which numbers still count; empty if all do. With `list_all` all matches go to `found`, and none is counted.
    """
    row = 0
    while True:
        row, found.used = _walk(
            tree.nodes,
            tree.levels,
            tree.attributes,
            tree.common,
            tree.exact,
            tree.owners,
            tree.unsure,
            codes,
            alive,
            list_all,
            counts,
            found.rows,
            found.numbers,
            found.used,
            row,
        )
        if row == codes.shape[1]:
            return
        found.grow()


# --- kernel ----------------------------------------------------------------------------------------------------------


@kernel
def _walk(
    nodes: Codes,
    levels: Ints,
    attributes: Ints,
    common: Ints,
    exact: Mask,
    owners: Ints32,
    unsure: bool,
    codes: Codes,
    alive: Mask,
    list_all: bool,
    counts: Ints,
    found_rows: Ints32,
    found_numbers: Ints32,
    used: int,
    first: int,
) -> tuple[int, int]:
    """Rows from `first` on. Stops before a row whose pairs have no room; returns that row, and the pairs used."""
    width = len(attributes)
    stride = width * 64
    check_ends = not exact.all()
    stack = np.empty(len(levels) * 32 + 1, np.int64)
    one = np.uint32(1)
    for row in range(first, codes.shape[1]):
        passes = True
        for i in range(len(common)):
            passes &= common[i, 1] <= codes[common[i, 0], row] <= common[i, 2]
        if not passes:
            continue
        sure = 0
        kept = used
        depth = 1
        stack[0] = len(levels) - 1
        while depth > 0:
            depth -= 1
            level, node = stack[depth] & 7, stack[depth] >> 3  # 32^8 boxes would need more levels
            at = (levels[level] + node) * stride
            held = lanes_within(nodes, at, codes[attributes[0], row])
            for i in range(1, width):
                held &= lanes_within(nodes, at + 64 * i, codes[attributes[i], row])
            if level > 0:
                while held != 0:
                    k = lowest_bit(held)
                    held &= np.uint32(held - one)
                    stack[depth] = ((node * 32 + k) << 3) | (level - 1)
                    depth += 1
                continue
            if held == 0:
                continue
            if not (list_all or check_ends or unsure) and len(alive) == 0:
                sure += bits_set(held)
                continue
            if used + 32 > len(found_rows):
                return row, kept
            while held != 0:
                k = lowest_bit(held)
                held &= np.uint32(held - one)
                number = owners[node * 32 + k]
                if len(alive) > 0 and not alive[number]:
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
                    found_rows[used] = row
                    found_numbers[used] = number if certain else ~number
                    used += 1
        counts[row] += sure
    return codes.shape[1], used
