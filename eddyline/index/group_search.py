"""The numbers of stabbing groups that a tuple affects, by the rows nearest to each group's point."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from eddyline.index.axes import AXES, EXP, TS, first_from, place_of
from eddyline.index.prefix_sets import rank
from eddyline.index.vectors import copy_words, fill_words, table_at

Ints = npt.NDArray[np.int64]
Numbers32 = npt.NDArray[np.int32]
Codes8 = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

MAX = 9223372036854775807

# --- kernels ---------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def by_groups(
    groups: int,
    points: Ints,
    word_starts: Ints,
    sizes: Ints,
    low: Ints,
    high_keys: Ints,
    high_bits: Numbers32,
    high_starts: Ints,
    high_spacing: Ints,
    high_set_starts: Ints,
    high_sets: Words,
    addresses: Ints,
    begin: Ints,
    end: Ints,
    i: int,
    kinds: Codes8,
    directions: Ints,
    by: int,
    ts: int,
    exp: int,
    at: Ints,
    now: Words,
) -> bool:
    """The numbers of the first so many groups that tuple i affects, as far as the first axis tells; whether any.

    Two searches a group, the first from where the group before it ended: groups follow one another along the axis.
    """
    one = np.uint64(1)
    kind, direction, columns = kinds[0], directions[0], AXES + len(kinds)
    something = False
    for g in range(groups):
        point = points[g]
        if g == 0 or point < points[g - 1]:  # hotspots are in order, and so are the others
            for s in range(len(addresses)):
                at[s] = begin[s, i]
        has_below = has_above = False
        below = above = 0
        for s in range(len(addresses)):
            first, last = begin[s, i], end[s, i]
            if first == last:
                continue
            table = table_at(addresses[s, 0], columns, addresses[s, 1])
            p = at[s]
            step = 1
            while p + step <= last and place_of(kind, direction, table[AXES, p + step - 1], by) <= point:
                p += step
                step *= 2
            n = min(step, last - p)
            while n > 0:
                half = n >> 1
                if place_of(kind, direction, table[AXES, p + half], by) <= point:
                    p += half + 1
                    n -= half + 1
                else:
                    n = half
            at[s] = p
            all_count = ts <= addresses[s, 3] and addresses[s, 2] <= exp
            k = p - 1
            while not all_count and k >= first and max(table[TS, k], ts) > min(table[EXP, k], exp):
                k -= 1
            if k >= first:
                x = place_of(kind, direction, table[AXES, k], by)
                below = max(below, x) if has_below else x
                has_below = True
            k = p
            while not all_count and k < last and max(table[TS, k], ts) > min(table[EXP, k], exp):
                k += 1
            if k < last:
                x = place_of(kind, direction, table[AXES, k], by)
                above = min(above, x) if has_above else x
                has_above = True
        word, width, many = word_starts[g], word_starts[g + 1] - word_starts[g], sizes[g]
        first_part = rank(low, word * 64, word * 64 + many, below) if has_below else 0
        second_part = 0
        if has_above and first_part < many:
            second_part = rank(high_keys, high_starts[g], high_starts[g + 1], ~above)
        something |= first_part + second_part > 0
        full = first_part >> 6
        fill_words(now, word, full)
        kept = second_part // high_spacing[g]
        base = high_set_starts[g] + kept * width
        copy_words(now, word + full, high_sets, base + full, width - full)
        if first_part & 63:
            now[word + full] |= (one << np.uint64(first_part & 63)) - one
        for k in range(high_starts[g] + kept * high_spacing[g], high_starts[g] + second_part):
            bit = high_bits[k]
            now[word + (bit >> 6)] |= one << np.uint64(bit & 63)
    return something


@njit(cache=True, nogil=True)
def by_skylines(
    groups: int,
    points: Ints,
    word_starts: Ints,
    sizes: Ints,
    low: Ints,
    high_keys: Ints,
    high_bits: Numbers32,
    high_starts: Ints,
    high_spacing: Ints,
    high_set_starts: Ints,
    high_sets: Words,
    second_keys: Ints,
    second_bits: Numbers32,
    second_starts: Ints,
    second_spacing: Ints,
    second_set_starts: Ints,
    second_sets: Words,
    addresses: Ints,
    begin: Ints,
    end: Ints,
    i: int,
    kinds: Codes8,
    directions: Ints,
    shift: Ints,
    ts: int,
    exp: int,
    spare: Words,
    now: Words,
) -> bool:
    """As `by_groups`, with a second axis (time) along which all ranges hold 0 (document 4, section 3.3.2).

    From the point of a group outwards, rows matter that are nearer to 0 along the second axis than all before: the
    skyline. A number is affected by one of them that it reaches along both axes. The walk ends with a row that all
    numbers of the group reach along the second axis. Where no row is beyond 0 there, and all have begun, links lead
    from one to the next (`skylines.py`)."""
    columns = AXES + len(kinds)
    something = False
    many_groups = len(points)
    for g in range(groups):
        point, word, width, many = points[g], word_starts[g], word_starts[g + 1] - word_starts[g], sizes[g]
        for w in range(word, word + width):
            now[w] = 0
        first_low, last_low = second_starts[g], second_starts[g + 1]
        first_high, last_high = second_starts[many_groups + g], second_starts[many_groups + g + 1]
        for s in range(len(addresses)):
            first, last = begin[s, i], end[s, i]
            if first == last:
                continue
            links = shift[1, i] >= addresses[s, 4] and exp >= addresses[s, 2]
            table = table_at(addresses[s, 0], columns + 2 * links, addresses[s, 1])
            middle = first_from(table, first, last, kinds[0], directions[0], shift[0, i], point)
            for side in range(2):
                k = middle - 1 if side == 0 else middle
                step = -1 if side == 0 else 1
                older, newer = -MAX, MAX
                while first <= k < last:
                    following = table[columns + side, k] if links else k + step
                    if max(table[TS, k], ts) > min(table[EXP, k], exp):
                        k = following
                        continue
                    far = place_of(kinds[1], directions[1], table[AXES + 1, k], shift[1, i])
                    if (far <= 0 and far > older) or (far > 0 and far < newer):
                        x = place_of(kinds[0], directions[0], table[AXES, k], shift[0, i])
                        reach = _reaching(
                            side, x, low[0], word, many, high_keys, high_bits, high_starts[g], high_starts[g + 1],
                            high_spacing[g], high_set_starts[g], high_sets, width, spare,
                        )  # fmt: skip
                        if reach == 0:
                            break  # and no row further out reaches any
                        something = True
                        reached = 0
                        if far <= 0:
                            older = far
                            reached = _and_within(
                                second_keys, second_bits, first_low, last_low, second_spacing[g], second_set_starts[g],
                                second_sets, width, far, spare, now, word,
                            )  # fmt: skip
                        else:
                            newer = far
                            reached = _and_within(
                                second_keys, second_bits, first_high, last_high, second_spacing[many_groups + g],
                                second_set_starts[many_groups + g], second_sets, width, ~far, spare, now, word,
                            )  # fmt: skip
                        if reached == many:
                            break
                    k = following
    return something


@njit(cache=True, nogil=True)
def _reaching(
    side: int, x: int, low: Ints, word: int, many: int, keys: Ints, bits: Numbers32, start: int, stop: int,
    spacing: int, base: int, sets: Words, width: int, found: Words,
) -> int:  # fmt: skip
    """The numbers of a group that reach a row at x, which is below their point (side 0) or not; how many there are."""
    if side == 1:
        return _within_group(keys, bits, start, stop, spacing, base, sets, width, ~x, found)
    upto = rank(low, word * 64, word * 64 + many, x)
    for w in range(width):
        found[w] = ~np.uint64(0) if (w + 1) * 64 <= upto else np.uint64(0)
    if upto & 63:
        found[upto >> 6] = (np.uint64(1) << np.uint64(upto & 63)) - np.uint64(1)
    return upto


@njit(cache=True, nogil=True)
def _and_within(
    keys: Ints, bits: Numbers32, start: int, stop: int, spacing: int, base: int, sets: Words, width: int, x: int,
    also: Words, now: Words, word: int,
) -> int:  # fmt: skip
    """Adds to `now` what is in `also` and comes up to x in an order of a group; how many come up to x."""
    upto = rank(keys, start, stop, x)
    kept = upto // spacing
    base += kept * width
    for w in range(width):
        now[word + w] |= also[w] & sets[base + w]
    for k in range(start + kept * spacing, start + upto):
        bit = bits[k]
        now[word + (bit >> 6)] |= also[bit >> 6] & (np.uint64(1) << np.uint64(bit & 63))
    return upto


@njit(cache=True, nogil=True)
def _within_group(
    keys: Ints, bits: Numbers32, start: int, stop: int, spacing: int, base: int, sets: Words, width: int, x: int,
    found: Words,
) -> int:  # fmt: skip
    """The numbers of a group that come up to x in one of its orders; returns how many."""
    upto = rank(keys, start, stop, x)
    kept = upto // spacing
    base += kept * width
    for w in range(width):
        found[w] = sets[base + w]
    for k in range(start + kept * spacing, start + upto):
        bit = bits[k]
        found[bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)
    return upto
