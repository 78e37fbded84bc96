"""Prefix sets: for queries sorted by one bound, bitmaps of the first k queries, stored for every `spacing`-th k.

The queries whose bound accepts x are the first k in the order of the bound. A set is a stored one plus the bits of the
entries that follow it. There can be several orders, each over its own bits.
A lookup costs one binary search, the words of the set, and at most `spacing` bit updates. At most about 256 sets of an
order are stored, and one for at least 16 queries: n queries take about 32 n bytes. (Document 4, section 3.2.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Ints, Ints32, Words
from eddyline.index.runtime.kernel_cache import inlined, kernel
from eddyline.index.runtime.vectors import copy_words, intersect, on_lines

MOST_STORED = 256
LEAST_SPACING = 16


class PrefixSets(NamedTuple):
    """Order g has the entries starts[g] … starts[g + 1]: ascending keys, each with a bit among widths[g] words."""

    keys: Ints
    bits: Ints32
    starts: Ints
    widths: Ints
    spacing: Ints
    set_starts: Ints  # by order, where its first stored set begins in `sets`
    sets: Words

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.bits.nbytes + self.sets.nbytes


NO_SETS = PrefixSets(
    *(np.empty(0, t) for t in (np.int64, np.int32, np.int64, np.int64, np.int64, np.int64, np.uint64))  # type: ignore[arg-type]
)


def prefix_sets(keys: Ints, bits: Ints32, starts: Ints, widths: Ints) -> PrefixSets:
    sizes = np.diff(starts)
    spacing = np.maximum(LEAST_SPACING, -(-sizes // MOST_STORED))
    set_starts = np.append(0, np.cumsum((sizes // spacing + 1) * widths))
    prefixes = PrefixSets(keys, bits, starts, widths, spacing, set_starts, on_lines((int(set_starts[-1]),), np.uint64))
    _fill(prefixes)
    return prefixes


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _fill(prefixes: PrefixSets) -> None:
    bits, starts, sets = prefixes.bits, prefixes.starts, prefixes.sets
    for g in range(len(prefixes.widths)):
        width, spacing = prefixes.widths[g], prefixes.spacing[g]
        current = np.zeros(width, np.uint64)
        at = prefixes.set_starts[g]
        for k in range(starts[g + 1] - starts[g] + 1):
            if k % spacing == 0:
                sets[at : at + width] = current
                at += width
            if k < starts[g + 1] - starts[g]:
                bit = bits[starts[g] + k]
                current[bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)


@inlined
def rank(keys: Ints, start: int, stop: int, x: int) -> int:
    """The number of keys[start:stop], ascending, that are at most x."""
    at = start
    n = stop - start
    while n > 1:
        half = n >> 1
        at += half * (keys[at + half - 1] <= x)  # no branch to mispredict
        n -= half
    if n == 1 and keys[at] <= x:
        at += 1
    return at - start


@inlined
def write_prefix(prefixes: PrefixSets, order: int, size: int, to: Words, at: int, skipped: int) -> None:
    """Writes the set of the first `size` entries of an order to the words from `at` on, except its first `skipped`
    words, which the caller has filled."""
    spacing, width, start = prefixes.spacing[order], prefixes.widths[order], prefixes.starts[order]
    stored = size // spacing
    base = prefixes.set_starts[order] + stored * width
    copy_words(to, at + skipped, prefixes.sets, base + skipped, width - skipped)
    for k in range(start + stored * spacing, start + size):
        bit = prefixes.bits[k]
        to[at + (bit >> 6)] |= np.uint64(1) << np.uint64(bit & 63)


@kernel
def keep_prefix(prefixes: PrefixSets, order: int, x: int, current: Words, spare: Words) -> int:
    """Removes from `current` the bits whose key in an order is above x; returns how many keys are not."""
    start, stop = prefixes.starts[order], prefixes.starts[order + 1]
    size = rank(prefixes.keys, start, stop, x)
    if size == stop - start:
        return size
    spacing, width = prefixes.spacing[order], prefixes.widths[order]
    stored = size // spacing
    base = prefixes.set_starts[order] + stored * width
    for w in range(width):
        spare[w] = current[w] & prefixes.sets[base + w]
    for k in range(start + stored * spacing, start + size):
        bit = prefixes.bits[k]
        spare[bit >> 6] |= current[bit >> 6] & (np.uint64(1) << np.uint64(bit & 63))
    for w in range(width):
        current[w] = spare[w]
    return size


@kernel
def accept(prefixes: PrefixSets, order: int, x: int, current: Words, to: Words) -> None:
    """to = current ∩ the bits whose key is at most x, in an order over all bits."""
    start, spacing = prefixes.starts[order], prefixes.spacing[order]
    size = rank(prefixes.keys, start, prefixes.starts[order + 1], x)
    stored = size // spacing
    base = prefixes.set_starts[order] + stored * len(current)
    for w in range(0, len(current), 64):
        intersect(to, w, current, w, prefixes.sets, base + w, current, w)
    for k in range(start + stored * spacing, start + size):
        bit = prefixes.bits[k]
        to[bit >> 6] |= current[bit >> 6] & (np.uint64(1) << np.uint64(bit & 63))
