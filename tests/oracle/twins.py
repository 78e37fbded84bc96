"""Random scenarios in which the same text is registered several times, so that classes of queries merge."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.oracle import queries
from tests.oracle.deep import deep_query
from tests.oracle.scenario import check, in_long_steps, scenario

KINDS = ["group by", "distinct", "set operation", "nested", "deep"]


def _few_values(rnd: Random, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Values occur again before they expire, so that rows sent to classes have other ends."""
    return (*(None if v is None else v % 2 for v in row[:2]), 0.5, rnd.choice("ab"), True, row[-1])


def play(seed: int) -> int:
    """How many (query, input) cases were compared."""
    rnd = Random(f"twins {seed}")
    kind = rnd.choice(KINDS)
    make = deep_query if kind == "deep" else queries.CLASSES[kind]
    s = scenario(rnd, [make(rnd)] * rnd.randint(2, 4), rows=rnd.randint(20, 45))
    s.events = [(*e[:2], _few_values(rnd, e[2])) if e[0] == "row" else e for e in s.events]
    if rnd.random() < 0.2:
        s = in_long_steps(rnd, s)
    s.emit_all = rnd.random() < 0.3
    try:
        return check(rnd, s, cuts=2, snapshots=0.05, restores=rnd.choice([0, 0.05]))
    except BaseException as e:
        e.add_note(f"twins, seed {seed}\n{s}")
        raise
