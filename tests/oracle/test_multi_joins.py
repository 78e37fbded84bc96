"""Joins of 2 to 6 inputs over shared streams against the reference: random shapes, inputs, cuts, adds and drops.

`EDDYLINE_NIGHTLY=1` plays more than 10,000 (query, input) cases.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from eddyline.index.keys import sorted_runs
from eddyline.index.runtime import garbage
from eddyline.operators import matcher
from tests.oracle.join_scenarios import join_scenario, play

NIGHTLY = os.environ.get("EDDYLINE_NIGHTLY") == "1"
PARTS = 12  # of the seeds, to be played by several processes


@pytest.mark.parametrize("part", range(PARTS))
def test_joins_of_many_inputs_equal_the_reference(part: int) -> None:
    scenarios = 250 if NIGHTLY else 4
    compared = sum(play(seed) for seed in range(part * 100_000, part * 100_000 + scenarios))
    print(f"multi-way joins: {compared} cases")
    assert compared > scenarios


# Found by random play: a tuple at the clock of a registration; windows of classes of queries, where one was dropped.
@pytest.mark.parametrize("seed", [1019, 5098])
def test_scenarios_that_once_differed(seed: int) -> None:
    assert play(seed) > 0


@pytest.mark.parametrize("clock", ["min", "max"])
def test_upkeep_of_shared_streams_changes_no_answer(clock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "SPARE", 0)
    monkeypatch.setattr(sorted_runs, "PAIRS_AT_ONCE", 3)
    monkeypatch.setattr(matcher, "PAIRS_AT_ONCE", 3)
    for seed in range(100 if NIGHTLY else 6):
        play(2_000_000 + seed, clock=clock)


def test_scenarios_have_what_they_are_meant_to_have() -> None:
    """Each of these is in some of the first hundred scenarios."""
    texts = [str(e) for seed in range(100) for e in scenario_events(seed)]
    everything = "\n".join(texts)
    for part in (
        *(
            "[ROWS ",
            "[RANGE ",
            "[NOW]",
            "GROUP BY",
            "DISTINCT",
            "EXCEPT ALL",
            "UNION ALL",
            "<=>",
            "near(",
            "LIKE",
            " JOIN ",
        ),
        *(
            " AS x5",
            "k AS x",
            "o AS x",
            "m AS x",
            "e AS x",
            "None",
            "nan",
            "('drop',",
            "('drop family',",
            "('advance',",
        ),
    ):
        assert part in everything, part


def scenario_events(seed: int) -> list[object]:
    s = join_scenario(Random(f"multi join {seed}"))
    return [*s.events, *s.schema.families.values()]
