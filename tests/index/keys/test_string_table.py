"""`StringTable` against a dict of strings."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.index.keys.string_table import StringTable

untimed = settings(deadline=None)  # the first call of a kernel may compile it

TEXTS = st.one_of(st.text(max_size=20), st.sampled_from(["", "a", "aa", "a\0", "é", "日本語", "🌊" * 9, "x" * 300]))
COLUMNS = st.lists(st.lists(st.one_of(st.none(), TEXTS), max_size=30), max_size=6)


def interned(known: dict[str, int], values: Sequence[str | None]) -> list[int]:
    return [-1 if v is None else known.setdefault(v, len(known)) for v in values]


def random_texts(seed: int, n: int, distinct: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [f"{i:x}" * (1 + i % 7) for i in rng.integers(0, distinct, n).tolist()]


@untimed
@given(COLUMNS, st.sampled_from([pa.string(), pa.large_string()]))
def test_ids_are_those_of_a_dict_in_order_of_first_appearance(columns: list[list[str | None]], t: pa.DataType) -> None:
    table, known = StringTable(), dict[str, int]()
    for column in columns:
        assert table.intern(pa.array(column, t)).tolist() == interned(known, column)
        assert len(table) == len(known)
    assert table.to_arrow().to_pylist() == list(known)


@untimed
@given(st.lists(TEXTS, max_size=30), st.lists(st.one_of(st.none(), TEXTS), max_size=30))
def test_find_gives_known_ids_and_adds_nothing(known: list[str], sought: list[str | None]) -> None:
    table = StringTable()
    table.intern(pa.array(known, pa.string()))
    ids = {v: i for i, v in enumerate(dict.fromkeys(known))}
    assert table.find(pa.array(sought, pa.string())).tolist() == [-1 if v is None else ids.get(v, -1) for v in sought]
    assert [table.find_one(v) for v in sought if v is not None] == [ids.get(v, -1) for v in sought if v is not None]
    assert len(table) == len(ids)


@untimed
@given(st.lists(TEXTS, max_size=60))
def test_interning_one_by_one_equals_interning_at_once(texts: list[str]) -> None:
    one_by_one, at_once = StringTable(), StringTable()
    single = [int(one_by_one.intern(pa.array([v], pa.string()))[0]) for v in texts]
    assert single == at_once.intern(pa.array(texts, pa.string())).tolist()
    assert one_by_one.to_arrow() == at_once.to_arrow()


@pytest.mark.parametrize("seed", range(3))
def test_ids_stay_while_the_table_grows(seed: int) -> None:
    table, known = StringTable(), dict[str, int]()
    for start, size in enumerate([1, 10, 1000, 3, 20_000, 50_000, 200]):
        texts = random_texts(10 * seed + start, size, 40_000)
        assert table.intern(pa.array(texts)).tolist() == interned(known, texts), f"seed {seed}"
    assert table.find(pa.array(list(known))).tolist() == list(range(len(known))), f"seed {seed}"
    assert table.to_arrow().to_pylist() == list(known), f"seed {seed}"


@untimed
@given(
    st.lists(st.one_of(st.none(), TEXTS), max_size=40),
    st.integers(0, 40),
    st.integers(0, 40),
    st.sampled_from([pa.string(), pa.large_string()]),
)
def test_slices_give_the_ids_of_their_own_rows(
    values: list[str | None], start: int, length: int, t: pa.DataType
) -> None:
    table = StringTable()
    sliced = pa.array(values, t).slice(start, length)
    expected = interned({}, values[start : start + length])
    assert table.intern(sliced).tolist() == expected
    assert table.find(sliced).tolist() == expected


def test_chunks_give_the_ids_of_the_whole() -> None:
    values = pa.chunked_array([["a", None], [], ["b", "a"]], pa.string())
    assert StringTable().intern(values).tolist() == [0, -1, 1, 0]
    assert StringTable().intern(pa.chunked_array([], pa.string())).tolist() == []


@pytest.mark.parametrize("values", [pa.nulls(3, pa.string()), pa.array([None, None, None], pa.large_string())])
def test_nulls_alone_add_nothing(values: pa.Array) -> None:
    table = StringTable()
    assert table.intern(values).tolist() == [-1, -1, -1]
    assert len(table) == 0
    assert len(table.to_arrow()) == 0


def test_strings_that_share_beginnings_or_lengths_are_told_apart() -> None:
    texts = ["x" * n for n in range(70)] + ["x" * n + "y" + "x" * (40 - n) for n in range(41)]
    assert StringTable().intern(pa.array(texts)).tolist() == list(range(len(texts)))


@untimed
@given(st.lists(TEXTS, min_size=1, max_size=20), st.data())
def test_take_gives_the_strings_of_ids_and_null_for_minus_one(texts: list[str], data: st.DataObject) -> None:
    table = StringTable()
    table.intern(pa.array(texts))
    distinct = list(dict.fromkeys(texts))
    ids = data.draw(st.lists(st.integers(-1, len(distinct) - 1), max_size=40))
    taken = table.take(np.array(ids, np.int64))
    taken.validate(full=True)
    assert taken.type == pa.string()
    assert taken.null_count == ids.count(-1)
    assert taken.to_pylist() == [None if i < 0 else distinct[i] for i in ids]


@pytest.mark.parametrize("wrong", [-2, 2])
def test_take_refuses_ids_that_do_not_exist(wrong: int) -> None:
    with pytest.raises(IndexError, match="-1 to 1"):
        StringTable.from_arrow(pa.array(["a", "b"])).take(np.array([0, wrong]))


@pytest.mark.parametrize("n", [0, 1, 5000])
def test_a_table_restored_from_arrow_goes_on_as_the_saved_one(n: int) -> None:
    saved = StringTable()
    saved.intern(pa.array(random_texts(1, n, 3000), pa.string()))
    restored = StringTable.from_arrow(saved.to_arrow())
    more = pa.array(random_texts(2, 5000, 6000))
    assert restored.intern(more).tolist() == saved.intern(more).tolist()
    assert restored.to_arrow() == saved.to_arrow()


@pytest.mark.parametrize("strings", [["a", "a"], ["a", None]])
def test_only_distinct_strings_can_be_restored(strings: list[str | None]) -> None:
    with pytest.raises(ValueError, match="distinct"):
        StringTable.from_arrow(pa.array(strings))


def test_arrow_arrays_given_out_do_not_change_with_the_table() -> None:
    table = StringTable.from_arrow(pa.array(["a", "b"]))
    before, taken = table.to_arrow(), table.take(np.array([1]))
    table.intern(pa.array(["c", "d"]))
    assert (before.to_pylist(), taken.to_pylist()) == (["a", "b"], ["b"])


def test_other_types_than_strings_are_refused() -> None:
    with pytest.raises(TypeError, match="int64"):
        StringTable().intern(pa.array([1]))


@pytest.mark.parametrize("n", [1000, 12_289, 100_000, 200_000])
def test_a_short_string_costs_little_more_than_thirty_bytes_beside_its_text(n: int) -> None:
    table = StringTable()
    for start in range(0, n, 500):
        table.intern(pa.array([f"{i:08}" for i in range(start, min(n, start + 500))]))
    assert table.nbytes <= 40 * n
