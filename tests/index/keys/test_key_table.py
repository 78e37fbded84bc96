"""`KeyTable` and `ColumnCoder` against dicts of tuples."""

import math
from collections.abc import Hashable
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.index.keys.key_table import COLUMNS_PER_MASK, UNSEEN, ColumnCoder, KeyTable

untimed = settings(deadline=None)  # the first call of a kernel may compile it

CODES = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))


@st.composite
def batches_of_rows(draw: st.DrawFn) -> tuple[int, list[np.ndarray[Any, Any]]]:
    width = draw(st.integers(0, 4))
    batches = draw(st.lists(st.lists(st.tuples(*[CODES] * width), max_size=30), max_size=5))
    return width, [np.array(rows, np.int64).reshape(len(rows), width) for rows in batches]


def slots_of(known: dict[tuple[int, ...], int], rows: np.ndarray[Any, Any]) -> list[int]:
    return [known.setdefault(tuple(row), len(known)) for row in rows.tolist()]


@untimed
@given(batches_of_rows())
def test_slots_are_those_of_a_dict_in_order_of_first_appearance(
    drawn: tuple[int, list[np.ndarray[Any, Any]]],
) -> None:
    width, batches = drawn
    table, known = KeyTable(width), dict[tuple[int, ...], int]()
    for rows in batches:
        expected_before = [known.get(tuple(row), -1) for row in rows.tolist()]
        assert table.find(rows).tolist() == expected_before
        assert table.insert(rows).tolist() == slots_of(known, rows)
        assert len(table) == len(known)
    assert [tuple(row) for row in table.keys().tolist()] == list(known)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("width", [1, 2, 5])
def test_slots_stay_while_the_table_grows(seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    table, known = KeyTable(width), dict[tuple[int, ...], int]()
    for size in [1, 10, 1000, 3, 20_000, 50_000]:
        rows = rng.integers(0, 30_000 if width == 1 else 12, (size, width))
        assert table.insert(rows).tolist() == slots_of(known, rows), f"seed {seed}"
    assert table.find(table.keys()).tolist() == list(range(len(known))), f"seed {seed}"


@pytest.mark.parametrize("stride", [1, 1000, 2**20, 2**32, 2**40, -1])
def test_regular_keys_keep_their_slots(stride: int) -> None:
    numbers = np.arange(20_000) * stride
    pairs = np.stack([numbers // 100, numbers % 100, np.zeros_like(numbers)], axis=1)
    distinct = len({tuple(row) for row in pairs.tolist()})
    table = KeyTable(3)
    assert table.insert(pairs).tolist() == slots_of({}, pairs)
    assert len(table) == distinct


def test_without_columns_there_is_one_key() -> None:
    table = KeyTable(0)
    assert table.find(np.empty((2, 0), np.int64)).tolist() == [-1, -1]
    assert table.insert(np.empty((3, 0), np.int64)).tolist() == [0, 0, 0]
    assert table.find(np.empty((2, 0), np.int64)).tolist() == [0, 0]
    assert table.keys().shape == (1, 0)
    assert table.keep(np.array([], np.int64)).tolist() == [-1]
    assert len(table) == 0


def test_rows_need_not_be_contiguous_or_writable() -> None:
    rows = np.arange(12).reshape(2, 6)[:, ::3].T.copy(order="F")
    rows.flags.writeable = False
    table = KeyTable(2)
    assert table.insert(rows).tolist() == [0, 1]
    assert table.find(rows[::-1]).tolist() == [1, 0]


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ValueError, match="rows of 2 codes"):
        KeyTable(2).insert(np.zeros((3, 1), np.int64))


@untimed
@given(batches_of_rows(), st.data())
def test_keep_renumbers_what_stays_and_forgets_the_rest(
    drawn: tuple[int, list[np.ndarray[Any, Any]]], data: st.DataObject
) -> None:
    width, batches = drawn
    table = KeyTable(width)
    for rows in batches:
        table.insert(rows)
        before = table.keys()
        kept = [slot for slot in range(len(before)) if data.draw(st.booleans())]
        renumbered = table.keep(np.array(kept, np.int64))
        assert renumbered.tolist() == [kept.index(s) if s in kept else -1 for s in range(len(before))]
        assert table.keys().tolist() == before[kept].tolist()
        assert table.find(before).tolist() == renumbered.tolist()


def test_keep_returns_memory() -> None:
    table = KeyTable(2)
    table.insert(np.arange(100_000).reshape(-1, 2))
    full = table._keys.nbytes + table._table.nbytes
    table.keep(np.arange(0, 50_000, 100))
    assert table._keys.nbytes + table._table.nbytes < full / 50
    assert table.insert(np.array([[2, 3], [200, 201]])).tolist() == [500, 1]


@pytest.mark.parametrize("slots", [[1, 0], [0, 0], [-1, 0], [0, 3]])
def test_keep_refuses_slots_that_do_not_ascend_or_exist(slots: list[int]) -> None:
    table = KeyTable.from_keys(np.arange(3).reshape(3, 1))
    with pytest.raises(ValueError, match="ascend"):
        table.keep(np.array(slots))
    assert len(table) == 3


@untimed
@given(batches_of_rows())
def test_a_table_restored_from_its_keys_goes_on_as_the_saved_one(
    drawn: tuple[int, list[np.ndarray[Any, Any]]],
) -> None:
    width, batches = drawn
    saved = KeyTable(width)
    for rows in batches:
        restored = KeyTable.from_keys(saved.keys())
        assert restored.insert(rows).tolist() == saved.insert(rows).tolist()


def test_only_distinct_keys_can_be_restored() -> None:
    with pytest.raises(ValueError, match="distinct"):
        KeyTable.from_keys(np.zeros((2, 1), np.int64))


# --- codes of columns ------------------------------------------------------------------------------------------------

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.one_of(st.integers(-2, 2), st.integers(-(2**63), 2**63 - 1)),
    pa.uint64(): st.one_of(st.integers(0, 2), st.integers(0, 2**64 - 1)),
    pa.float32(): st.one_of(st.sampled_from([0.0, -0.0, math.nan, math.inf]), st.floats(width=32)),
    pa.float64(): st.one_of(st.sampled_from([0.0, -0.0, math.nan, -math.inf]), st.floats()),
    pa.string(): st.one_of(st.sampled_from(["", "a", "é", "🌊"]), st.text(max_size=12)),
    pa.large_string(): st.text(max_size=3),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.duration("us"): st.timedeltas(timedelta(-1000), timedelta(1000)),
    pa.null(): st.none(),
}


def canonical(value: Any) -> Hashable:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[pa.DataType], list[list[Any]], int]:
    """Types, columns and a length, with few distinct values, so that rows repeat."""
    types = draw(st.lists(st.sampled_from(list(VALUES)), max_size=4))
    n = draw(st.integers(0, 20))
    columns = []
    for t in types:
        some = [None, *draw(st.lists(VALUES[t], min_size=1, max_size=3))]
        columns.append(draw(st.lists(st.sampled_from(some), min_size=n, max_size=n)))
    return types, columns, n


