"""Costs of join strategies: measured once per machine and kept, defaults meanwhile, and the cheapest is chosen."""

from __future__ import annotations

import fcntl
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eddyline.index.ranges.range_search import STRATEGIES
from eddyline.index.runtime.kernel_cache import digest
from eddyline.routing import calibration
from eddyline.routing.join_costs import Expected, JoinCosts, Kind, Shape, default_costs, terms

KINDS: tuple[Kind, ...] = ("ranges", "windows", "boxes")
_CHECK = {"check": 15.0, "check search": 4.0}
_PLAIN = {
    "ssi": {"tuple": 300.0, "pass": 0.4, "group": 30.0, "group search": 4.0},
    "hotspot": {"tuple": 300.0, "pass": 0.4, "group": 30.0, "group search": 4.0, **_CHECK},
    "select_first": {"tuple": 300.0, "pass": 0.4, **_CHECK},
    "join_first": {"tuple": 300.0, "pass": 0.4, "partner": 200.0, "partner pass": 0.6},
    "merge": {"tuple": 300.0, "pass": 0.4, "partner": 2.0, "number": 4.0},
    "vanilla": {"tuple": 300.0, "pass": 0.4, "number": 3.0, **_CHECK},
}
PLAIN = JoinCosts(_PLAIN, _PLAIN)  # round numbers, of no machine
DOUBLED = {
    kind: JoinCosts(*({s: {t: 2 * w for t, w in ws.items()} for s, ws in c.items()} for c in (costs.few, costs.many)))
    for kind, costs in default_costs().items()
}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Measuring that takes no time, in a home of its own; what was measured, and begun in the background."""
    done: list[str] = []

    def fit(kind: Kind) -> JoinCosts:
        done.append(kind)
        return DOUBLED[kind]

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(calibration, "fit", fit)
    monkeypatch.setattr(calibration, "_measured", {})
    monkeypatch.setattr(calibration, "_measure_in_background", lambda: done.append("background"))
    return done


def kept() -> Path:
    file = calibration.costs_file()
    assert file is not None
    return file


def test_costs_are_measured_once_and_kept(quick: list[str]) -> None:
    assert calibration.calibrate() and calibration.calibrate()
    assert quick == [*KINDS]
    assert digest() in kept().name and json.loads(kept().read_text()) == {k: asdict(c) for k, c in DOUBLED.items()}
    assert {kind: calibration.join_costs(kind) for kind in KINDS} == DOUBLED


def test_until_costs_are_measured_the_default_ones_serve_and_nothing_waits(quick: list[str]) -> None:
    assert calibration.join_costs("boxes") == default_costs()["boxes"]
    assert quick == ["background"]
    calibration.calibrate()
    assert calibration.join_costs("boxes") == DOUBLED["boxes"], "what was measured meanwhile is used"


@pytest.mark.parametrize(
    "damaged", ["", "{", "{}", "[]", '{"ranges": {"few": {}, "many": {}}}', '{"ranges": {"few": {"ssi": 1}}}']
)
def test_costs_in_a_damaged_file_are_measured_again(damaged: str, quick: list[str]) -> None:
    calibration.calibrate()
    kept().write_text(damaged)
    assert calibration.join_costs("ranges") == default_costs()["ranges"]
    calibration.calibrate()
    assert calibration.join_costs("ranges") == DOUBLED["ranges"]


def test_where_nothing_can_be_kept_nothing_is_measured(
    quick: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert calibration.calibrate() and quick == []
    assert calibration.join_costs("ranges") == default_costs()["ranges"]


def test_one_process_measures_at_a_time(quick: list[str]) -> None:
    kept().parent.mkdir(parents=True)
    with (kept().parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not calibration.calibrate() and quick == []
    assert calibration.calibrate() and quick == [*KINDS]


def test_a_process_in_the_background_measures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun: list[Any] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(calibration, "_measured", {})
    monkeypatch.setattr(calibration.subprocess, "run", lambda command, **_: begun.append(command))
    calibration._measure_in_background.cache_clear()
    for kind in KINDS:
        calibration.join_costs(kind)
    assert [command[1:] for command in begun] == [["-m", "eddyline.routing.calibration"]]


@pytest.mark.parametrize("kind", KINDS)
def test_the_default_costs_have_a_weight_for_every_term(kind: Kind) -> None:
    shape, expected = Shape(1, 1, 1, 1, 1, 1, 1.0, kind), Expected(*np.ones((3, 1)))
    for weights in (default_costs()[kind].few, default_costs()[kind].many):
        assert {s: set(w) for s, w in weights.items()} == {s: set(terms(s, shape, expected)) for s in STRATEGIES}


@pytest.mark.parametrize("kind", KINDS)
def test_fitting_gives_every_strategy_weights_that_are_not_negative(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "_SIZES", {"few": (500,), "many": (2_000,)})
    costs = calibration.fit(kind)
    for found in (costs.few, costs.many):
        assert set(found) == set(STRATEGIES)
        assert all(w >= 0 for weights in found.values() for w in weights.values())
        assert all(sum(weights.values()) > 0 for weights in found.values())


def test_the_cheapest_strategy_is_chosen_for_every_tuple() -> None:
    shape = Shape(100_000, 1_600, groups=3_000, hot_groups=20, hot_words=400, attributes=1, covered=0.1, kind="ranges")
    expected = Expected(
        np.array([1.0, 500.0, 500.0]), np.array([50_000.0, 10.0, 50_000.0]), np.array([5_000.0, 5.0, 40.0])
    )
    how, nanoseconds = PLAIN.choose(shape, expected)
    costs = {s: PLAIN.of(s, shape, expected) for s in STRATEGIES}
    for i, code in enumerate(how):
        cheapest = min(costs, key=lambda s: costs[s][i])
        assert STRATEGIES[code] == cheapest and nanoseconds[i] == costs[cheapest][i], f"tuple {i}"
    assert [STRATEGIES[c] for c in how] == ["join_first", "select_first", "hotspot"]


@pytest.mark.parametrize(("many", "chosen"), [(3, {"hotspot"}), (2_000, {"hotspot", "ssi"})])
def test_a_batch_begins_with_another_strategy_only_if_it_pays(many: int, chosen: set[str]) -> None:
    """Some tuples are better off by SSI; a few are not worth looking at ten thousand groups for the first time."""
    shape = Shape(
        1_000_000, 15_000, groups=10_000, hot_groups=40, hot_words=800, attributes=1, covered=0.1, kind="ranges"
    )
    scattered = np.repeat([10.0, 40_000.0], [10_000, many])
    expected = Expected(np.full(len(scattered), 1_000.0), scattered + 5_000.0, scattered)
    better = PLAIN.of("ssi", shape, expected) < PLAIN.of("hotspot", shape, expected)
    assert better.sum() == many
    assert {STRATEGIES[c] for c in PLAIN.choose(shape, expected)[0]} == chosen
    alone = Expected(expected.partners[-1:], expected.accepting[-1:], expected.scattered[-1:])
    assert STRATEGIES[PLAIN.choose(shape, alone)[0][0]] == "ssi"
