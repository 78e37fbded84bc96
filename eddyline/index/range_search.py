"""Which numbers does an arriving tuple affect? The strategies of document 4, over `RangeGroups`.

    ssi           every group: the nearest rows to its point, then the two parts of the group (sections 3.1.2, 3.2.2)
    hotspot       the same for hotspots, and for the scattered rest as select_first
    select_first  what the tuple's own attributes leave, number by number: is there a row in its range? (section 4.1)
    join_first    partner by partner: the numbers whose range holds it
    merge         all numbers by their low ends, along with the partners: is the next one in their range? (section 3.1.1)
    vanilla       every number: its conditions on the tuple, then a search for a row

All give the same sets. Rows of the other input come in segments, each sorted by key and then along the first axis; a
row lies at direction * (value - shift) along an axis. Rows whose interval does not meet the tuple's are passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from eddyline.index.prefix_sets import PrefixSets, rank
from eddyline.index.range_groups import RangeGroups
from eddyline.index.rooms import room
from eddyline.index.sets import Containers, Kinds, put
from eddyline.index.vectors import SET_WORDS, copy_set, intersect, lowest_bit, members, table_at, unite

Ints = npt.NDArray[np.int64]
Numbers32 = npt.NDArray[np.int32]
Codes8 = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Halves = npt.NDArray[np.uint16]

STRATEGIES = ("ssi", "hotspot", "select_first", "join_first", "merge", "vanilla")
SSI, HOTSPOT, SELECT_FIRST, JOIN_FIRST, MERGE, VANILLA = range(len(STRATEGIES))

INTEGERS, DOUBLES = 0, 1  # kinds of axes
TS, EXP, FIRST, AXES = range(4)  # the columns of a segment; from AXES on, the values along each axis

_NO_SETS = PrefixSets(np.empty(0, np.int64), np.empty(0, np.int32), *(np.empty(0, np.int64),) * 4, np.empty(0, np.uint64))
_NO_RANGES = np.empty((0, 0), np.int64)


@dataclass(frozen=True)
class Axes:
    """How places along each axis are computed: values are integers or doubles, and grow with the place or against."""

    kinds: Codes8
    directions: Ints


@dataclass(frozen=True)
class Partners:
    """Rows that tuples may join with: segments of columns, and by segment and tuple where its partners are."""

    segments: Sequence[Ints]
    begin: Ints
    end: Ints

    @property
    def addresses(self) -> Ints:
        return np.array([[s.ctypes.data, s.shape[1]] for s in self.segments], np.int64).reshape(-1, 2)

    def slice(self, start: int, stop: int) -> Partners:
        return Partners(self.segments, self.begin[:, start:stop], self.end[:, start:stop])


@dataclass(frozen=True)
class Arrivals:
    """Arriving tuples: by axis what is taken from a row's value, the interval in which they count, their arrival
    numbers, and `own`: their own attributes, each followed by its complement."""

    shift: Ints
    ts: Ints
    exp: Ints
    first: Ints
    own: Ints

    def __len__(self) -> int:
        return len(self.ts)

    def slice(self, start: int, stop: int) -> Arrivals:
        ts, exp, first = (x[start:stop] for x in (self.ts, self.exp, self.first))
        return Arrivals(self.shift[:, start:stop], ts, exp, first, self.own[:, start:stop])


@dataclass(frozen=True)
class Doubts:
    """Which bits count, and by bit the least arrival number of a row or tuple that its number sees; `young` are those
    that may not see all rows. Either set may be empty: all bits count, none is young."""

    living: Words
    young: Words
    since: Ints


def affected(
    groups: RangeGroups,
    axes: Axes,
    arrivals: Arrivals,
    partners: Partners,
    doubts: Doubts,
    how: Codes8,
    *,
    listing: bool,
) -> tuple[Ints, Containers | None]:
    """How many numbers each tuple affects, and their sets if `listing`; `how` has the strategy for each tuple."""
    tuples, blocks = len(arrivals), groups.words // SET_WORDS
    counts = np.zeros(tuples, np.int64)
    shape = (blocks, tuples) if listing else (0, 0)
    kind, size, start = np.zeros(shape, np.uint8), np.zeros(shape, np.uint16), np.zeros(shape, np.int64)
    words = room(shape[0] * shape[1] * (SET_WORDS + 8))
    highs, own, second = groups.highs, groups.own, groups.second
    stabbing = groups.stabbing if np.isin(how, (JOIN_FIRST, MERGE)).any() else _NO_SETS
    own_low, own_high = groups.own_ranges if (how == VANILLA).any() else (_NO_RANGES, _NO_RANGES)
    end = _affected(
        how, _sequence(arrivals, partners), groups.hot, groups.points, groups.word_starts, groups.sizes, groups.low,
        groups.high, groups.present,
        highs.keys, highs.bits, highs.starts, highs.spacing, highs.set_starts, highs.sets,
        second.keys, second.bits, second.starts, second.spacing, second.set_starts, second.sets,
        own.keys, own.bits, own.starts, own.spacing, own.set_starts, own.sets, arrivals.own, own_low, own_high,
        stabbing.keys, stabbing.bits, stabbing.starts, stabbing.spacing, stabbing.set_starts, stabbing.sets,
        partners.addresses, partners.begin, partners.end, axes.kinds, axes.directions, arrivals.shift, arrivals.ts,
        arrivals.exp, arrivals.first, doubts.living, doubts.young, doubts.since, counts, kind, size, start, words,
        words.view(np.uint16),
    )  # fmt: skip
    return counts, Containers(kind, size, start, words[:end], groups.numbers, ascending=False) if listing else None


def _sequence(arrivals: Arrivals, partners: Partners) -> Ints:
    """The order in which tuples are processed: by their first own attribute, or else by where their partners are."""
    if len(arrivals.own):
        return np.argsort(arrivals.own[0])
    return np.lexsort((arrivals.shift[0], partners.begin[0])) if len(partners.begin) else np.arange(len(arrivals))


# --- kernels ---------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def place_of(kind: int, direction: int, value: int, shift: int) -> int:
    """Where a row lies along an axis, as an integer of the same order; NaN is above all."""
    if kind == INTEGERS:
        return direction * (value - shift)
    x = direction * (np.int64(value).view(np.float64) - np.int64(shift).view(np.float64)) + 0.0
    if x != x:
        return np.int64(9223372036854775807)
    bits = np.float64(x).view(np.int64)
    return bits ^ np.int64(9223372036854775807) if bits < 0 else bits


@njit(cache=True, nogil=True)
def first_from(table: Ints, at: int, end: int, kind: int, direction: int, shift: int, low: int) -> int:
    """The first row from `at` on that lies at or above `low` along the first axis."""
    n = end - at
    while n > 0:
        half = n >> 1
        if place_of(kind, direction, table[AXES, at + half], shift) < low:
            at += half + 1
            n -= half + 1
        else:
            n = half
    return at


@njit(cache=True, nogil=True)
def seen(
    table: Ints,
    k: int,
    i: int,
    bit: int,
    low: Ints,
    high: Ints,
    kinds: Codes8,
    directions: Ints,
    shift: Ints,
    since: int,
) -> bool:
    """Whether row k is what a number asks for along the further axes, and did not come before it."""
    if table[FIRST, k] < since:
        return False
    for axis in range(1, len(kinds)):
        place = place_of(kinds[axis], directions[axis], table[AXES + axis, k], shift[axis, i])
        if place < low[axis, bit] or place > high[axis, bit]:
            return False
    return True


@njit(cache=True, nogil=True)
def _some_row(
    addresses: Ints,
    begin: Ints,
    end: Ints,
    i: int,
    bit: int,
    low: Ints,
    high: Ints,
    kinds: Codes8,
    directions: Ints,
    shift: Ints,
    ts: int,
    exp: int,
    since: int,
) -> bool:
    """Whether there is a row for tuple i and the number of a bit."""
    kind, direction, by = kinds[0], directions[0], shift[0, i]
    for s in range(len(addresses)):
        last = end[s, i]
        if begin[s, i] == last:
            continue
        table = table_at(addresses[s, 0], AXES + len(kinds), addresses[s, 1])
        k = first_from(table, begin[s, i], last, kind, direction, by, low[0, bit])
        while k < last and place_of(kind, direction, table[AXES, k], by) <= high[0, bit]:
            if max(table[TS, k], ts) <= min(table[EXP, k], exp) and seen(
                table, k, i, bit, low, high, kinds, directions, shift, since
            ):
                return True
            k += 1
    return False


@njit(cache=True, nogil=True)
def _accept(
    keys: Ints,
    bits: Numbers32,
    starts: Ints,
    spacing: Ints,
    set_starts: Ints,
    sets: Words,
    order: int,
    x: int,
    now: Words,
    then: Words,
) -> None:
    """then = now ∩ the numbers that come up to x in an order over all bits."""
    start = starts[order]
    upto = rank(keys, start, starts[order + 1], x)
    kept = upto // spacing[order]
    base = set_starts[order] + kept * len(now)
    for w in range(0, len(now), 64):
        intersect(then, w, now, w, sets, base + w, now, w)
    for k in range(start + kept * spacing[order], start + upto):
        bit = bits[k]
        then[bit >> 6] |= now[bit >> 6] & (np.uint64(1) << np.uint64(bit & 63))


@njit(cache=True, nogil=True)
def _sweep(
    keys: Ints,
    bits: Numbers32,
    starts: Ints,
    spacing: Ints,
    set_starts: Ints,
    sets: Words,
    lows: int,
    highs: int,
    x: int,
    present: Words,
    accepting: Words,
    spare: Words,
) -> tuple[int, int]:
    """Brings the numbers that accept x, as the first own attribute, from those that accept the x before, which was not
    above it: the first `lows` in the order of low ends and the first `highs` in that of high ends. Returns the new
    `lows` and `highs`. A wide step is begun from the sets that are kept."""
    one = np.uint64(1)
    low_end, high_end = rank(keys, 0, starts[1], x), rank(keys, starts[1], starts[2], ~x)
    if lows < 0 or low_end - lows + highs - high_end > 2 * spacing[0]:
        _accept(keys, bits, starts, spacing, set_starts, sets, 0, x, present, spare)
        _accept(keys, bits, starts, spacing, set_starts, sets, 1, ~x, spare, accepting)
        return low_end, high_end
    for k in range(lows, low_end):
        bit = bits[k]
        accepting[bit >> 6] |= one << np.uint64(bit & 63)
    for k in range(starts[1] + high_end, starts[1] + highs):
        bit = bits[k]
        accepting[bit >> 6] &= ~(one << np.uint64(bit & 63))
    return low_end, high_end


@njit(cache=True, nogil=True)
def _by_groups(
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
        below = above = np.int64(0)
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
            k = p - 1
            while k >= first and max(table[TS, k], ts) > min(table[EXP, k], exp):
                k -= 1
            if k >= first:
                x = place_of(kind, direction, table[AXES, k], by)
                below = max(below, x) if has_below else x
                has_below = True
            k = p
            while k < last and max(table[TS, k], ts) > min(table[EXP, k], exp):
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
        for w in range(word, word + full):
            now[w] = ~np.uint64(0)
        kept = second_part // high_spacing[g]
        base = high_set_starts[g] + kept * width
        for w in range(full, width):
            now[word + w] = high_sets[base + w]
        if first_part & 63:
            now[word + full] |= (one << np.uint64(first_part & 63)) - one
        for k in range(high_starts[g] + kept * high_spacing[g], high_starts[g] + second_part):
            bit = high_bits[k]
            now[word + (bit >> 6)] |= one << np.uint64(bit & 63)
    return something


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


@njit(cache=True, nogil=True)
def _by_skylines(
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
    """As `_by_groups`, with a second axis (time) along which all ranges hold 0 (document 4, section 3.3.2).

    From the point of a group outwards, rows matter that are nearer to 0 along the second axis than all before: the
    skyline. A number is affected by one of them that it reaches along both axes. The walk ends with a row that all
    numbers of the group reach along the second axis."""
    one = np.uint64(1)
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
            table = table_at(addresses[s, 0], columns, addresses[s, 1])
            middle = first_from(table, first, last, kinds[0], directions[0], shift[0, i], point)
            for side in range(2):
                k = middle - 1 if side == 0 else middle
                step = -1 if side == 0 else 1
                older, newer = np.int64(-9223372036854775807), np.int64(9223372036854775807)
                while first <= k < last:
                    if max(table[TS, k], ts) > min(table[EXP, k], exp):
                        k += step
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
                    k += step
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
def _by_merging(
    stab_keys: Ints,
    stab_bits: Numbers32,
    numbers: int,
    high: Ints,
    addresses: Ints,
    begin: Ints,
    end: Ints,
    i: int,
    kinds: Codes8,
    directions: Ints,
    by: int,
    ts: int,
    exp: int,
    now: Words,
) -> None:
    """O(numbers + partners)."""
    kind, direction, columns = kinds[0], directions[0], AXES + len(kinds)
    now[:] = 0
    for s in range(len(addresses)):
        table = table_at(addresses[s, 0], columns, addresses[s, 1])
        k, last = begin[s, i], end[s, i]
        for n in range(numbers):
            while k < last and (
                place_of(kind, direction, table[AXES, k], by) < stab_keys[n]
                or max(table[TS, k], ts) > min(table[EXP, k], exp)
            ):
                k += 1
            if k == last:
                break
            bit = stab_bits[n]
            if place_of(kind, direction, table[AXES, k], by) <= high[bit]:
                now[bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)


@njit(cache=True, nogil=True)
def _accepting(own_low: Ints, own_high: Ints, own: Ints, i: int, present: Words, now: Words) -> None:
    """The numbers that accept a tuple's own attributes, compared one by one."""
    for w in range(len(present)):
        rest = present[w]
        now[w] = 0
        while rest != 0:
            k = lowest_bit(rest)
            rest &= rest - np.uint64(1)
            accepts = True
            for a in range(len(own_low)):
                accepts &= own_low[a, w * 64 + k] <= own[2 * a, i] <= own_high[a, w * 64 + k]
            if accepts:
                now[w] |= np.uint64(1) << np.uint64(k)


