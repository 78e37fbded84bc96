"""Joins over SteMs: at every instant, the combinations of rows that nested loops give."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from eddyline import types as t
from eddyline.operators.base import Step
from eddyline.operators.joins.stem_join import StemJoin
from eddyline.plan.patterns import Pattern
from eddyline.plan.stem_joins import stem_join
from eddyline.sql.bound import Column, Expr
from eddyline.state.query_table import QueryTable
from tests.operators.driving import (
    LEAST,
    MOST,
    NO_FUNCTIONS,
    Answer,
    Change,
    Given,
    Query,
    Source,
    answer,
    built,
    call,
    changes_of,
    check,
    given,
    held,
)  # fmt: skip


def column(i: int) -> Column:
    """A column of the joined rows; each input has two."""
    return Column(i, t.INT, f"c{i}")


EQUAL = call("eq", column(0), column(2))
SELECTED = call("and", call("and", EQUAL, call("ge", column(1), LEAST)), call("le", column(3), MOST))


def nested_loops(changes: list[list[Change]], queries: list[Query], instant: int, *, selected: bool) -> Answer:
    """Chains of rows of which each begins with the value with which the one before it begins."""
    rows = Answer()
    for parts in product(*(held(c, instant) for c in changes)):
        firsts = [p.row[0] for p in parts]
        owners = {p.query for p in parts} - {None}
        if None in firsts or len(set(firsts)) > 1 or len(owners) > 1:
            continue
        joined = tuple(value for p in parts for value in p.row)
        if not selected and not owners:
            rows[None, joined] += 1
            continue
        for q in queries:
            visible = min(p.arrival for p in parts) >= q.since and (not owners or q.id in owners)
            if visible and (not selected or passes(joined, q)):
                rows[q.id, joined] += 1
    return rows


def passes(joined: tuple[int | None, ...], q: Query) -> bool:
    return joined[1] is not None and joined[3] is not None and joined[1] >= q.least and joined[3] <= q.most


@pytest.mark.parametrize("retracts", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("per_query", [(False, False), (True, False), (True, True)])
def test_two_inputs_are_joined_by_key_and_query(per_query: tuple[bool, bool], retracts: tuple[bool, bool]) -> None:
    def reference(changes: list[list[Change]], queries: list[Query], instant: int) -> Answer:
        return nested_loops(changes, queries, instant, selected=False)

    inputs = [given(per_query=p, retracts=r) for p, r in zip(per_query, retracts, strict=True)]
    check(stem_join(Pattern.STR, inputs, EQUAL), reference)


@pytest.mark.parametrize("retracts", [False, True])
def test_conditions_of_queries_select_joined_rows(retracts: bool) -> None:
    def reference(changes: list[list[Change]], queries: list[Query], instant: int) -> Answer:
        return nested_loops(changes, queries, instant, selected=True)

    check(stem_join(Pattern.STR, [given(per_query=False, retracts=retracts)] * 2, SELECTED), reference)


@pytest.mark.parametrize("retracts", [False, True])
def test_three_inputs_are_joined_in_any_order_of_arrival(retracts: bool) -> None:
    def reference(changes: list[list[Change]], queries: list[Query], instant: int) -> Answer:
        return nested_loops(changes, queries, instant, selected=False)

    both: Expr = call("and", EQUAL, call("eq", column(2), column(4)))
    check(stem_join(Pattern.STR, [given(per_query=False, retracts=retracts)] * 3, both), reference, seeds=4)


def test_a_non_retroactive_table_is_joined_as_it_was_when_a_tuple_arrived() -> None:
    stream, table = given(per_query=False), given(per_query=False, retracts=True)
    rnd = Random(1)
    leaves = list[Given]()
    join = built(stem_join(Pattern.WK, [stream, table], EQUAL, frozen_table=1), leaves)
    assert isinstance(join, StemJoin)
    tuples, contents = Source(rnd, stream), Source(rnd, table)
    sent, expected = list[Change](), list[Change]()
    for clock in range(30):
        leaves[0].changes, leaves[1].changes = tuples.batch(clock, [], clock), contents.batch(clock, [], clock)
        before = [c for c in contents.changes if c not in leaves[1].changes]
        for c, row in product(leaves[0].changes, before):
            if c.row[0] is not None and c.row[0] == row.row[0]:
                ts, exp = max(c.ts, row.ts), min(c.exp, row.exp)
                expected.append(Change(c.row + row.row, ts, exp, row.sign))
        sent += changes_of(join.pull(Step("arrivals", clock, clock, QueryTable(()).rows(), NO_FUNCTIONS)))
        assert answer(sent, clock) == answer(expected, clock)
    assert sent and not len(join.stems.stems[0]), "the tuples are not kept"
