"""`bucket_of` and the cells against plain Python; the hash itself is pinned, because state on disk depends on it."""

import math
import struct
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline import types as t
from eddyline.index.keys.bucket_hash import NAN_CELL, NULL_CELL, bucket_of, bucket_of_cell, cell, reach, widest

untimed = settings(deadline=None)  # the first call of a kernel may compile it

WORD = 2**64 - 1
EPOCH = datetime(1970, 1, 1)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    t.BOOLEAN: st.booleans(),
    **{x: st.integers(-(2 ** (x.bit_width - 1)), 2 ** (x.bit_width - 1) - 1) for x in (t.BYTE, t.SHORT, t.INT)},
    t.BIGINT: st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
    t.FLOAT: st.floats(width=32),
    t.DOUBLE: st.floats(),
    t.STRING: st.text(max_size=20),
    t.DATE: st.dates(),
    t.TIMESTAMP: st.datetimes(),
    t.INTERVAL: st.timedeltas(timedelta(days=-999), timedelta(days=999)),
    t.NULL: st.none(),
}


def plain_hash(*words: int) -> int:
    h = 0
    for word in words:
        x = (h + 0x9E3779B97F4A7C15 + word) & WORD
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & WORD
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB & WORD
        h = x ^ (x >> 31)
    return h


def plain_code(value: Any) -> int:
    match value:
        case None:
            return 0x6E756C6C
        case float():
            bits = struct.unpack("<Q", struct.pack("<d", value + 0.0))[0]
            return 0x7FF8000000000000 if math.isnan(value) else int(bits)
        case str():
            data = value.encode()
            words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]
            return plain_hash(len(data), *words)
        case datetime():
            value = (value - EPOCH) // timedelta(microseconds=1)
        case date():
            value = (value - EPOCH.date()).days
        case timedelta():
            value = value // timedelta(microseconds=1)
    return int(value) & WORD


@st.composite
def keys(draw: st.DrawFn) -> list[pa.Array]:
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    n = draw(st.integers(0, 8))
    values = [draw(st.lists(st.none() | VALUES[x], min_size=n, max_size=n)) for x in types]
    return [pa.array(v, x) for v, x in zip(values, types, strict=True)]


@untimed
@given(keys(), st.integers(1, 300))
def test_the_bucket_of_a_row_is_the_one_that_the_definition_gives(columns: list[pa.Array], buckets: int) -> None:
    rows = zip(*(c.to_pylist() for c in columns), strict=True)
    expected = [plain_hash(*map(plain_code, row)) % buckets for row in rows]
    found = bucket_of(columns, buckets)
    assert found.dtype == np.int32
    assert found.tolist() == expected
    assert bucket_of([c.slice(1) for c in columns], buckets).tolist() == expected[1:]


def test_every_type_of_the_engine_has_a_bucket() -> None:
    assert {*t.BY_NAME.values(), t.NULL} == set(VALUES)


def test_the_hash_is_what_it_was_when_state_was_first_written() -> None:
    assert plain_hash(0) == 0xE220A8397B1DCDAF, "the first number of SplitMix64 from seed 0"
    columns = [
        pa.array([1, -1, None, 0, 2**40]),
        pa.array(["", "a", "eight by", "nine byte", None]),
        pa.array([0.5, -0.0, 0.0, None, math.nan]),
    ]
    assert bucket_of(columns[:1], 1_000_003).tolist() == [745530, 55612, 324071, 4995, 661465]
    assert bucket_of(columns, 1_000_003).tolist() == [716839, 951579, 992056, 66474, 390665]
    assert bucket_of_cell(np.array([0, -1, 7, NAN_CELL, NULL_CELL]), 1_000_003).tolist() == [
        4995,
        55612,
        291423,
        60401,
        188013,
    ]


@pytest.mark.parametrize("kind", [t.FLOAT, t.DOUBLE])
def test_values_that_sql_calls_equal_share_a_bucket(kind: pa.DataType) -> None:
    bits = np.uint32(0xFFC00001) if kind == t.FLOAT else np.uint64(0xFFF8000000000001)
    other_nan = bits.view(np.float32 if kind == t.FLOAT else np.float64)
    column = pa.array(np.array([0.0, -0.0, math.nan, other_nan], kind.to_pandas_dtype()))
    zero, minus_zero, nan, another = bucket_of([column], 2**31 - 1).tolist()
    assert zero == minus_zero
    assert nan == another


def test_integers_of_any_width_share_a_bucket_with_their_equals() -> None:
    found = [bucket_of([pa.array([-3, 0, 100], x)], 1000).tolist() for x in (t.BYTE, t.SHORT, t.INT, t.BIGINT)]
    assert all(f == found[0] for f in found)


@pytest.mark.parametrize("stride", [1, 8, 1000, 2**20, 2**40])
def test_regular_keys_and_cells_spread_evenly(stride: int) -> None:
    numbers = np.arange(10_000) * stride
    for found in (bucket_of([pa.array(numbers)], 10), bucket_of_cell(numbers, 10)):
        assert 800 < np.bincount(found, minlength=10).min() <= np.bincount(found).max() < 1200


