"""Joins over ranges against the reference, by every strategy: random queries, inputs, cuts, adds, drops, restores."""

from __future__ import annotations

import os
from random import Random

import pytest

from eddyline.index.ranges.range_search import STRATEGIES
from tests.oracle.range_joins import KINDS, range_queries, row_near_limits
from tests.oracle.scenario import check, scenario

NIGHTLY = os.environ.get("EDDYLINE_NIGHTLY") == "1"
SCENARIOS = 300 if NIGHTLY else 8


def play(kind: str, strategy: str, seed: int) -> int:
    rnd = Random(f"{kind}{seed}")
    s = scenario(rnd, range_queries(rnd, kind), rows=rnd.randint(4, 24))
    if kind == "limits" and rnd.random() < 0.9:
        s.events = [(*e[:2], row_near_limits(rnd, e[2])) if e[0] == "row" else e for e in s.events]
    s.options = f"strategy = '{strategy}'"
    s.emit_all = Random(f"emit {kind}{seed}").random() < 0.2
    try:
        return check(rnd, s, cuts=1)
    except BaseException as e:
        e.add_note(f"kind {kind!r}, strategy {strategy!r}, seed {seed}\n{s}")
        raise


@pytest.mark.parametrize("strategy", ["auto", "by row", *STRATEGIES])
@pytest.mark.parametrize("kind", KINDS)
def test_every_strategy_gives_the_changes_of_the_reference(kind: str, strategy: str) -> None:
    for seed in range(SCENARIOS):
        play(kind, strategy, seed)
