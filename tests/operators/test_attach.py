"""Attaching: a shared change becomes a change of each query that it is visible to and whose condition it satisfies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eddyline.plan.patterns import Pattern
from eddyline.plan.physical import Attach
from eddyline.sql.bound import Expr
from tests.operators.driving import LEAST, MOST, A, Answer, B, Change, Query, answer, call, check, given

CONDITIONS: dict[str, Expr | None] = {
    "no condition": None,
    "one bound": call("ge", A, LEAST),
    "two columns": call("and", call("ge", A, LEAST), call("lt", B, MOST)),
    "a point": call("eq", B, LEAST),
}


def passes(name: str, row: tuple[int | None, int | None], q: Query) -> bool:
    a, b = row
    match name:
        case "one bound":
            return a is not None and a >= q.least
        case "two columns":
            return a is not None and b is not None and a >= q.least and b < q.most
        case "a point":
            return b == q.least
    return True


@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("name", CONDITIONS)
def test_a_query_gets_what_arrives_after_it_and_satisfies_its_condition(name: str, retracts: bool) -> None:
    def reference(changes: list[list[Change]], queries: list[Query], instant: int) -> Answer:
        visible = [(q, c) for q in queries for c in changes[0] if c.arrival >= q.since and passes(name, c.row, q)]
        return answer([replace(c, query=q.id) for q, c in visible], instant)

    check(Attach(Pattern.WK, (given(per_query=False, retracts=retracts),), CONDITIONS[name]), reference)


def test_changes_are_not_attached_twice() -> None:
    with pytest.raises(AssertionError, match="attached twice"):
        Attach(Pattern.WK, (given(per_query=True),), None)