# --- cells -----------------------------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-5, 5),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.floats(-100, 100),
    st.none(),
)
BOUNDS = st.one_of(st.integers(-5, 5).map(float), st.floats(), st.floats(-10, 10))
WIDTHS = st.sampled_from([0.01, 0.5, 1.0, 3.0, 1e9, 1e-300])


def number_column(values: list[Any]) -> pa.Array:
    kind = t.DOUBLE if any(isinstance(v, float) for v in values) else t.BIGINT
    return pa.array([None if v is None else float(v) if kind == t.DOUBLE else v for v in values], kind)


@untimed
@given(st.lists(NUMBERS, max_size=20), WIDTHS)
def test_cells_ascend_with_the_values(values: list[Any], width: float) -> None:
    numbers = sorted(v for v in values if v is not None and not math.isnan(v))
    cells = cell(number_column(numbers), width).tolist()
    assert cells == sorted(cells)
    assert all(abs(c) <= 2**61 for c in cells)


def test_cells_are_intervals_of_the_given_width() -> None:
    width = 2.5
    values = np.linspace(-20, 20, 997)
    assert cell(pa.array(values), width).tolist() == [math.floor(v / width + 0.382) for v in values.tolist()]
    assert cell(pa.array([None, math.nan, math.inf, -math.inf]), width).tolist() == [
        NULL_CELL,
        NAN_CELL,
        2**61,
        -(2**61),
    ]


def meet(home: float, reaching: float, low: float, high: float) -> bool:
    """Whether a query with these bounds may join the two, whichever way it is written."""
    if math.isnan(home) or math.isnan(reaching):
        return math.isnan(home) and math.isnan(reaching)
    return low <= home - reaching <= high or reaching + low <= home <= reaching + high


@untimed
@given(
    st.lists(NUMBERS, max_size=12),
    st.lists(NUMBERS, max_size=12),
    BOUNDS,
    BOUNDS,
    WIDTHS,
    st.sampled_from([1, 2, 3, 16]),
)
def test_all_that_can_meet_do_meet_and_only_once(
    homes: list[Any], values: list[Any], low: float, high: float, width: float, buckets: int
) -> None:
    home_column, column = number_column(homes), number_column(values)
    at = bucket_of_cell(cell(home_column, width), buckets).tolist()
    pairs = list(zip(*(x.tolist() for x in reach(column, low, high, width, buckets)), strict=True))
    assert len(set(pairs)) == len(pairs), "a row has two copies in a bucket"
    assert all(0 <= b < buckets for _, b in pairs)
    assert pairs == sorted(pairs, key=lambda p: p[0])
    for i, v in enumerate(column.to_pylist()):
        if v is None:
            assert i not in {row for row, _ in pairs}
        elif not (math.isfinite(low) and math.isfinite(high)):
            assert {b for row, b in pairs if row == i} == set(range(buckets))
        else:
            for h, bucket in zip(home_column.to_pylist(), at, strict=True):
                if h is not None and meet(h, v, low, high):
                    assert (i, bucket) in pairs, (h, v)


def test_a_row_reaches_the_cells_of_its_band_and_no_others() -> None:
    values = [0.0, 4.0, -7.0]
    row, bucket = reach(pa.array(values), -1.0, 2.0, 1.0, 1000)
    for i, v in enumerate(values):
        cells = np.array([v - 1, v, v + 1, v + 2], np.int64)
        assert set(bucket[row == i].tolist()) == set(bucket_of_cell(cells, 1000).tolist())


def test_integers_are_compared_as_such_near_the_ends_of_their_range() -> None:
    low, high = -(2**63), 2**63 - 1
    column = pa.array([low, high])
    for bound in (-1.0, 0.0, 1.0, 2.0**63):
        row, bucket = reach(column, -abs(bound), abs(bound), 1.0, 64)
        homes = bucket_of_cell(cell(column, 1.0), 64).tolist()
        assert {(0, homes[0]), (1, homes[1])} <= set(zip(row.tolist(), bucket.tolist(), strict=True))


def test_a_very_wide_band_reaches_all_buckets_without_walking_its_cells() -> None:
    row, bucket = reach(pa.array([0.0, 1.0]), -1e18, 1e18, 1.0, 3)
    assert list(zip(row.tolist(), bucket.tolist(), strict=True)) == [(i, b) for i in (0, 1) for b in range(3)]


def test_the_widest_bounds_are_those_of_queries_that_have_both() -> None:
    low, high = pa.array([1.0, None, -3.0, -9.0]), pa.array([2.0, 50.0, 1.0, None])
    assert widest(low, high) == (-3.0, 2.0)
    assert widest(pa.array([None], t.DOUBLE), pa.array([1.0])) is None
    found = widest(pa.array([1.0, math.nan]), pa.array([2.0, 3.0]))
    assert found is not None and math.isnan(found[0]) and found[1] == 3.0
