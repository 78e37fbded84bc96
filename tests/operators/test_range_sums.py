"""Aggregates over a range join: without building joined rows, the aggregates of what nested loops give."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from eddyline import types as t
from eddyline.plan.patterns import Pattern
from eddyline.plan.physical import Buffer, GroupBy, RangeArgument
from eddyline.plan.stem_joins import stem_join
from eddyline.sql.bound import Aggregate, Call, Column
from tests.operators.driving import LEAST, MOST, Answer, B, Change, Query, call, check, given, held

COUNT = Aggregate("count", None, t.BIGINT)
WIDE = Call("cast", (B,), t.BIGINT)
SUM = Aggregate("sum", WIDE, t.BIGINT)
MAX = Aggregate("max", Column(3, t.INT, "b"), t.INT)
SELECTED = call(
    "and",
    call("eq", Column(0, t.INT, "a"), Column(2, t.INT, "a")),
    call("and", call("ge", Column(1, t.INT, "b"), LEAST), call("le", Column(3, t.INT, "b"), MOST)),
)


def pairs(changes: list[list[Change]], q: Query, instant: int) -> Iterator[tuple[int, int]]:
    """The values of b on both sides, for the pairs of rows with equal a that a query selects."""
    for left, right in product(held(changes[0], instant), held(changes[1], instant)):
        (a, b), (c, d) = left.row, right.row
        visible = min(left.arrival, right.arrival) >= q.since
        if visible and None not in (a, b, c, d) and a == c and b >= q.least and d <= q.most:
            yield b, d


def results(changes: list[list[Change]], queries: list[Query], instant: int, *, extreme: bool) -> Answer:
    rows = Answer()
    for q in queries:
        joined = list(pairs(changes, q, instant))
        row = (len(joined), sum(b for b, _ in joined) if joined else None)
        if instant >= q.clock:  # the group of a query exists from its registration on
            rows[q.id, (*row, max((d for _, d in joined), default=None)) if extreme else row] += 1
    return rows


@pytest.mark.parametrize("retracts", [False, True])
def test_counts_sums_and_extremes_are_those_of_the_joined_rows(retracts: bool) -> None:
    def reference(changes: list[list[Change]], queries: list[Query], instant: int) -> Answer:
        return results(changes, queries, instant, extreme=not retracts)

    join = stem_join(Pattern.WK, [given(per_query=False, retracts=retracts)] * 2, SELECTED)
    assert join.deferrable, "both inputs are processed by ranges"
    aggregates = (COUNT, SUM) if retracts else (COUNT, SUM, MAX)
    arguments = (None, RangeArgument(0, WIDE), RangeArgument(1, B))[: len(aggregates)]
    buffers = (None, None, Buffer())[: len(aggregates)]
    check(GroupBy(Pattern.STR, (join,), (), aggregates, arguments, buffers), reference, seeds=10)