def rows_of(columns: list[list[Any]], n: int) -> list[tuple[Hashable, ...]]:
    return [tuple(canonical(column[i]) for column in columns) for i in range(n)]


@untimed
@given(tables())
def test_rows_have_equal_codes_exactly_if_their_values_are_equal(
    drawn: tuple[list[pa.DataType], list[list[Any]], int],
) -> None:
    types, columns, n = drawn
    codes = ColumnCoder(types).codes([pa.array(c, t) for c, t in zip(columns, types, strict=True)], n)
    assert codes.shape == (n, len(types) + 1)
    known: dict[tuple[Hashable, ...], int] = {}
    expected = [known.setdefault(row, len(known)) for row in rows_of(columns, n)]
    assert KeyTable(len(types) + 1).insert(codes).tolist() == expected


@untimed
@given(tables(), st.integers(0, 20), st.integers(0, 20))
def test_slices_have_the_codes_of_their_rows(
    drawn: tuple[list[pa.DataType], list[list[Any]], int], start: int, length: int
) -> None:
    types, columns, n = drawn
    arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
    coder = ColumnCoder(types)
    whole = coder.codes(arrays, n)[start : start + length]
    assert coder.codes([a.slice(start, length) for a in arrays], len(whole)).tolist() == whole.tolist()
    chunked = [pa.chunked_array([a.slice(0, start), a.slice(start)]) for a in arrays]
    assert coder.find_codes(chunked, n).tolist() == coder.find_codes(arrays, n).tolist()


@untimed
@given(tables(), st.integers(0, 20))
def test_finding_codes_adds_nothing_and_unseen_strings_match_nothing(
    drawn: tuple[list[pa.DataType], list[list[Any]], int], seen: int
) -> None:
    types, columns, n = drawn
    seen = min(seen, n)
    arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
    coder, table = ColumnCoder(types), KeyTable(len(types) + 1)
    table.insert(coder.codes([a.slice(0, seen) for a in arrays], seen))
    before = coder.strings()
    known = list(dict.fromkeys(rows_of(columns, n)[:seen]))
    expected = [known.index(row) if row in known else -1 for row in rows_of(columns, n)]
    assert table.find(coder.find_codes(arrays, n)).tolist() == expected
    assert coder.strings() == before


def test_codes_are_values_ids_or_bits_and_the_mask_names_the_nulls() -> None:
    coder = ColumnCoder([pa.int32(), pa.string(), pa.float32(), pa.bool_()])
    columns = [
        pa.array([7, None, -7], pa.int32()),
        pa.array(["b", "a", None]),
        pa.array([-0.0, 1.0, None], pa.float32()),
        pa.array([True, None, False]),
    ]
    one = int(np.float64(1.0).view(np.int64))
    assert coder.codes(columns, 3).tolist() == [[7, 0, 0, 1, 0], [0, 1, one, 0, 0b1001], [-7, 0, 0, 0, 0b0110]]
    unseen = [columns[0][:1], pa.array(["c"]), columns[2][:1], columns[3][:1]]
    assert coder.find_codes(unseen, 1).tolist() == [[7, UNSEEN, 0, 1, 0]]


