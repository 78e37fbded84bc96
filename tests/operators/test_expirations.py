"""emit = 'all': the signs alone, without any interval, sum to the answer at every instant."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from eddyline.plan.patterns import Pattern
from eddyline.plan.physical import Expirations
from tests.operators.driving import Answer, Change, Query, answer, check, given


def by_signs(changes: Iterable[Change], instant: int) -> Answer:
    rows = Answer()
    for c in changes:
        if c.ts <= instant:
            rows[c.query, c.row] += c.sign
    return Answer({row: n for row, n in rows.items() if n})


def unchanged(changes: list[list[Change]], queries: list[Query], instant: int) -> Answer:
    return answer(changes[0], instant)


@pytest.mark.parametrize("fold", [by_signs, answer])
@pytest.mark.parametrize("retracts", [False, True])
def test_signs_alone_and_intervals_give_the_same_answer(fold: object, retracts: bool) -> None:
    assert callable(fold)
    check(Expirations(Pattern.STR, (given(per_query=True, retracts=retracts),)), unchanged, fold, seeds=15)
