"""Aggregates of extreme doubles against the reference, which sums fractions: answers and changes are equal to the bit.

Groups over streams, count windows, joins by equality and by range; random cuts, adds, drops and restores.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from eddyline.index.ranges import contributions as range_sums
from eddyline.index.runtime import garbage
from tests.oracle.queries import maybe_predicate, where, window
from tests.oracle.range_joins import range_queries
from tests.oracle.scenario import check, scenario

NIGHTLY = os.environ.get("EDDYLINE_NIGHTLY") == "1"
SCENARIOS = 700 if NIGHTLY else 8
KINDS = ("window", "rows", "join", "nested", "range join", "range join by row")
EXTREMES = (1e30, 1e15, 1e-3, 0.1, 5e-324, 1e-310, 2.0**-1022, 1.7e308, 3.0, 2.0**53, 1e300)


def number(rnd: Random) -> float:
    """Of any magnitude, and often one that was there before, or its negation."""
    if rnd.random() < 0.06:
        return rnd.choice([float("inf"), float("-inf"), float("nan"), -0.0])
    x = rnd.choice(
        [rnd.choice(EXTREMES), rnd.random(), rnd.gauss(0, 100), rnd.random() * 2.0 ** rnd.randint(-1060, 1020)]
    )
    return x * rnd.choice([1, 1, -1])


def extreme_row(rnd: Random, row: tuple[Any, ...]) -> tuple[Any, ...]:
    a, b, _, n, f, ts = row
    return a, b, None if rnd.random() < 0.05 else number(rnd), n, f, ts


def texts(rnd: Random, kind: str) -> list[str]:
    if kind.startswith("range join"):
        found: list[str] = []
        while not any("SUM(x.c)" in t or "AVG(y.c)" in t for t in found):
            found = range_queries(rnd, "aggregate")
        return found
    items = rnd.choice(["SUM(s.c) AS v", "AVG(s.c) AS v", "SUM(s.c) AS v, AVG(s.c) AS m, AVG(s.a) AS o, COUNT(*) AS k"])
    key = rnd.choice(["", "s.a", "s.f"])
    source = {
        "window": f"s{window(rnd)}",
        "rows": f"s [ROWS {rnd.randint(1, 5)}]",
        "join": f"(SELECT y.a, y.c, x.f FROM r{window(rnd)} AS x, s{window(rnd)} AS y WHERE x.f = y.f) AS s",
        "nested": f"(SELECT s.a, SUM(s.c) AS c, s.f FROM s{window(rnd)} GROUP BY s.a, s.f) AS s",
    }[kind]
    some = where(rnd, maybe_predicate(rnd, "s")) if kind in ("window", "rows") else ""
    having = f" HAVING {rnd.choice(['SUM(s.c) > 0', 'AVG(s.c) < 1', 'COUNT(*) > 1'])}" if rnd.random() < 0.2 else ""
    selected = f"{key}, {items}" if key else items
    return [f"SELECT {selected} FROM {source}{some}{f' GROUP BY {key}' if key else ''}{having}"]


def play(kind: str, seed: int) -> None:
    rnd = Random(f"sums {kind}{seed}")
    s = scenario(rnd, texts(rnd, kind), rows=rnd.randint(4, 24))
    s.events = [(*e[:2], extreme_row(rnd, e[2])) if e[0] == "row" else e for e in s.events]
    s.options = "strategy = 'by row'" if kind == "range join by row" else ""
    try:
        check(rnd, s, restores=0.1)
    except BaseException as e:
        e.add_note(f"kind {kind!r}, seed {seed}\n{s}")
        raise


@pytest.mark.parametrize("kind", KINDS)
def test_sums_and_means_are_those_of_the_reference_to_the_bit(kind: str) -> None:
    for seed in range(SCENARIOS):
        play(kind, seed)


@pytest.mark.parametrize("kind", ["window", "rows"])
def test_giving_up_memory_changes_no_sum(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "SPARE", 0)
    for seed in range(60 if NIGHTLY else 6):
        play(kind, 1_000_000 + seed)


def test_carries_between_contributions_change_no_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_sums, "AT_MOST", 2)
    for seed in range(60 if NIGHTLY else 6):
        play("range join", 2_000_000 + seed)
