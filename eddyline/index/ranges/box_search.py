"""The numbers of stabbing groups that a tuple affects, where ranges lie along several axes.

From the point of a group outwards, along the first axis, rows are looked at one by one, as far as the longest ranges of
the group reach. Who reaches a row is a prefix set along the first axis, and two along every other one, all of them the
group's own: few words. Where all ranges hold 0 along a second axis, as those of time do, only skylines matter.
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Bytes, Ints, Ints32, Words
from eddyline.index.ranges.axes import AXES, EXP, TS, first_from, place_of
from eddyline.index.ranges.prefix_sets import rank
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.vectors import table_at

MAX = 9223372036854775807

# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def by_boxes(
    groups: int,
    points: Ints,
    word_starts: Ints,
    sizes: Ints,
    low: Ints,
    high_keys: Ints,
    high_bits: Ints32,
    high_starts: Ints,
    high_spacing: Ints,
    high_set_starts: Ints,
    high_sets: Words,
    further_keys: Ints,
    further_bits: Ints32,
    further_starts: Ints,
    further_spacing: Ints,
    further_set_starts: Ints,
    further_sets: Words,
    around_zero: bool,
    addresses: Ints,
    begin: Ints,
    end: Ints,
    i: int,
    kinds: Bytes,
    directions: Ints,
    shift: Ints,
    ts: int,
    exp: int,
    spare: Words,
    other: Words,
    now: Words,
) -> bool:
    """The numbers of the first so many groups that tuple i affects, along all axes; whether any.

    `around_zero` says that there are two axes, and all ranges hold 0 along the second one (document 4, section 3.3.2).
    Then rows matter that are nearer to it than all before, the skyline, and the walk ends with a row that all numbers
    of the group reach along the second axis. Where no row is beyond 0 there, and all have begun, links lead from one to
    the next (`skylines.py`).
    """
    columns = AXES + len(kinds)
    something = False
    many_groups = len(points)
    for g in range(groups):
        point, word, width, many = points[g], word_starts[g], word_starts[g + 1] - word_starts[g], sizes[g]
        for w in range(word, word + width):
            now[w] = 0
        for s in range(len(addresses)):
            first, last = begin[s, i], end[s, i]
            if first == last:
                continue
            links = around_zero and shift[1, i] >= addresses[s, 4] and exp >= addresses[s, 2]
            table = table_at(addresses[s, 0], columns + 2 * links, addresses[s, 1])
            middle = first_from(table, first, last, kinds[0], directions[0], shift[0, i], point)
            for side in range(2):
                k = middle - 1 if side == 0 else middle
                step = -1 if side == 0 else 1
                older, newer = -MAX, MAX
                while first <= k < last:
                    row = k
                    k = table[columns + side, k] if links else k + step
                    if max(table[TS, row], ts) > min(table[EXP, row], exp):
                        continue
                    far = place_of(kinds[1], directions[1], table[AXES + 1, row], shift[1, i])
                    if around_zero and not (older < far <= 0 or 0 < far < newer):
                        continue
                    x = place_of(kinds[0], directions[0], table[AXES, row], shift[0, i])
                    if x < low[0, word * 64] if side == 0 else ~x < high_keys[high_starts[g]]:
                        break  # no row further out reaches any
                    something = True
                    _reaching(
                        side, x, low[0], word, many, high_keys, high_bits, high_starts[g], high_starts[g + 1],
                        high_spacing[g], high_set_starts[g], high_sets, width, spare,
                    )  # fmt: skip
                    if around_zero:
                        order = g if far <= 0 else many_groups + g
                        reached = _keep(
                            further_keys, further_bits, further_starts[order], further_starts[order + 1],
                            further_spacing[order], further_set_starts[order], further_sets, width,
                            far if far <= 0 else ~far, spare, other,
                        )  # fmt: skip
                        older, newer = (far, newer) if far <= 0 else (older, far)
                        for w in range(width):
                            now[word + w] |= spare[w]
                        if reached == many:
                            break
                        continue
                    left = many
                    for axis in range(1, len(kinds)):
                        place = place_of(kinds[axis], directions[axis], table[AXES + axis, row], shift[axis, i])
                        for end_of_range in range(2):
                            order = (2 * axis - 2 + end_of_range) * many_groups + g
                            if left > 0:
                                left = _keep(
                                    further_keys, further_bits, further_starts[order], further_starts[order + 1],
                                    further_spacing[order], further_set_starts[order], further_sets, width,
                                    place if end_of_range == 0 else ~place, spare, other,
                                )  # fmt: skip
                    if left > 0:
                        for w in range(width):
                            now[word + w] |= spare[w]
    return something


@kernel
def _reaching(
    side: int, x: int, low: Ints, word: int, many: int, keys: Ints, bits: Ints32, start: int, stop: int,
    spacing: int, base: int, sets: Words, width: int, found: Words,
) -> None:  # fmt: skip
    """The numbers of a group that reach a row at x, which is below their point (side 0) or not."""
    if side == 1:
        upto = rank(keys, start, stop, ~x)
        kept = upto // spacing
        base += kept * width
        for w in range(width):
            found[w] = sets[base + w]
        for k in range(start + kept * spacing, start + upto):
            bit = bits[k]
            found[bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)
        return
    upto = rank(low, word * 64, word * 64 + many, x)
    for w in range(width):
        found[w] = ~np.uint64(0) if (w + 1) * 64 <= upto else np.uint64(0)
    if upto & 63:
        found[upto >> 6] = (np.uint64(1) << np.uint64(upto & 63)) - np.uint64(1)


@kernel
def _keep(
    keys: Ints, bits: Ints32, start: int, stop: int, spacing: int, base: int, sets: Words, width: int, x: int,
    found: Words, other: Words,
) -> int:  # fmt: skip
    """Takes from `found` the numbers that do not come up to x in an order of a group; how many come up to it."""
    upto = rank(keys, start, stop, x)
    if upto == stop - start:
        return upto
    kept = upto // spacing
    base += kept * width
    for w in range(width):
        other[w] = found[w] & sets[base + w]
    for k in range(start + kept * spacing, start + upto):
        bit = bits[k]
        other[bit >> 6] |= found[bit >> 6] & (np.uint64(1) << np.uint64(bit & 63))
    for w in range(width):
        found[w] = other[w]
    return upto
