"""Costs of join strategies: fitted once, kept in a file, and the cheapest is chosen for every tuple."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from eddyline.index.kernel_cache import digest
from eddyline.index.range_search import STRATEGIES
from eddyline.routing import calibration
from eddyline.routing.join_costs import UNFITTED, Expected, JoinCosts, Kind, Shape, unfitted

PLAIN = unfitted("ranges")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """A fit that takes no time, in a home of its own; how often it was made."""
    made: list[int] = []

    def fit(kind: Kind) -> JoinCosts:
        made.append(1)
        return unfitted(kind)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(calibration, "fit", fit)
    calibration.join_costs.cache_clear()
    yield made  # type: ignore[misc]
    calibration.join_costs.cache_clear()


def kept(home: Path) -> Path:
    (found,) = (home / "eddyline" / "join-costs").iterdir()
    return found


def test_costs_are_fitted_once_and_kept(quick: list[int], tmp_path: Path) -> None:
    assert calibration.join_costs("ranges") == PLAIN and len(quick) == 1
    assert digest() in kept(tmp_path).name and json.loads(kept(tmp_path).read_text()) == asdict(PLAIN)
    calibration.join_costs.cache_clear()
    assert calibration.join_costs("ranges") == PLAIN and len(quick) == 1


@pytest.mark.parametrize("damaged", ["", "{", "{}", "[]", '{"few": {}, "many": {}}', '{"few": {"ssi": 1}}'])
def test_costs_in_a_damaged_file_are_fitted_anew(damaged: str, quick: list[int], tmp_path: Path) -> None:
    calibration.join_costs("ranges")
    kept(tmp_path).write_text(damaged)
    calibration.join_costs.cache_clear()
    assert calibration.join_costs("ranges") == PLAIN and len(quick) == 2


def test_without_a_place_to_keep_them_costs_are_fitted_all_the_same(
    quick: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert calibration.join_costs("ranges") == PLAIN and len(quick) == 1


def test_costs_of_each_kind_are_kept_apart(quick: list[int]) -> None:
    kinds: list[Kind] = ["ranges", "windows", "boxes"]
    wanted = {k: unfitted(k) for k in kinds}
    assert {k: calibration.join_costs(k) for k in kinds} == wanted and len(quick) == 3
    calibration.join_costs.cache_clear()
    assert {k: calibration.join_costs(k) for k in reversed(kinds)} == {k: unfitted(k) for k in kinds} and len(
        quick
    ) == 3


@pytest.mark.parametrize("kind", UNFITTED)
def test_fitting_gives_every_strategy_weights_that_are_not_negative(kind: Kind) -> None:
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
