"""Windows, lateness, clocks and registration; times are small numbers of microseconds."""

from datetime import timedelta

import pytest

from eddyline import types as t
from eddyline.errors import DataError
from eddyline.reference import MIN
from eddyline.sql.bound import (
    BoundQuery,
    Column,
    Field,
    Param,
    Window,
)
from tests.reference.build import (
    COUNT,
    UNBOUNDED,
    A,
    bag,
    derived,
    eq,
    group,
    last,
    reference,
    rows,
    select,
    stream,
    table,
)

# Windows


def test_a_range_window_holds_both_of_its_ends() -> None:
    ref = reference(select(stream(last(5))))
    ref.push("s", [(1, 10), (2, 15)])
    ref.advance(30)
    assert [ref.answer("q", at) for at in (9, 10, 14, 15, 16, 20, 21)] == [
        *(bag(), bag(1), bag(1), bag(1, 2)),
        *(bag(2), bag(2), bag()),
    ]
    assert ref.changes("q") == {((1,), 10): 1, ((1,), 16): -1, ((2,), 15): 1, ((2,), 21): -1}


def test_now_holds_a_tuple_for_one_instant() -> None:
    ref = reference(select(stream(last(0))))
    ref.push("s", [(1, 10)])
    ref.advance(12)
    assert ref.changes("q") == {((1,), 10): 1, ((1,), 11): -1}


def test_a_count_window_holds_the_latest_by_time_then_by_arrival() -> None:
    ref = reference(select(stream(rows(2))), delay=10)
    ref.push("s", [(1, 10), (2, 12), (3, 11), (4, 12)])
    assert [ref.answer("q", at) for at in (10, 11, 12)] == [bag(1), bag(1, 3), bag(2, 4)]


def test_a_count_window_cuts_ties_by_arrival() -> None:
    ref = reference(select(stream(rows(1))))
    ref.push("s", [(1, 10), (2, 10)])
    assert ref.answer("q") == bag(2)
    assert ref.changes("q") == {((2,), 10): 1}


def test_an_unbounded_window_holds_all_up_to_the_instant() -> None:
    ref = reference(select(stream(UNBOUNDED)), delay=5)
    ref.push("s", [(1, 10), (1, 12)])
    assert [ref.answer("q", at) for at in (9, 11, 12)] == [bag(), bag(1), bag(1, 1)]


@pytest.mark.parametrize("window", [last(None), last(-1), rows(None), rows(0), rows(-1)])
def test_a_window_without_a_size_holds_nothing(window: Window) -> None:
    ref = reference(select(stream(window)))
    ref.push("s", [(1, 10)])
    assert ref.answer("q") == bag()
    assert ref.changes("q") == {}


def test_queries_of_one_shape_have_their_own_windows() -> None:
    shape = BoundQuery(select(stream(Window("range", Param(0, t.INTERVAL, "w")))), (Field("w", t.INTERVAL),), (2,))
    ref = reference()
    ref.register("short", shape)
    ref.register("long", shape, (timedelta(microseconds=8),))
    ref.push("s", [(1, 10)])
    ref.advance(15)
    assert (ref.answer("short"), ref.answer("long")) == (bag(), bag(1))


# Lateness and clocks


def test_a_tuple_behind_its_watermark_is_late_and_on_it_is_not() -> None:
    ref = reference(select(stream(UNBOUNDED)), delay=5)
    ref.push("s", [(1, 20), (2, 15), (3, 14), (4, 26), (5, 20)])
    assert [a for a, _ in ref.late["s"]] == [3, 5]
    assert ref.answer("q", 100) == bag(1, 2, 4)
    assert ref.clock("q") == 21


def test_advance_makes_tuples_late_and_never_goes_back() -> None:
    ref = reference(select(stream(UNBOUNDED)), delay=5)
    ref.advance(10)
    ref.advance(8)
    ref.push("s", [(1, 9), (2, 10)])
    assert [a for a, _ in ref.late["s"]] == [1]
    assert (ref.watermark("s"), ref.clock("q")) == (10, 10)


