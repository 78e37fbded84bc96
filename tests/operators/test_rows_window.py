"""Count windows: at every instant, the n latest tuples by (event time, arrival) that are visible to a query."""

from __future__ import annotations

from dataclasses import replace

from eddyline.plan.patterns import Pattern
from eddyline.plan.physical import CountWindow
from tests.operators.driving import LEAST, Answer, Change, Query, answer, check, given


def test_a_window_has_the_n_latest_tuples_of_each_query() -> None:
    def reference(changes: list[list[Change]], queries: list[Query], instant: int) -> Answer:
        rows = Answer()
        for q in queries:
            visible = [c for c in changes[0] if c.arrival >= q.since and c.ts <= instant]
            latest = sorted(visible, key=lambda c: (c.ts, c.arrival))[len(visible) - min(q.least, len(visible)) :]
            rows += answer([replace(c, query=q.id) for c in latest], instant)
        return rows

    check(CountWindow(Pattern.STR, (given(per_query=False, ends=False),), LEAST), reference, seeds=30)
