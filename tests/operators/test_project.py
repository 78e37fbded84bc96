"""Projection: the outputs of every row; twins stay twins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eddyline.plan.patterns import Pattern
from eddyline.plan.physical import PhysicalNode, Project
from eddyline.sql.bound import Expr, Output
from tests.operators.driving import LEAST, A, Answer, B, Change, Query, answer, call, check, given


def project(node: PhysicalNode, *exprs: Expr) -> Project:
    return Project(Pattern.WK, (node,), tuple(Output(f"o{i}", e) for i, e in enumerate(exprs)))


@pytest.mark.parametrize("per_query", [False, True])
@pytest.mark.parametrize("retracts", [False, True])
def test_every_row_has_its_outputs_as_often_as_it_occurs(per_query: bool, retracts: bool) -> None:
    def reference(changes: list[list[Change]], queries: list[Query], instant: int) -> Answer:
        rows = [replace(c, row=(c.row[1], None if None in c.row else c.row[0] == c.row[1])) for c in changes[0]]
        return answer(rows, instant)

    check(project(given(per_query=per_query, retracts=retracts), B, call("eq", A, B)), reference)


def test_an_output_with_a_parameter_has_the_value_of_each_query() -> None:
    def reference(changes: list[list[Change]], queries: list[Query], instant: int) -> Answer:
        least = {q.id: q.least for q in queries}
        return answer([replace(c, row=(least[c.query], c.row[0])) for c in changes[0] if c.query is not None], instant)

    check(project(given(per_query=True, retracts=True), LEAST, A), reference)
