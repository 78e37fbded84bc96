"""Codes of numbers against `np.searchsorted`, codes of texts against comparing Python's bytes with every cut."""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_right
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.index.filters import domains
from eddyline.index.filters.domains import (
    NumberColumn,
    TextColumn,
    after,
    after_prefix,
    as_integers,
    numbers_domain,
    sortable,
    text_bytes,
    texts_domain,
    value_column,
)

LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
EDGES = [LEAST, LEAST + 1, LEAST + 2, -1, 0, 1, GREATEST - 2, GREATEST - 1, GREATEST]
TEXTS = ["", "\0", "\0\0", "a", "a\0", "a\0\0", "a\0b", "ab", "abc", "b", "é", "é\0", "ê", "zz", "\uffff", "\U0010ffff"]


def ints(values: Any) -> domains.Ints:
    return np.array(values, np.int64)


def number_codes(domain: domains.NumberDomain, values: Any) -> list[int]:
    found = np.empty(len(values), np.uint16)
    domain.codes(NumberColumn(ints(values), np.empty(0, np.bool_)), found)
    return [int(x) for x in found]


def text_codes(domain: domains.TextDomain, values: list[str | None]) -> list[int]:
    found = np.empty(len(values), np.uint16)
    domain.codes(value_column(pa.array(values, pa.string())), found)
    return [int(x) for x in found]


def some_numbers(rnd: Random, n: int) -> list[int]:
    wide = rnd.choice([3, 100, 2**20, 2**40, 2**63 - 1])
    return [rnd.choice(EDGES) if rnd.random() < 0.1 else rnd.randint(-wide, wide) for _ in range(n)]


@pytest.mark.parametrize("seed", range(60))
def test_the_code_of_a_number_is_one_and_how_many_cuts_are_at_or_below_it(seed: int) -> None:
    rnd = Random(seed)
    cuts = some_numbers(rnd, rnd.choice([0, 1, 2, 7, 300]))
    values = [
        *cuts,
        *(c - 1 for c in cuts if c > LEAST),
        *(c + 1 for c in cuts if c < GREATEST),
        *some_numbers(rnd, 50),
        *EDGES,
    ]
    domain = numbers_domain(ints(cuts))
    plain = sorted(set(cuts))
    assert domain.exact and domain.size == len(plain) + 2, f"seed {seed}"
    assert number_codes(domain, values) == (1 + np.searchsorted(plain, values, side="right")).tolist(), f"seed {seed}"


def test_cuts_at_both_limits_of_64_bits_tell_all_their_neighbours_apart() -> None:
    domain = numbers_domain(ints(EDGES))
    assert number_codes(domain, EDGES) == list(range(2, 11))
    assert number_codes(numbers_domain(ints([GREATEST])), EDGES) == [1] * 8 + [2]
    assert number_codes(numbers_domain(ints([LEAST])), EDGES) == [2] * 9


@pytest.mark.parametrize("seed", range(40))
def test_a_range_of_numbers_is_a_closed_range_of_codes(seed: int) -> None:
    rnd = Random(seed)
    ends = [(rnd.choice(EDGES) if rnd.random() < 0.2 else rnd.randint(-9, 9)) for _ in range(20)]
    domain = numbers_domain(ints(ends))
    for start in ends:
        for stop in ends:
            low, high = int(domain.first_codes(ints([start]))[0]), int(domain.last_codes(ints([stop]))[0])
            values = [*EDGES, *range(-10, 11)]
            inside = [low <= c <= high for c in number_codes(domain, values)]
            assert inside == [start <= v < stop for v in values], f"seed {seed}: [{start}, {stop})"


@pytest.mark.parametrize("size", [1, 2, 5, 31])
@pytest.mark.parametrize("seed", range(10))
def test_fewer_codes_than_cuts_still_ascend_and_a_range_holds_all_its_values(
    monkeypatch: pytest.MonkeyPatch, size: int, seed: int
) -> None:
    monkeypatch.setattr(domains, "MOST_CUTS", size)
    rnd = Random(f"{size} {seed}")
    cuts = sorted(set(some_numbers(rnd, 60)))
    domain = numbers_domain(ints(cuts))
    assert domain.size == size + 2 and not domain.exact, f"seed {seed}"
    values = sorted({*cuts, *some_numbers(rnd, 60)})
    codes = number_codes(domain, values)
    assert codes == sorted(codes), f"seed {seed}"
    for _ in range(50):
        start, stop = rnd.choice(cuts), rnd.choice(cuts)
        low, high = int(domain.first_codes(ints([start]))[0]), int(domain.last_codes(ints([stop]))[0])
        for v, c in zip(values, codes, strict=True):
            assert low <= c <= high or not start <= v < stop, f"seed {seed}: {v} is in [{start}, {stop})"
            assert start <= v < stop or not low < c < high, f"seed {seed}: {v} is not in [{start}, {stop})"


