"""Deltas against lists of plain changes."""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.state.delta import MAX, MIN, Delta, concat, empty, micros

TYPES = (pa.int64(), pa.string())
Plain = list[tuple[Any, ...]]


def plain(delta: Delta) -> Plain:
    """(values, ts, exp, sign, first, last, query) of every change."""
    rows = list(range(len(delta))) if delta.rows is None else delta.rows.tolist()
    columns = [c.to_pylist() for c in delta.columns]
    query = [None] * len(delta) if delta.query is None else delta.query.tolist()
    rest = zip(delta.ts, delta.exp, delta.sign, delta.first, delta.last, strict=True)
    return [
        (tuple(c[r] for c in columns), *map(int, numbers), q) for r, numbers, q in zip(rows, rest, query, strict=True)
    ]


@st.composite
def deltas(draw: st.DrawFn, attached: bool | None = None) -> Delta:
    """Changes that refer to rows by position, several to one row and none to another, or that have one row each."""
    height = draw(st.integers(1, 6))
    columns = (
        pa.array(draw(st.lists(st.integers(0, 9) | st.none(), min_size=height, max_size=height)), TYPES[0]),
        pa.array(draw(st.lists(st.sampled_from(["a", "b", None]), min_size=height, max_size=height)), TYPES[1]),
    )
    rows = None
    if draw(st.booleans()):
        rows = np.array(draw(st.lists(st.integers(0, height - 1), max_size=8)), np.int64)
    n = height if rows is None else len(rows)
    numbers = np.random.default_rng(draw(st.integers(0, 99))).integers(-9, 9, (6, n))
    attached = draw(st.booleans()) if attached is None else attached
    return Delta(columns, rows, *numbers[:5], numbers[5] if attached else None)


untimed = settings(deadline=None)


@untimed
@given(deltas(), st.data())
def test_take_gives_the_changes_under_a_mask_or_at_positions(delta: Delta, data: st.DataObject) -> None:
    changes, n = plain(delta), len(delta)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), np.bool_)
    assert plain(delta.take(mask)) == [c for c, m in zip(changes, mask, strict=True) if m]
    where = np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=9)) if n else [], np.int64)
    assert plain(delta.take(where)) == [changes[i] for i in where]


@untimed
@given(deltas())
def test_spread_gives_the_same_changes_with_one_row_each(delta: Delta) -> None:
    spread = delta.spread()
    assert plain(spread) == plain(delta)
    assert spread.rows is None
    assert all(len(c) == len(delta) for c in spread.columns)


@untimed
@given(st.booleans().flatmap(lambda a: st.tuples(st.just(a), st.lists(deltas(attached=a), max_size=4))))
def test_concat_gives_the_changes_of_all_parts_in_order(drawn: tuple[bool, list[Delta]]) -> None:
    attached, parts = drawn
    joined = concat(parts, TYPES, attached=attached)
    assert plain(joined) == [c for p in parts for c in plain(p)]
    assert (joined.query is not None) == attached
    assert tuple(c.type for c in joined.columns) == TYPES


def test_an_empty_delta_has_its_columns_and_no_changes() -> None:
    for attached in (True, False):
        none = empty(TYPES, attached=attached)
        assert (len(none), plain(none.spread())) == (0, [])
        assert tuple(c.type for c in none.columns) == TYPES
        assert (none.query is not None) == attached


def test_the_instant_before_the_beginning_of_time_can_be_named() -> None:
    assert np.array([MIN]) - 1 < np.array([MIN])
    assert np.int64(MAX) == np.iinfo(np.int64).max


def test_timestamps_and_intervals_are_microseconds() -> None:
    assert micros(pa.array([0, 1_500_000], pa.timestamp("us"))).tolist() == [0, 1_500_000]
    assert micros(pa.array([-7], pa.duration("us"))).tolist() == [-7]