def test_a_tuple_needs_an_event_time_and_none_of_its_batch_is_applied_without() -> None:
    ref = reference(select(stream(UNBOUNDED)))
    with pytest.raises(DataError):
        ref.push("s", [(1, 5), (2, None)])
    assert ref.answer("q", 100) == bag()


PAIRS = select(stream(UNBOUNDED), stream(UNBOUNDED, "r"), outputs=(A, Column(2, t.BIGINT, "a")))


def test_the_clock_is_the_smallest_watermark_of_the_streams_a_query_reads() -> None:
    ref = reference(PAIRS)
    assert ref.clock("q") == MIN
    ref.push("s", [(1, 10)])
    assert (ref.clock("q"), ref.changes("q")) == (MIN, {})
    ref.push("r", [(2, 4)])
    assert (ref.clock("q"), ref.changes("q")) == (4, {})
    ref.push("r", [(3, 12)])
    assert (ref.clock("q"), ref.changes("q")) == (10, {((1, 2), 10): 1})
    assert ref.answer("q", 12) == bag((1, 2), (1, 3))


def test_under_the_largest_watermark_a_query_does_not_see_what_is_behind_its_clock() -> None:
    ref = reference(PAIRS, clock="max")
    ref.register("alone", BoundQuery(select(stream(UNBOUNDED, "r")), ()))
    ref.push("s", [(1, 10)])
    ref.push("r", [(2, 4), (3, 10)])
    assert (ref.clock("q"), ref.clock("alone")) == (10, 10)
    assert ref.answer("q") == bag((1, 3))
    assert ref.answer("alone") == bag(2, 3)
    assert [a for a, _ in ref.late["r"]] == [2]


def test_nested_streams_count_for_the_clock() -> None:
    ref = reference(select(derived(select(stream(UNBOUNDED))), derived(select(stream(UNBOUNDED, "r")))))
    ref.push("s", [(1, 10)])
    ref.push("r", [(2, 4)])
    assert ref.clock("q") == 4


def test_a_query_without_streams_follows_the_largest_time_known() -> None:
    ref = reference(select(table()))
    assert ref.clock("q") == MIN
    ref.push("s", [(1, 10)])
    assert ref.clock("q") == 10
    ref.change_table("t", inserts=[(1, "x")])
    ref.advance(20)
    ref.change_table("t", inserts=[(2, "y")], deletes=[(1, "x")])
    assert ref.changes("q") == {((1,), 10): 1, ((1,), 20): -1, ((2,), 20): 1}


# Registration


def test_a_query_sees_tuples_that_arrive_after_it_and_tables_as_they_are() -> None:
    joined = select(
        stream(UNBOUNDED), table(), where=eq(A, Column(2, t.BIGINT, "k")), outputs=(A, Column(3, t.STRING, "v"))
    )
    ref = reference()
    ref.push("s", [(1, 10)])
    ref.change_table("t", inserts=[(1, "x")])
    ref.register("q", BoundQuery(joined, ()))
    ref.push("s", [(1, 10), (1, 12)])
    assert ref.answer("q") == bag((1, "x"), (1, "x"))


def test_the_answer_starts_at_the_clock_of_registration() -> None:
    ref = reference()
    ref.push("s", [(1, 10)])
    ref.register("q", BoundQuery(group(stream(last(5)), keys=(), aggregates=(COUNT,)), ()))
    ref.advance(13)
    assert ref.changes("q") == {((0,), 10): 1}


def test_before_any_time_is_known_an_answer_starts_since_ever() -> None:
    ref = reference(group(stream(last(5)), keys=(), aggregates=(COUNT,)))
    assert ref.changes("q") == {((0,), MIN): 1}


def test_a_dropped_query_may_be_registered_anew() -> None:
    ref = reference(select(stream(UNBOUNDED)))
    ref.push("s", [(1, 10)])
    ref.drop("q")
    ref.register("q", BoundQuery(select(stream(UNBOUNDED)), ()))
    assert ref.answer("q") == bag()
