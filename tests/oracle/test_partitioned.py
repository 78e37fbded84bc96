"""Families split over buckets say what one place says: random scenarios of every class of query, step by step.

`EDDYLINE_NIGHTLY=1` plays many more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from eddyline.engine import engine
from tests.oracle import queries
from tests.oracle.bands import band_queries
from tests.oracle.deep import deep_query
from tests.oracle.scenario import Player, Scenario, cut, scenario
from tests.oracle.splitting import SplitFamily, Trial

NIGHTLY = os.environ.get("EDDYLINE_NIGHTLY") == "1"
TIMES = 30 if NIGHTLY else 1
# By class of query: how many scenarios, and the ways of splitting that some of them must try, besides that by queries.
CLASSES: dict[str, tuple[int, set[str]]] = {
    "filter": (20, {"stateless", "anywhere"}),
    "join": (20, {"by key", "one place"}),
    "three-way join": (12, {"by key", "one place"}),
    "distinct": (8, {"by key"}),
    "group by": (8, {"by key", "one place"}),
    "set operation": (20, {"stateless", "by key"}),
    "table join": (14, {"anywhere", "by key"}),
    "tables only": (4, {"one place"}),
    "count window": (4, {"one place"}),
    "nested": (14, {"by key", "one place"}),
    "retracting join": (12, {"one place"}),
    "deep": (25, {"anywhere", "by key", "one place"}),
    "band": (25, {"by range", "one place"}),
    "families": (20, {"stateless", "anywhere", "by key", "by range", "one place"}),
    "clock max": (12, {"stateless", "by key"}),
}


class SplitPlayer(Player):
    """Some queries ask for every end."""

    def __init__(self, s: Scenario, rnd: Random) -> None:
        super().__init__(s)
        self.rnd = rnd

    def play(self, event: tuple[Any, ...]) -> None:
        if event[0] == "register" and self.rnd.random() < 0.25:
            self.logs[event[1]] = []
            self.take(self.db.execute(f"CREATE CONTINUOUS QUERY {event[1]} WITH (emit = 'all') AS {event[2]}"))
        else:
            super().play(event)


def texts(kind: str, rnd: Random) -> list[str]:
    if kind == "families":
        return []
    if kind == "band":
        return band_queries(rnd)
    if kind == "deep":
        return [deep_query(rnd)]
    make = queries.CLASSES.get(kind, queries.query)
    return [make(rnd) for _ in range(rnd.randint(1, 3))]


def play(kind: str, seed: int, trial: Trial) -> None:
    rnd = Random(f"split {kind}{seed}")
    trial.rnd, trial.buckets, trial.width = rnd, rnd.choice([2, 3]), rnd.choice([0.5, 1.0, 2.5])
    clock = "max" if kind == "clock max" else "min"
    s = scenario(rnd, texts(kind, rnd), rows=rnd.randint(6, 30), families=kind == "families", clock=clock)
    try:
        player = SplitPlayer(s, rnd)
        for e in cut(rnd, s, across_streams=clock == "min"):
            if e[0] == "push":
                player.push(e[1])
            else:
                player.play(e)
        for family in player.db.engine.running.values():
            assert isinstance(family, SplitFamily)
            family.check_logs()
    except BaseException as error:
        error.add_note(f"kind {kind!r}, seed {seed}\n{s}")
        raise


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch) -> Iterator[Trial]:
    fresh = Trial()
    monkeypatch.setattr(SplitFamily, "trial", fresh)
    monkeypatch.setattr(engine, "RunningFamily", SplitFamily)
    yield fresh


@pytest.mark.parametrize("kind", CLASSES)
def test_buckets_together_say_what_one_place_says(kind: str, trial: Trial) -> None:
    scenarios, expected = CLASSES[kind]
    for seed in range(scenarios * TIMES):
        play(kind, seed, trial)
    print(f"{kind}: {dict(trial.kinds)}, {trial.copies} copies")
    assert expected | {"by queries"} <= {k for k, steps in trial.kinds.items() if steps}
    assert trial.copies > 0 or "by range" not in expected
