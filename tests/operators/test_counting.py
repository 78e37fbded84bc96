"""DISTINCT, EXCEPT ALL and INTERSECT ALL: at every instant, the multiplicities that SQL defines, per query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from eddyline.plan.patterns import Pattern
from eddyline.plan.physical import SetOperation
from tests.operators.driving import Answer, Change, Query, answer, check, given

Kind = Literal["distinct", "negation", "intersect"]
MEANING: dict[Kind, Callable[..., Answer]] = {
    "distinct": lambda rows: Answer(set(rows)),
    "negation": lambda left, right: left - right,
    "intersect": lambda left, right: left & right,
}


@pytest.mark.parametrize("retracts", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("kind", MEANING)
def test_a_row_occurs_as_often_as_its_counts_on_both_sides_say(kind: Kind, retracts: tuple[bool, bool]) -> None:
    def reference(changes: list[list[Change]], queries: list[Query], instant: int) -> Answer:
        return MEANING[kind](*(answer(c, instant) for c in changes))

    inputs = tuple(given(per_query=True, retracts=r) for r in retracts)
    check(SetOperation(Pattern.STR, inputs[:1] if kind == "distinct" else inputs, kind), reference)
