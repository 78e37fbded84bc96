"""Windows, lateness, clocks, tables and registration, each on a case that can be checked by eye.

Times are small numbers of microseconds; every stream is (a BIGINT, ts TIMESTAMP).
"""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline import types as t
from eddyline.errors import DataError
from eddyline.reference import MIN, Reference, canonical, normalise
from eddyline.sql.bound import (
    Aggregate,
    BoundQuery,
    Call,
    Column,
    Constant,
    DerivedSource,
    Expr,
    Field,
    Output,
    Param,
    Query,
    SelectBlock,
    SetQuery,
    Source,
    StreamSource,
    TableSource,
    Window,
)

FIELDS = (Field("a", t.BIGINT), Field("ts", t.TIMESTAMP))
TABLE_FIELDS = (Field("k", t.BIGINT), Field("v", t.STRING))
UNBOUNDED = Window("unbounded")
A = Column(0, t.BIGINT, "a")
COUNT = Aggregate("count", None, t.BIGINT)


def last(us: int | None) -> Window:
    return Window("range", Constant(None if us is None else timedelta(microseconds=us), t.INTERVAL))


def rows(n: int | None) -> Window:
    return Window("rows", Constant(n, t.BIGINT))


def stream(window: Window, name: str = "s") -> StreamSource:
    return StreamSource(name, name, FIELDS, 1, window)


def table(retroactive: bool = True, name: str = "t") -> TableSource:
    return TableSource(name, name, TABLE_FIELDS, retroactive)


def derived(query: Query) -> DerivedSource:
    return DerivedSource(query, "d", query.fields)


def select(
    *sources: Source, outputs: tuple[Expr, ...] = (A,), where: Expr | None = None, distinct: bool = False
) -> SelectBlock:
    return SelectBlock(sources, where, None, (), None, tuple(Output("o", e) for e in outputs), distinct)


def group(
    *sources: Source, keys: tuple[Expr, ...], aggregates: tuple[Aggregate, ...], having: Expr | None = None
) -> SelectBlock:
    types = [k.type for k in keys] + [a.type for a in aggregates]
    outputs = tuple(Output(f"o{i}", Column(i, x, f"o{i}")) for i, x in enumerate(types))
    return SelectBlock(sources, None, keys, aggregates, having, outputs, False)


def eq(a: Expr, b: Expr) -> Call:
    return Call("eq", (a, b), t.BOOLEAN)


def reference(query: Query | None = None, *, clock: Any = "min", delay: int = 0) -> Reference:
    """Streams s and r, table t, and the query q if it is given."""
    ref = Reference(clock)
    for name in ("s", "r"):
        ref.create_stream(name, FIELDS, 1, delay)
    ref.create_table("t")
    if query is not None:
        ref.register("q", BoundQuery(query, ()))
    return ref


def bag(*values: Any) -> Counter[Any]:
    return Counter(v if isinstance(v, tuple) else (v,) for v in values)


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


# Tables


def lookup(retroactive: bool) -> SelectBlock:
    return select(
        stream(UNBOUNDED),
        table(retroactive),
        where=eq(A, Column(2, t.BIGINT, "k")),
        outputs=(Column(3, t.STRING, "v"),),
    )


def test_a_retroactive_table_revises_earlier_results_at_the_clock() -> None:
    ref = reference(lookup(retroactive=True))
    ref.change_table("t", inserts=[(1, "old")])
    ref.push("s", [(1, 10)])
    ref.advance(15)
    ref.change_table("t", inserts=[(1, "new")], deletes=[(1, "old")])
    ref.push("s", [(1, 20)])
    assert ref.answer("q", 14) == bag("old")
    assert ref.changes("q") == {(("old",), 10): 1, (("old",), 15): -1, (("new",), 15): 1, (("new",), 20): 1}


def test_of_several_changes_at_one_clock_the_last_wins() -> None:
    ref = reference(lookup(retroactive=True))
    ref.push("s", [(1, 10)])
    ref.change_table("t", inserts=[(1, "x")])
    ref.change_table("t", inserts=[(1, "y")], deletes=[(1, "x")])
    assert ref.changes("q") == {(("y",), 10): 1}


def test_a_delete_takes_one_equal_row_away() -> None:
    ref = reference(select(table()))
    ref.change_table("t", inserts=[(1, "x"), (1, "x"), (2, "y")])
    ref.change_table("t", deletes=[(1, "x"), (3, "z")])
    assert ref.answer("q") == bag(1, 2)


def test_a_non_retroactive_table_is_seen_as_it_was_when_the_tuple_arrived() -> None:
    ref = reference(lookup(retroactive=False), delay=10)
    ref.change_table("t", inserts=[(1, "old")])
    ref.push("s", [(1, 20)])
    ref.change_table("t", inserts=[(1, "new")], deletes=[(1, "old")])
    ref.push("s", [(1, 15)])
    ref.advance(30)
    assert ref.changes("q") == {(("new",), 15): 1, (("old",), 20): 1}


