"""Tables that revise earlier results, and tables that do not."""

from eddyline import types as t
from eddyline.sql.bound import Column, SelectBlock, SetQuery
from tests.reference.build import UNBOUNDED, A, bag, derived, eq, reference, select, stream, table


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


def test_a_negation_below_a_join_with_a_non_retroactive_table_is_not_one_above_it() -> None:
    """The two equal rows that cancel each other out saw different versions, so the binder refuses the first form."""
    key, found = Column(1, t.BIGINT, "k"), Column(2, t.STRING, "v")
    both = SetQuery("except", select(stream(UNBOUNDED)), select(stream(UNBOUNDED, "r")))
    below = select(derived(both), table(retroactive=False), where=eq(A, key), outputs=(A, found))
    sides = [
        select(derived(select(stream(UNBOUNDED, name))), table(retroactive=False), where=eq(A, key), outputs=(A, found))
        for name in ("s", "r")
    ]
    answers = []
    for query in (below, SetQuery("except", *sides)):
        ref = reference(query)
        ref.change_table("t", inserts=[(1, "old")])
        ref.push("s", [(1, 10)])
        ref.change_table("t", inserts=[(1, "new")], deletes=[(1, "old")])
        ref.push("r", [(1, 10)])
        answers.append(ref.answer("q"))
    assert answers == [bag(), bag((1, "old"))]
