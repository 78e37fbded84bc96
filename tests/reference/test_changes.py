"""How answers change: groups, DISTINCT, EXCEPT, and the log of an engine in the same form."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline import types as t
from eddyline.reference import MIN, normalise
from eddyline.sql.bound import (
    Aggregate,
    BoundQuery,
    Call,
    Column,
    Constant,
    Query,
    SetQuery,
)
from tests.reference.build import COUNT, UNBOUNDED, A, bag, eq, group, last, reference, rows, select, stream, table

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