def test_the_youngest_tuple_of_a_join_decides_what_is_seen_of_a_non_retroactive_table() -> None:
    versions = select(
        *(table(retroactive=False), derived(select(stream(UNBOUNDED))), stream(UNBOUNDED, "r")),
        outputs=(Column(1, t.STRING, "v"), Column(2, t.BIGINT, "a"), Column(3, t.BIGINT, "a")),
    )
    ref = reference(versions)
    ref.change_table("t", inserts=[(1, "first")])
    ref.push("s", [(1, 10)])
    ref.push("r", [(2, 10)])
    ref.change_table("t", inserts=[(1, "second")], deletes=[(1, "first")])
    ref.push("s", [(3, 10)])
    assert ref.answer("q") == bag(("first", 1, 2), ("second", 3, 2))


def test_a_non_retroactive_table_without_a_stream_is_seen_as_it_stands() -> None:
    ref = reference(select(table(retroactive=False)))
    ref.advance(10)
    ref.change_table("t", inserts=[(1, "x")])
    ref.advance(20)
    ref.change_table("t", deletes=[(1, "x")])
    assert ref.changes("q") == {((1,), 10): 1, ((1,), 20): -1}


# What depends on order or absence


def test_groups_follow_an_expiring_window() -> None:
    ref = reference(group(stream(last(5)), keys=(A,), aggregates=(COUNT,)))
    ref.push("s", [(1, 10), (1, 12), (2, 12)])
    ref.advance(20)
    assert ref.changes("q") == {
        ((1, 1), 10): 1,
        ((1, 1), 12): -1,
        ((1, 2), 12): 1,
        ((1, 2), 16): -1,
        ((1, 1), 16): 1,
        ((1, 1), 18): -1,
        ((2, 1), 12): 1,
        ((2, 1), 18): -1,
    }


def test_the_one_group_always_exists_and_having_decides() -> None:
    counted = group(stream(last(5)), keys=(), aggregates=(COUNT, Aggregate("sum", A, t.BIGINT)))
    ref = reference(counted)
    ref.push("s", [(7, 10)])
    ref.advance(20)
    assert [ref.answer("q", at) for at in (9, 10, 16)] == [bag((0, None)), bag((1, 7)), bag((0, None))]
    some = Call("gt", (A, Constant(0, t.BIGINT)), t.BOOLEAN)
    ref.register("some", BoundQuery(group(stream(last(5)), keys=(), aggregates=(COUNT,), having=some), ()))
    assert ref.answer("some") == bag()


def test_distinct_stays_until_the_last_duplicate_leaves() -> None:
    ref = reference(select(stream(last(5)), distinct=True))
    ref.push("s", [(1, 10), (1, 13)])
    ref.advance(30)
    assert ref.changes("q") == {((1,), 10): 1, ((1,), 19): -1}


def test_except_all_is_by_multiplicity_at_every_instant() -> None:
    ref = reference(SetQuery("except", select(stream(UNBOUNDED)), select(stream(last(1), "r"))))
    ref.push("s", [(1, 10), (1, 10), (None, 10)])
    ref.push("r", [(1, 12), (None, 12), (5, 12)])
    ref.advance(20)
    assert ref.answer("q", 12) == bag(1)
    assert ref.changes("q") == {
        ((1,), 10): 2,
        ((1,), 12): -1,
        ((1,), 14): 1,
        ((None,), 10): 1,
        ((None,), 12): -1,
        ((None,), 14): 1,
    }


# Values in bags


def totals(*values: float | None) -> Counter[Any]:
    """SUM, AVG, MIN, MAX and COUNT of doubles given as a table."""
    x = Column(0, t.DOUBLE, "x")
    source = TableSource("d", "d", (Field("x", t.DOUBLE),), True)
    names: tuple[Any, ...] = ("sum", "avg", "min", "max")
    aggregates = (*(Aggregate(f, x, t.DOUBLE) for f in names), Aggregate("count", x, t.BIGINT))
    ref = Reference()
    ref.create_table("d")
    ref.register("q", BoundQuery(group(source, keys=(), aggregates=aggregates), ()))
    ref.change_table("d", inserts=[(v,) for v in values])
    return ref.answer("q")


def test_aggregates_of_floats_know_what_is_not_a_number() -> None:
    nan, inf = float("nan"), float("inf")
    assert totals(None) == bag((None, None, None, None, 0))
    assert totals(1e100, 1.0, -1e100, None) == bag((1.0, 1 / 3, -1e100, 1e100, 3))
    assert totals(nan, 1.0) == bag(("NaN", "NaN", 1.0, "NaN", 2))
    assert totals(inf, 1.0) == bag((inf, inf, 1.0, inf, 2))
    assert totals(inf, -inf) == bag(("NaN", "NaN", -inf, inf, 2))
    assert totals(1.7e308, 1.7e308) == bag((inf, inf, 1.7e308, 1.7e308, 2))


