"""Every class of query against the reference: random queries, inputs, cuts, registration and drop times, restores.

A seed names a scenario; a failing one is printed with the whole scenario, which becomes a case in `test_found.py`.
`EDDYLINE_NIGHTLY=1` runs more than 20,000 (query, input) cases.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from eddyline.index.keys import sorted_runs
from eddyline.index.runtime import garbage
from eddyline.operators import matcher
from eddyline.operators.joins import filter_first
from eddyline.session import query_names as names
from tests.oracle import queries
from tests.oracle.deep import deep_query
from tests.oracle.scenario import check, in_long_steps, scenario

NIGHTLY = os.environ.get("EDDYLINE_NIGHTLY") == "1"
SCENARIOS = 700 if NIGHTLY else 12
KINDS = [*queries.CLASSES, "deep", "mixed", "families", "clock max"]


def few_values(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*(None if v is None else v % 2 for v in row[:2]), *row[2:])


def play(kind: str, seed: int) -> int:
    rnd = Random(f"{kind}{seed}")
    make = deep_query if kind == "deep" else queries.CLASSES.get(kind, queries.query)
    texts = [] if kind == "families" else [make(rnd) for _ in range(rnd.randint(1, 2 if kind != "mixed" else 4))]
    clock = "max" if kind == "clock max" else "min"
    s = scenario(
        rnd,
        texts,
        rows=rnd.randint(3, 14 if kind != "retracting join" else 24),
        families=kind == "families",
        clock=clock,
    )
    if kind == "retracting join":
        s.events = [(*e[:2], few_values(e[2])) if e[0] == "row" else e for e in s.events]
        if rnd.random() < 0.7:
            s = in_long_steps(rnd, s)
    s.emit_all = Random(f"emit {kind}{seed}").random() < 0.3
    try:
        return check(rnd, s)
    except BaseException as e:
        e.add_note(f"kind {kind!r}, seed {seed}\n{s}")
        raise


@pytest.mark.parametrize("kind", KINDS)
def test_engine_equals_reference(kind: str) -> None:
    compared = 0

    @settings(
        max_examples=SCENARIOS,
        deadline=None,
        database=None,
        print_blob=True,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**32))
    def run(seed: int) -> None:
        nonlocal compared
        compared += play(kind, seed)

    run()
    print(f"{kind}: {compared} cases")
    assert compared >= SCENARIOS


@pytest.fixture
def tidy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clearing away, splitting into portions and letting go happen all the time instead of rarely."""
    monkeypatch.setattr(garbage, "SPARE", 0)
    monkeypatch.setattr(sorted_runs, "PAIRS_AT_ONCE", 3)
    monkeypatch.setattr(matcher, "PAIRS_AT_ONCE", 3)
    monkeypatch.setattr(names, "RECENT", 2)


@pytest.mark.parametrize("kind", KINDS)
def test_upkeep_changes_no_answer(kind: str, tidy: None) -> None:
    for seed in range(60 if NIGHTLY else 5):
        play(kind, 1_000_000 + seed)


@pytest.mark.parametrize("kind", ["join", "mixed", "families"])
def test_tuples_may_visit_filters_and_modules_in_any_order(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = Random(f"routes {kind}")
    monkeypatch.setattr(filter_first.FirstFilter, "first", lambda self: rnd.choice(["filter", "stem"]))
    for seed in range(120 if NIGHTLY else 15):
        play(kind, 2_000_000 + seed)


@pytest.mark.parametrize("kind", ["filter", "join", "group by", "count window"])
def test_long_inputs_equal_the_reference(kind: str) -> None:
    """Longer inputs than the random scenarios: segments merge, groups come and go, history is let go."""
    rnd = Random(f"long {kind}")
    s = scenario(rnd, [queries.CLASSES[kind](rnd) for _ in range(2)], rows=80)
    check(rnd, s, cuts=1, snapshots=0.02)