@njit(cache=True, nogil=True)
def _affected(
    how: Codes8,
    sequence: Ints,
    hot: int,
    points: Ints,
    word_starts: Ints,
    sizes: Ints,
    low: Ints,
    high: Ints,
    present: Words,
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
    own_keys: Ints,
    own_bits: Numbers32,
    own_starts: Ints,
    own_spacing: Ints,
    own_set_starts: Ints,
    own_sets: Words,
    own: Ints,
    own_low: Ints,
    own_high: Ints,
    stab_keys: Ints,
    stab_bits: Numbers32,
    stab_starts: Ints,
    stab_spacing: Ints,
    stab_set_starts: Ints,
    stab_sets: Words,
    addresses: Ints,
    begin: Ints,
    end: Ints,
    kinds: Codes8,
    directions: Ints,
    shift: Ints,
    own_ts: Ints,
    own_exp: Ints,
    own_first: Ints,
    living: Words,
    young: Words,
    since: Ints,
    counts: Ints,
    kind: Kinds,
    size: Halves,
    start: Ints,
    room: Words,
    halves: Halves,
) -> int:
    """Tuples in the sequence given. Returns how many words of room were written."""
    one = np.uint64(1)
    words = len(present)
    now = np.zeros(words, np.uint64)
    then = np.zeros(words, np.uint64)
    united = np.zeros(words, np.uint64)
    accepting = np.zeros(words, np.uint64)
    lows = highs = -1
    at = np.empty(len(addresses), np.int64)
    block_words = np.empty(64, np.uint64)
    written = 0
    for i in sequence:
        some = False
        for s in range(len(addresses)):
            some |= begin[s, i] < end[s, i]
        if not some:
            continue
        strategy, ts, exp, by = how[i], own_ts[i], own_exp[i], shift[0, i]
        unchecked = words  # from this word on, numbers have not been compared with rows
        skylines = False  # whether the second axis has been looked at
        if strategy == VANILLA:
            _accepting(own_low, own_high, own, i, present, now)
            unchecked = 0
        elif strategy == JOIN_FIRST:
            united[:] = 0
            for s in range(len(addresses)):
                table = table_at(addresses[s, 0], AXES + len(kinds), addresses[s, 1])
                for k in range(begin[s, i], end[s, i]):
                    if max(table[TS, k], ts) > min(table[EXP, k], exp):
                        continue
                    x = place_of(kinds[0], directions[0], table[AXES, k], by)
                    _accept(
                        stab_keys, stab_bits, stab_starts, stab_spacing, stab_set_starts, stab_sets, 0, x, present, now
                    )
                    _accept(
                        stab_keys, stab_bits, stab_starts, stab_spacing, stab_set_starts, stab_sets, 1, ~x, now, then
                    )
                    for w in range(0, words, 64):
                        unite(united, w, then, w)
            now, united = united, now
        elif strategy == MERGE:
            _by_merging(
                stab_keys, stab_bits, stab_starts[1], high[0], addresses, begin, end, i, kinds, directions, by, ts, exp,
                now,
            )  # fmt: skip
        else:
            groups = len(points) if strategy == SSI else hot if strategy == HOTSPOT else 0
            if len(second_spacing) > 0 and groups > 0:
                skylines = True
                some = _by_skylines(
                    groups, points, word_starts, sizes, low, high_keys, high_bits, high_starts, high_spacing,
                    high_set_starts, high_sets, second_keys, second_bits, second_starts, second_spacing,
                    second_set_starts, second_sets, addresses, begin, end, i, kinds, directions, shift, ts, exp, then,
                    now,
                )  # fmt: skip
            else:
                some = _by_groups(
                groups, points, word_starts, sizes, low[0], high_keys, high_bits, high_starts, high_spacing,
                high_set_starts, high_sets, addresses, begin, end, i, kinds, directions, by, ts, exp, at, now,
            )  # fmt: skip
            unchecked = word_starts[groups]
            for w in range(unchecked, words):
                now[w] = present[w]
            if not some and groups == len(points):
                continue
        if len(living) > 0:
            for w in range(0, words, 64):
                intersect(now, w, now, w, living, w, now, w)
        if strategy != VANILLA and len(own_spacing) > 0:
            lows, highs = _sweep(
                own_keys, own_bits, own_starts, own_spacing, own_set_starts, own_sets, lows, highs, own[0, i], present,
                accepting, then,
            )  # fmt: skip
            for w in range(0, words, 64):
                intersect(now, w, now, w, accepting, w, now, w)
            for order in range(2, len(own_spacing)):
                x = own[order, i]
                _accept(own_keys, own_bits, own_starts, own_spacing, own_set_starts, own_sets, order, x, now, then)
                now, then = then, now
        if len(kinds) > 1 and not skylines:
            unchecked = 0
        for w in range(0 if len(young) > 0 else unchecked, words):
            rest = now[w] if w >= unchecked else now[w] & young[w]
            while rest != 0:
                bit = w * 64 + lowest_bit(rest)
                mask = rest & (~rest + one)
                rest ^= mask
                if own_first[i] < since[bit] or not _some_row(
                    addresses, begin, end, i, bit, low, high, kinds, directions, shift, ts, exp, since[bit]
                ):
                    now[w] ^= mask
        count = 0
        for w in range(0, words, 64):
            count += members(now, w)
        counts[i] = count
        if len(kind) > 0 and count > 0:
            for block in range(words // 64):
                copy_set(block_words, 0, now, block * 64)
                written = put(block_words, block, i, kind, size, start, room, halves, written)
    return written
