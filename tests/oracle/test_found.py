"""Cases that random scenarios once found, reduced to what matters and kept."""

from __future__ import annotations

from random import Random

import pytest

from tests.oracle.scenario import Scenario, at, check


def row(stream: str, seconds: float, a: int | None = 1, b: int = 1, c: float = 3.0, n: str = "a") -> tuple[object, ...]:
    return "row", stream, (a, b, c, n, True, at(seconds))


FOUND = {
    "a group whose first tuple is ahead of the clock appears when the clock reaches it": (
        {"r": 0, "s": 3},
        [
            ("register", "q", "SELECT s.a, SUM(s.b) AS v FROM s [RANGE 3 SECONDS] GROUP BY s.a"),
            row("s", 6.5),
            row("s", 8),
            ("advance", at(28)),
        ],
    ),
    "an unbounded group has a row without end": (
        {"r": 0, "s": 1},
        [
            ("register", "q", "SELECT s.n, AVG(s.a) AS v, COUNT(*) AS k FROM s GROUP BY s.n"),
            row("s", 1),
            row("s", 3),
            row("s", 9, a=2),
            ("advance", at(10)),
        ],
    ),
    "a table changes before any stream has a clock": (
        {"r": 0, "s": 0},
        [
            ("table", "t", [(1, 1, "a"), (2, 2, "b")], []),
            ("register", "q", "SELECT MIN(id) AS m FROM t WHERE a BETWEEN 0 AND 2"),
            ("table", "t", [], [(1, 1, "a")]),
            ("table", "t", [(0, 1, "a")], [(2, 2, "b")]),
        ],
    ),
    "a zero is the same text whatever its sign, above EXCEPT ALL": (
        {"r": 0, "s": 0},
        [
            (
                "register",
                "q",
                "SELECT CAST(d.c AS STRING) AS t FROM "
                "(SELECT c FROM r [RANGE 8 SECONDS] AS d EXCEPT ALL SELECT c FROM s [RANGE 3 SECONDS] AS e) AS d",
            ),
            row("r", 1, c=-0.0),
            row("r", 2, c=0.0),
            ("advance", at(5)),
        ],
    ),
    "a zero is the same text whatever its sign, above a group and DISTINCT": (
        {"r": 0, "s": 0},
        [
            (
                "register",
                "q",
                "SELECT CAST(g.c AS STRING) AS t, g.k FROM (SELECT c, COUNT(*) AS k FROM r GROUP BY c) AS g",
            ),
            ("register", "p", "SELECT CAST(g.c AS STRING) AS t FROM (SELECT DISTINCT c FROM r [RANGE 4 SECONDS]) AS g"),
            row("r", 1, c=-0.0),
            row("r", 2, c=0.0),
            ("advance", at(5)),
        ],
    ),
    "queries of a new class and then of a known one are registered at the same moment": (
        {"r": 0, "s": 0},
        [
            ("family", "fg", [{"query": "p", "w": 4, "k": 9}]),
            row("s", 0),
            ("family", "fg", [{"query": "x", "w": 2, "k": 5}, {"query": "y", "w": 4, "k": 4}]),
            row("s", -1),  # late: no tuple arrives between the registrations
            ("family", "fg", [{"query": "q", "w": 3, "k": 0}, {"query": "z", "w": 4, "k": 0}]),
            row("s", 3),
            ("advance", at(20)),
        ],
    ),
    "both parts of a joined row leave in one step, the first input's later": (
        {"r": 60, "s": 60},
        [
            ("register", "q", "SELECT x.b FROM r [ROWS 1] AS x, s [ROWS 1] AS y WHERE x.b = y.b"),
            row("r", 0),
            row("s", 0),
            ("advance", at(0)),
            row("r", 12, b=2),
            row("s", 10, b=3),
            ("advance", at(20)),
        ],
    ),
    "a distinct row and a row of a count window leave in one step": (
        {"r": 3, "s": 1},
        [
            (
                "register",
                "q",
                "SELECT x.a, y.b FROM (SELECT DISTINCT a, b, n FROM r [ROWS 1]) AS x, "
                "(SELECT a, b, n FROM s [ROWS 1]) AS y WHERE x.b = y.a",
            ),
            row("r", 2.5, b=0, n="ab"),
            row("s", 5, a=0, b=2),
            row("s", 7, a=0, b=0),
            row("r", 9, b=3),
            ("advance", at(29)),
        ],
    ),
    "the extreme of a group of NULLs ends with the group": (
        {"r": 0, "s": 0},
        [
            ("register", "q", "SELECT s.n, MAX(s.a) AS m FROM s [RANGE 2 SECONDS] GROUP BY s.n"),
            row("s", 1, a=None),
            row("s", 2, a=None),
            row("s", 2, a=None, n="b"),
            ("advance", at(9)),
        ],
    ),
}


def test_under_clock_max_a_snapshot_leaves_out_what_the_query_did_not_see() -> None:
    events = [
        ("register", "q", "SELECT x.a, y.n FROM s [RANGE 3 SECONDS] AS x, r AS y WHERE x.a = y.a"),
        row("r", 0),
        row("s", 3),
        row("r", 1, n="b"),
        ("advance", at(4)),
    ]
    check(Random(1), Scenario({"r": 3, "s": 0}, events, clock="max"), snapshots=1.0)


@pytest.mark.parametrize("claim", FOUND)
def test_found(claim: str) -> None:
    delays, events = FOUND[claim]
    for seed in range(4):
        check(Random(seed), Scenario(delays, list(events)), snapshots=1.0, restores=0.2)
