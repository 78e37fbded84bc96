"""The contract of `operators/joins/tactic.py`: whichever tactic is asked, the changes are the same, and state stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from eddyline.operators.base import Step
from eddyline.operators.build import build
from eddyline.operators.evaluate import Functions
from eddyline.operators.joins import stem_join
from eddyline.operators.joins.by_ranges import ByRanges
from eddyline.operators.joins.filter_first import FilterFirst
from eddyline.operators.joins.probe import Probe
from eddyline.operators.joins.stem_join import StemJoin
from eddyline.operators.joins.tactic import Piece, Tactic
from eddyline.operators.query_index import QueryIndex
from eddyline.plan.build import plan
from eddyline.plan.physical_planner import physical_plan
from eddyline.state.delta import MIN, Delta
from tests.plan.running import batches, bind, registered

F = "CREATE QUERY FAMILY f (lo INT, hi INT) AS "
JOINS = {
    "select join": F + "SELECT r.a, s.b, s.n FROM r, s WHERE r.a = s.a AND r.b >= :lo AND s.b <= :hi",
    "filter alone": F + "SELECT r.a, s.b, s.n FROM r, s WHERE r.a = s.a AND r.b BETWEEN :lo AND :hi",
    "band": F + "SELECT r.a, s.b FROM r [RANGE 2 SECONDS], s WHERE s.b - r.b BETWEEN :lo - 1 AND :hi",
    "windows": F + "SELECT r.a, s.b FROM r [RANGE :lo SECONDS], s [RANGE :hi SECONDS] WHERE r.a = s.a AND r.b > :lo",
    "table": F + "SELECT s.a, t.n FROM s [RANGE 3 SECONDS], t WHERE s.a = t.a AND s.b >= :lo AND t.b <= :hi",
    "three": F + "SELECT x.a FROM r AS x, s AS y, link1 AS z WHERE x.a = y.a AND y.b = z.b AND x.b > :lo",
}


class Watched:
    """A tactic that must leave the SteMs as they are."""

    def __init__(self, tactic: Tactic, join: StemJoin) -> None:
        self.tactic, self.join = tactic, join

    def results(self, step: Step, delta: Delta) -> Any:
        before = [s.save() for s in self.join.stems.stems]
        results = self.tactic.results(step, delta)
        assert [s.save() for s in self.join.stems.stems] == before
        return results

    def indexes(self) -> Sequence[QueryIndex]:
        return self.tactic.indexes()

    def details(self) -> list[str]:
        return self.tactic.details()


def join_of(sql: str) -> StemJoin:
    (join,) = [o for o in build(physical_plan(plan(bind(sql).query))).walk() if isinstance(o, StemJoin)]
    return join


def changes(sql: str, seed: int, kind: type[Any]) -> list[Counter[tuple[Any, ...]]]:
    """By step, the changes of a join whose inputs have a kind of tactic, where they can, and probe otherwise."""
    join, rnd = join_of(sql), Random(seed)
    join.tactics = [[Watched(t, join) for t in ts if isinstance(t, kind | Probe)] for ts in join.tactics]
    queries, clock, steps = registered(rnd, bind(sql)), MIN, []
    for batch in batches(rnd, 12):
        step = Step("arrivals", clock, batch.clock, queries, Functions({}, {}), batch.streams, batch.tables)
        delta, clock = join.pull(step).spread(), batch.clock
        assert delta.query is not None
        numbers = (delta.query, delta.sign, delta.ts, delta.exp, delta.first, delta.last)
        rows = zip(*(c.to_pylist() for c in delta.columns), *(x.tolist() for x in numbers), strict=True)
        steps.append(Counter(rows))
    return steps


@pytest.mark.parametrize("name", JOINS)
def test_all_tactics_give_the_same_changes_and_leave_the_state_alone(name: str) -> None:
    seen = 0
    for seed in range(6):
        probed = changes(JOINS[name], seed, Probe)
        for kind in (FilterFirst, ByRanges):
            assert changes(JOINS[name], seed, kind) == probed, f"{name}, seed {seed}, {kind.__name__}"
        seen += sum(c.total() for c in probed)
    assert seen > 0


class OneByOne:
    """Each tuple alone: a tactic that the product does not have."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe

    def results(self, step: Step, delta: Delta) -> list[Piece] | None:
        alone = (delta.take(np.array([i])).spread() for i in range(len(delta)))
        return [piece for one in alone for piece in self.probe.results(step, one) or []]

    def indexes(self) -> Sequence[QueryIndex]:
        return ()

    def details(self) -> list[str]:
        return []


def test_a_new_tactic_is_one_more_entry_of_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    probed = changes(JOINS["three"], 1, Probe)
    monkeypatch.setattr(stem_join, "TACTICS", (OneByOne,))
    assert changes(JOINS["three"], 1, OneByOne) == probed


def test_every_input_can_probe_and_asks_for_that_last() -> None:
    for sql in JOINS.values():
        for tactics in join_of(sql).tactics:
            assert [isinstance(t, Probe) for t in tactics] == [False] * (len(tactics) - 1) + [True]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("select join", [[ByRanges, FilterFirst, Probe]] * 2),
        ("filter alone", [[FilterFirst, Probe], [ByRanges, Probe]]),
        ("band", [[ByRanges, Probe]] * 2),
        ("three", [[FilterFirst, Probe], [Probe], [Probe]]),
    ],
)
def test_the_plan_says_which_tactics_an_input_has(name: str, kinds: list[list[type[Any]]]) -> None:
    assert [[type(t) for t in tactics] for tactics in join_of(JOINS[name]).tactics] == kinds
