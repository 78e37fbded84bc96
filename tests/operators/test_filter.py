"""Selection: a row passes if the condition is true for it, not if it is NULL."""

from __future__ import annotations

import pytest

from eddyline import types as t
from eddyline.plan.patterns import Pattern
from eddyline.plan.physical import Filter
from eddyline.sql.bound import Constant
from tests.operators.driving import LEAST, A, Answer, Change, Query, answer, call, check, given


def above(value: int | None, bound: int) -> bool:
    return value is not None and value > bound


@pytest.mark.parametrize("per_query", [False, True])
@pytest.mark.parametrize("retracts", [False, True])
def test_a_condition_without_parameters_keeps_the_rows_for_which_it_is_true(per_query: bool, retracts: bool) -> None:
    def reference(changes: list[list[Change]], queries: list[Query], instant: int) -> Answer:
        return answer([c for c in changes[0] if above(c.row[0], 0)], instant)

    condition = call("gt", A, Constant(0, t.INT))
    check(Filter(Pattern.WK, (given(per_query=per_query, retracts=retracts),), condition), reference)


@pytest.mark.parametrize("retracts", [False, True])
def test_a_condition_with_a_parameter_is_checked_with_the_value_of_each_query(retracts: bool) -> None:
    def reference(changes: list[list[Change]], queries: list[Query], instant: int) -> Answer:
        return answer([c for q in queries for c in changes[0] if c.query == q.id and above(c.row[0], q.least)], instant)

    check(Filter(Pattern.WK, (given(per_query=True, retracts=retracts),), call("gt", A, LEAST)), reference)


def test_a_condition_with_a_parameter_over_shared_changes_is_refused() -> None:
    with pytest.raises(AssertionError, match="over shared changes"):
        Filter(Pattern.WK, (given(per_query=False),), call("gt", A, LEAST))
