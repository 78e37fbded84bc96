"""UNION ALL: every row of every input, as often as all inputs together have it."""

from __future__ import annotations

import pytest

from eddyline.plan.patterns import Pattern
from eddyline.plan.physical import UnionAll
from tests.operators.driving import Answer, Change, Query, answer, check, given


@pytest.mark.parametrize("inputs", [1, 2, 3])
@pytest.mark.parametrize("per_query", [False, True])
def test_the_multiplicities_of_the_inputs_add_up(inputs: int, per_query: bool) -> None:
    def reference(changes: list[list[Change]], queries: list[Query], instant: int) -> Answer:
        return answer([c for of_input in changes for c in of_input], instant)

    nodes = tuple(given(per_query=per_query, retracts=i == 1) for i in range(inputs))
    check(UnionAll(Pattern.STR, nodes), reference)


def test_shared_changes_beside_changes_of_queries_are_refused() -> None:
    with pytest.raises(AssertionError, match="shared changes beside"):
        UnionAll(Pattern.STR, (given(per_query=False), given(per_query=True)))
