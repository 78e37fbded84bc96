"""Queries with user functions against the reference, wherever and in whichever order the functions are called."""

from __future__ import annotations

import os
from random import Random

import pytest

from eddyline.index.keys import sorted_runs
from eddyline.operators import matcher
from tests.oracle.functions import function_scenario, play

NIGHTLY = os.environ.get("EDDYLINE_NIGHTLY") == "1"


@pytest.mark.parametrize("part", range(4))
def test_queries_with_functions_equal_the_reference(part: int) -> None:
    scenarios = 250 if NIGHTLY else 8
    compared = sum(play(seed) for seed in range(part * 100_000, part * 100_000 + scenarios))
    print(f"functions: {compared} cases")
    assert compared > scenarios


def test_portions_of_joined_rows_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_runs, "PAIRS_AT_ONCE", 3)
    monkeypatch.setattr(matcher, "PAIRS_AT_ONCE", 3)
    for seed in range(100 if NIGHTLY else 8):
        play(1_000_000 + seed)


def test_scenarios_have_what_they_are_meant_to_have() -> None:
    everything = "\n".join(str(e) for seed in range(60) for e in function_scenario(Random(f"functions {seed}")).events)
    functions = ("never(", "inverse(", "wrong(", "near(x.a, ")
    for part in (*functions, " AS z", " AS v", ", t WHERE", ", u WHERE", "'gr'", "'g4'", "GROUP BY"):
        assert part in everything, part