def test_times_are_coded_by_value() -> None:
    coder = ColumnCoder([pa.date32(), pa.timestamp("us"), pa.duration("us")])
    columns = [
        pa.array([date(1970, 1, 3)]),
        pa.array([datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("us")),
        pa.array([timedelta(seconds=-1)], pa.duration("us")),
    ]
    assert coder.codes(columns, 1).tolist() == [[2, 1_000_000, -1_000_000, 0]]


def test_all_nans_are_one() -> None:
    doubles = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001], np.uint64).view(np.float64)
    floats = np.array([0x7FC00000, 0xFFC00001, 0x7F800001], np.uint32).view(np.float32)
    codes = ColumnCoder([pa.float64(), pa.float32()]).codes([pa.array(doubles), pa.array(floats)], 3)
    assert len({tuple(row) for row in codes.tolist()}) == 1


def test_what_lies_under_a_null_does_not_matter() -> None:
    column = pa.array(np.array([1, 2, 3]), mask=np.array([True, True, False]))
    assert ColumnCoder([pa.int64()]).codes([column], 3).tolist() == [[0, 1], [0, 1], [3, 0]]


def test_without_columns_all_rows_are_equal() -> None:
    assert ColumnCoder([]).codes([], 3).tolist() == [[0], [0], [0]]
    assert ColumnCoder([]).find_codes([], 0).shape == (0, 1)


def test_a_restored_coder_gives_the_codes_of_the_saved_one() -> None:
    types = [pa.string(), pa.int64(), pa.string()]
    saved, restored = ColumnCoder(types), ColumnCoder(types)
    first = [pa.array(["x", "y"]), pa.array([1, 2]), pa.array([None, "é"])]
    more = [pa.array(["z", "y"]), pa.array([1, None]), pa.array(["", "é"])]
    saved.codes(first, 2)
    state = saved.strings()
    assert state[1] is None
    restored.restore(state)
    assert restored.codes(more, 2).tolist() == saved.codes(more, 2).tolist() == [[2, 1, 1, 0], [1, 0, 0, 2]]


def test_strings_of_other_columns_are_not_restored() -> None:
    with pytest.raises(ValueError, match="other columns"):
        ColumnCoder([pa.string(), pa.int64()]).restore([None, pa.array(["a"])])


def test_sixty_two_columns_have_one_mask_and_the_next_one_begins_another() -> None:
    nulls = [pa.nulls(1, pa.int64())] * (COLUMNS_PER_MASK + 1)
    narrow, wide = ColumnCoder([pa.int64()] * COLUMNS_PER_MASK), ColumnCoder([pa.int64()] * (COLUMNS_PER_MASK + 1))
    assert (narrow.width, wide.width) == (COLUMNS_PER_MASK + 1, COLUMNS_PER_MASK + 3)
    assert narrow.codes(nulls[:-1], 1)[0, -1] == 2**COLUMNS_PER_MASK - 1
    assert wide.codes(nulls, 1)[0, -2:].tolist() == [2**COLUMNS_PER_MASK - 1, 1]


@pytest.mark.parametrize("columns", [0, 1, 62, 63, 124, 125, 300])
def test_rows_of_any_width_are_equal_exactly_if_their_values_are(columns: int) -> None:
    rng = np.random.default_rng(columns)
    rows = [[0] * columns for _ in range(80)]
    for row in rows[1:]:
        for j in rng.integers(0, columns, 1) if columns else ():
            row[j] = [None, 0, 1][rng.integers(3)]
    coder, known = ColumnCoder([pa.int32()] * columns), dict[tuple[Any, ...], int]()
    codes = coder.codes([pa.array([r[j] for r in rows], pa.int32()) for j in range(columns)], len(rows))
    expected = [known.setdefault(tuple(r), len(known)) for r in rows]
    assert KeyTable(coder.width).insert(codes).tolist() == expected
    assert coder.has_null(np.column_stack([codes, np.ones(len(rows), np.int64)])).tolist() == [None in r for r in rows]


def test_columns_that_do_not_fit_are_refused() -> None:
    with pytest.raises(TypeError, match="decimal128"):
        ColumnCoder([pa.decimal128(5, 2)])
    coder = ColumnCoder([pa.int64()])
    with pytest.raises(TypeError, match="column 0 is int32, not int64"):
        coder.codes([pa.array([1], pa.int32())], 1)
    with pytest.raises(ValueError, match="column 0 has 1 rows, not 2"):
        coder.codes([pa.array([1])], 2)
