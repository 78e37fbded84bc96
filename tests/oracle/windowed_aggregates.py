"""Random scenarios of windowed aggregates over ranges of values, whose windows are read from the log of the stream."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from tests.oracle import queries
from tests.oracle.scenario import Pace, Scenario, check, scenario
from tests.oracle.schema import SMALL

FAMILIES = {
    "wc": ("w INT", "SELECT COUNT(*) AS n FROM s [RANGE :w SECONDS]"),
    "wi": (
        "w INT, lo INT, hi INT",
        "SELECT COUNT(*) AS n, SUM(b) AS t, AVG(c) AS m FROM s [RANGE :w SECONDS] WHERE a BETWEEN :lo AND :hi",
    ),
    "wd": ("lo DOUBLE, hi DOUBLE", "SELECT SUM(c) AS t FROM s [RANGE 3 SECONDS] WHERE c >= :lo AND c < :hi"),
    "we": (
        "w INT, k INT, c1 DOUBLE",
        "SELECT COUNT(a) AS n, AVG(a + b) AS m FROM s [RANGE :w SECONDS] WHERE a = :k AND c > :c1 AND b + a < 7",
    ),
}


def play(seed: int) -> int:
    """How many (query, input) cases were compared."""
    rnd = Random(f"windowed aggregates {seed}")
    s = replace(scenario(rnd, [], rows=rnd.randint(8, 40), clock=rnd.choice(["min", "min", "max"])))
    s.schema = replace(SMALL, families=FAMILIES)
    s.events = _with_families(rnd, s)
    s.emit_all = rnd.random() < 0.2
    if rnd.random() < 0.2:
        s.pace = Pace(rnd.choice([30, 1_500, 4_000]), rnd.choice([None, 2_000]))
    try:
        return check(rnd, s, snapshots=0.1, restores=rnd.choice([0, 0.1]))
    except BaseException as e:
        e.add_note(f"windowed aggregates, seed {seed}\n{s}")
        raise


def _with_families(rnd: Random, s: Scenario) -> list[tuple[Any, ...]]:
    """The events of a scenario, with queries that are registered and dropped among them."""
    events, standing, number = list[tuple[Any, ...]](), list[str](), 0
    for i, event in enumerate(s.events):
        if i == 0 or rnd.random() < 0.15:
            name = rnd.choice(list(FAMILIES))
            params = [p.split() for p in FAMILIES[name][0].split(", ")]
            table = []
            for _ in range(rnd.randint(1, 4)):
                number += 1
                table.append({"query": f"{name}_{number}"} | {p: queries.parameter(rnd, p, kind) for p, kind in params})
            events.append(("family", name, table))
            standing += [r["query"] for r in table]
        if standing and rnd.random() < 0.06:
            events.append(("drop", standing.pop(rnd.randrange(len(standing)))))
        events.append(event)
    return events