def test_an_integer_sum_that_does_not_fit_is_null_and_one_that_fits_in_the_end_is_not() -> None:
    ref = reference(group(stream(UNBOUNDED), keys=(), aggregates=(Aggregate("sum", A, t.BIGINT),)), delay=9)
    ref.push("s", [(2**63 - 1, 10), (1, 11), (-1, 12)])
    assert [ref.answer("q", at) for at in (10, 11, 12)] == [bag(2**63 - 1), bag(None), bag(2**63 - 1)]


def test_all_nans_are_one_value_and_so_are_the_zeros() -> None:
    source = TableSource("d", "d", (Field("x", t.DOUBLE),), True)
    x = Column(0, t.DOUBLE, "x")
    ref = Reference()
    ref.create_table("d")
    ref.change_table("d", inserts=[(float("nan"),), (-float("nan"),), (0.0,), (-0.0,), (None,), (None,)])
    ref.register("groups", BoundQuery(group(source, keys=(x,), aggregates=(COUNT,)), ()))
    ref.register("distinct", BoundQuery(select(source, outputs=(x,), distinct=True), ()))
    ref.register(
        "except", BoundQuery(SetQuery("except", select(source, outputs=(x,)), select(source, outputs=(x,))), ())
    )
    ref.register("all", BoundQuery(select(source, outputs=(x,)), ()))
    assert ref.answer("groups") == bag(("NaN", 2), (0.0, 2), (None, 2))
    assert ref.answer("distinct") == bag("NaN", 0.0, None)
    assert ref.answer("except") == bag()
    assert ref.answer("all") == bag("NaN", "NaN", 0.0, 0.0, None, None)
    assert str(canonical((-0.0,))) == "(0.0,)"


# The log of an engine


def test_normalise_turns_intervals_into_differences() -> None:
    row = (1,)
    assert normalise([("+", 10, 15, row)], 20) == {(row, 10): 1, (row, 16): -1}
    assert normalise([("+", 10, 15, row)], 15) == {(row, 10): 1}
    assert normalise([("+", 10, None, row), ("-", 12, None, row)], 20) == {(row, 10): 1, (row, 12): -1}
    assert normalise([("+", 10, 15, row), ("-", 12, 15, row)], 20) == {(row, 10): 1, (row, 12): -1}
    assert normalise([("+", 10, 15, row), ("+", 16, 20, row)], 18) == {(row, 10): 1}
    assert normalise([("+", 10, 9, row)], 20) == {}
    assert normalise([("+", None, 15, row)], 20) == {(row, MIN): 1, (row, 16): -1}
    assert normalise([("+", 5, None, (-0.0, float("nan")))], 20) == {((0.0, "NaN"), 5): 1}


# The instants at which changes are looked for are all there are

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("sr"), st.integers(0, 2), st.integers(0, 12)),
        st.tuples(st.just("t"), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("advance"), st.integers(0, 12), st.none()),
    ),
    max_size=12,
)
KEY = Column(2, t.BIGINT, "k")
QUERIES: dict[str, Query] = {
    "range": select(stream(last(3))),
    "rows": select(stream(rows(2))),
    "groups": group(stream(last(2)), keys=(A,), aggregates=(COUNT,)),
    "join": select(stream(last(2)), stream(last(4), "r"), where=eq(A, KEY)),
    "except": SetQuery("except", select(stream(UNBOUNDED)), select(stream(last(1), "r"))),
    "lookup": select(stream(last(3)), table(), where=eq(A, KEY)),
    "historic": select(stream(last(3)), table(retroactive=False), where=eq(A, KEY)),
    "table": group(table(), keys=(A,), aggregates=(COUNT,)),
}


@settings(max_examples=60, deadline=None, print_blob=True)
@given(EVENTS, EVENTS, st.sampled_from(["min", "max"]))
def test_the_folded_changes_are_the_answer_at_every_instant(before: Any, after: Any, clock: str) -> None:
    def happen(events: Any) -> None:
        for what, x, y in events:
            if what == "advance":
                ref.advance(x)
            elif what == "t":
                ref.change_table("t", **{"inserts" if y else "deletes": [(x, "v")]})
            else:
                ref.push(what, [(x, y)])

    ref = reference(clock=clock, delay=2)
    happen(before)
    starts = {}
    for name, query in QUERIES.items():
        ref.register(name, BoundQuery(query, ()))
        starts[name] = ref.clock(name)
    happen(after)
    for name in QUERIES:
        changes = ref.changes(name)
        for at in [*range(max(starts[name], -3), ref.clock(name) + 1)]:
            folded: Counter[Any] = Counter()
            for (row, when), n in changes.items():
                folded[row] += n if when <= at else 0
            assert folded == ref.answer(name, at), (name, at)