@pytest.mark.parametrize("n", [65_532, 65_533, 65_534, 200_000])
def test_up_to_65533_cuts_are_kept_and_of_more_as_many(n: int) -> None:
    domain = numbers_domain(np.arange(n, dtype=np.int64) * 3)
    assert domain.exact == (n <= 65_533) and domain.size == min(n, 65_533) + 2
    codes = number_codes(domain, [-1, 0, 3 * (n - 1) - 1, 3 * (n - 1), GREATEST])
    assert codes[:2] == [1, 2] and codes[3:] == [domain.size - 1] * 2 and codes[2] == domain.size - 2
    if domain.exact:
        assert number_codes(domain, range(0, 300)) == [2 + i // 3 for i in range(300)]


@pytest.mark.parametrize("n", [3, 10, 65, 1001])
def test_of_too_many_cuts_the_first_and_the_last_are_kept(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    """So a bounded end of a range has never the code of an unbounded one."""
    monkeypatch.setattr(domains, "MOST_CUTS", 2)
    assert numbers_domain(np.arange(n, dtype=np.int64)).cuts.tolist() == [0, n - 1]
    domain = texts_domain(pa.array([b"%05d" % i for i in range(n)], pa.large_binary()))
    assert text_codes(domain, ["", "00000", f"{n - 2:05}", f"{n - 1:05}"]) == [1, 2, 2, 3]


def test_no_cuts_give_every_value_one_code() -> None:
    domain = numbers_domain(ints([]))
    assert (domain.size, number_codes(domain, EDGES)) == (2, [1] * 9)
    assert domain.last_codes(ints([LEAST, LEAST + 1])).tolist() == [0, 1]
    assert text_codes(texts_domain(pa.array([], pa.large_binary())), ["", "x", None]) == [1, 1, 0]


def test_null_has_the_code_zero_in_numbers_and_texts() -> None:
    domain = numbers_domain(ints([5]))
    found = np.empty(4, np.uint16)
    domain.codes(value_column(pa.array([None, 4, 5, None], pa.int32())), found)
    assert found.tolist() == [0, 1, 2, 0]
    assert text_codes(texts_domain(pa.array([b"b"], pa.large_binary())), [None, "a", "b", "", None]) == [0, 1, 2, 1, 0]
    assert text_codes(texts_domain(pa.array([b"b"], pa.large_binary())), [None, None]) == [0, 0]


def test_doubles_as_integers_have_the_same_order_with_nan_above_all() -> None:
    tiny, huge = 5e-324, 1.7976931348623157e308
    ascending = [-math.inf, -huge, -1.0, -tiny, 0.0, tiny, 0.1 + 0.2, 1.0, huge, math.inf, math.nan]
    numbers = sortable(np.array(ascending)).tolist()
    assert numbers == sorted(set(numbers))
    other_nan = np.array([0xFFF8000000000001, 0x7FF0000000000001], np.uint64).view(np.float64)
    assert sortable(np.array([-0.0])).tolist() == sortable(np.array([0.0])).tolist() == [0]
    assert sortable(other_nan).tolist() == [GREATEST, GREATEST] and numbers[-1] == GREATEST


@pytest.mark.parametrize("seed", range(5))
def test_doubles_as_integers_compare_as_the_doubles_do(seed: int) -> None:
    rnd = np.random.default_rng(seed)
    values = rnd.integers(LEAST, GREATEST, 500).view(np.float64)
    values = np.append(values[~np.isnan(values)], [0.0, -0.0, np.inf, -np.inf])
    numbers = sortable(values)
    assert ((numbers[:, None] < numbers) == (values[:, None] < values)).all(), f"seed {seed}"
    assert ((numbers[:, None] == numbers) == (values[:, None] == values)).all(), f"seed {seed}"


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.bool_(), [False, True]),
        (pa.int8(), [-128, 0, 127]),
        (pa.int64(), [LEAST, 0, GREATEST]),
        (pa.float32(), [-math.inf, -1.5, 0.0, 1e-45, 3.0, math.inf, math.nan]),
        (pa.date32(), [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
        (
            pa.timestamp("us"),
            [dt.datetime(1, 1, 1), dt.datetime(2026, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)],
        ),
        (pa.duration("us"), [dt.timedelta(-1), dt.timedelta(0), dt.timedelta(microseconds=1)]),
    ],
)
def test_columns_of_every_type_become_integers_of_the_same_order(type_: pa.DataType, values: list[Any]) -> None:
    column = pa.array([None, *values, None], type_)
    for given in (column, pa.concat_arrays([column, column]).slice(len(column))):
        numbers, missing = as_integers(given)
        assert missing.tolist() == [True, *[False] * len(values), True]
        inner = numbers[1:-1].tolist()
        assert inner == sorted(set(inner)) and len(inner) == len(values)


def test_a_number_column_without_nulls_has_no_flags_and_slices_as_its_rows_do() -> None:
    plain, holed = (value_column(pa.array(v, pa.int64())) for v in ([1, 2, 3], [1, None, 3]))
    assert isinstance(plain, NumberColumn) and isinstance(holed, NumberColumn)
    assert len(plain.missing) == 0 == len(plain.slice(1, 3).missing)
    assert holed.slice(1, 3).missing.tolist() == [True, False]
    assert plain.slice(1, 3).values.tolist() == [2, 3]


def random_text(rnd: Random) -> str:
    return "".join(rnd.choice("\0aab\x7fé\U0001f600") for _ in range(rnd.randint(0, 4)))


@pytest.mark.parametrize("most", [65_533, 4])
@pytest.mark.parametrize("seed", range(15))
def test_the_code_of_a_text_counts_the_kept_cuts_at_or_below_its_bytes(
    monkeypatch: pytest.MonkeyPatch, seed: int, most: int
) -> None:
    monkeypatch.setattr(domains, "MOST_CUTS", most)
    rnd = Random(seed)
    cuts = [*(random_text(rnd) for _ in range(rnd.choice([1, 5, 40]))), *rnd.sample(TEXTS, 5)]
    domain = texts_domain(pa.array([*cuts, None], pa.large_string()))
    kept = [bytes(domain.data[a:b]) for a, b in pairwise(domain.ends)]
    everything = sorted({c.encode() for c in cuts})
    assert domain.exact == (len(everything) <= most) and len(kept) == min(most, len(everything)), f"seed {seed}"
    assert kept == sorted(set(kept) & set(everything)) and domain.size == len(kept) + 2, f"seed {seed}"
    values = [*TEXTS, *(random_text(rnd) for _ in range(50)), *cuts]
    plain = [1 + bisect_right(kept, v.encode()) for v in values]
    assert text_codes(domain, list(values)) == plain, f"seed {seed}"
    binary = pa.array([v.encode() for v in values], pa.large_binary())
    assert domain.first_codes(binary).tolist() == plain, f"seed {seed}"
    below = [1 + sum(k < v.encode() for k in kept) for v in values]
    assert domain.last_codes(binary).tolist() == below, f"seed {seed}"


def test_a_text_column_holds_each_text_once_and_slices_by_row() -> None:
    values = ["b", None, "a", "b", "", "é"]
    column = value_column(pa.array(["skipped", *values], pa.string()).slice(1))
    assert isinstance(column, TextColumn) and len(column.ends) == 5
    domain = texts_domain(pa.array([b"a", b"b"], pa.large_binary()))
    found = np.empty(3, np.uint16)
    domain.codes(column.slice(1, 4), found)
    assert found.tolist() == [0, 2, 3]
    assert text_codes(domain, []) == []


def test_the_bytes_of_texts_stand_end_to_end_whatever_slice_they_came_from() -> None:
    whole = pa.array(["skipped", "ab", None, "", "é\0"], pa.string())
    for given in (whole.slice(1), whole.slice(1).cast(pa.large_string())):
        data, ends = text_bytes(given)
        assert [bytes(data[a:b]).decode() for a, b in pairwise(ends)] == ["ab", "", "", "é\0"]
    data, ends = text_bytes(pa.array(["", ""], pa.string()))
    assert (len(data), ends.tolist()) == (0, [0, 0, 0])


def test_after_is_the_least_text_above_another() -> None:
    for text in (t.encode() for t in TEXTS):
        above = [t.encode() for t in TEXTS if t.encode() > text]
        assert text < after(text) and all(after(text) <= a for a in above)


def test_after_prefix_is_the_least_text_above_all_that_begin_so() -> None:
    for prefix in [*(t.encode() for t in TEXTS), b"a\xff", b"\xff\xffa\xff\xff"]:
        bound = after_prefix(prefix)
        for text in [*(t.encode() for t in TEXTS), prefix + b"\xff" * 9, prefix + b"\0", b"\xff" * 12]:
            inside = prefix <= text and (bound is None or text < bound)
            assert inside == text.startswith(prefix), (prefix, text)
    assert after_prefix(b"") is None and after_prefix(b"\xff\xff") is None
