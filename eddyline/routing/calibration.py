"""Fits the costs of join strategies to this machine: some seconds of measuring, when first needed, kept in a file.

Every strategy is timed on made-up queries and rows of several shapes; the weights of its terms are the least squares of
the relative errors, none below zero. Costs decide which strategy is taken, never what it finds.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eddyline.index.axes import Arrivals, Axes, Doubts, Partners
from eddyline.index.kernel_cache import cache_folder, digest
from eddyline.index.range_groups import RangeGroups, range_groups
from eddyline.index.range_search import STRATEGIES, affected
from eddyline.index.skylines import linked
from eddyline.routing.join_costs import FEW, MANY, UNFITTED, Expected, JoinCosts, Kind, Shape, terms

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

WORTH_FITTING = 10_000  # queries; below, every strategy is fast
TUPLES, REPEATS, POINTS = 8, 3, 40
_SIZES = {"few": (1_000, FEW), "many": (MANY,)}  # of queries that are measured
SPACE = 1 << 30


@cache
def join_costs(kind: Kind) -> JoinCosts:
    """Those kept in a file of this machine, fitted now if there is none."""
    home = cache_folder()
    path = None if home is None else home / "join-costs" / f"{platform.node()}-{digest()}-{kind}.json"
    found = None if path is None else _kept(path, kind)
    if found is None:
        found = fit(kind)
        if path is not None:
            _keep(path, found)
    return found


def _kept(path: Path, kind: Kind) -> JoinCosts | None:
    """None if there are none that can be read, or of other terms."""
    try:
        said = json.loads(path.read_text())
        few, many = ({s: {t: float(said[z][s][t]) for t in w} for s, w in UNFITTED[kind].items()} for z in _SIZES)
        return JoinCosts(few, many)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _keep(path: Path, costs: JoinCosts) -> None:
    """Where there is no place for it, it is fitted again by the next process."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mine = path.with_suffix(f".{os.getpid()}")
        mine.write_text(json.dumps(asdict(costs), indent=1))
        mine.replace(path)
    except OSError:
        pass


Measured = tuple[dict[str, Doubles | float], float]  # the terms of an average tuple, and its nanoseconds


def fit(kind: Kind) -> JoinCosts:
    """Measures, and fits."""
    names = {s: list(w) for s, w in UNFITTED[kind].items()}
    few, many = (
        {s: weights(names[s], found) for s, found in measure(kind, sizes).items()} for sizes in _SIZES.values()
    )
    return JoinCosts(few, many)


def measure(kind: Kind, sizes: Sequence[int]) -> dict[str, list[Measured]]:
    """What average tuples take with each strategy, over so many queries, and rows, of several shapes."""
    measured: dict[str, list[Measured]] = {s: [] for s in STRATEGIES}
    for seed, (numbers, width, accepted) in enumerate(product(sizes, (0.3, 0.01, 0.0005), (0.002, 0.03))):
        rng = np.random.default_rng(seed)
        groups, own = _queries(rng, numbers, width, accepted, kind)
        for partners in (2, 40, 600):
            for strategy, found in _timed(rng, groups, own, partners).items():
                measured[strategy].append(found)
    return measured


def _queries(
    rng: np.random.Generator, numbers: int, width: float, accepted: float, kind: Kind
) -> tuple[RangeGroups, tuple[Ints, Ints]]:
    """Numbers with ranges so wide, half of them about a few points, and with ranges of their own attribute that accept
    a tuple with this share; these too."""
    low = rng.integers(0, SPACE, (1, numbers))
    low[:, ::2] = low[:, :POINTS].ravel()[rng.integers(0, POINTS, len(low[0, ::2]))]
    high = low + (width * SPACE * rng.uniform(0.5, 1.5, (1, numbers))).astype(np.int64)
    if kind != "ranges":
        length = rng.integers(0, SPACE, (1, numbers))
        first = -length if kind == "windows" else rng.integers(0, SPACE, (1, numbers))
        low, high = np.vstack([low, first]), np.vstack([high, first + length * (2 if kind == "windows" else 1)])
    own_low = rng.integers(0, SPACE, numbers)
    own = own_low, own_low + int(accepted * SPACE)
    return range_groups(np.arange(numbers), low, high, [own]), own


def _timed(rng: np.random.Generator, groups: RangeGroups, own: tuple[Ints, Ints], partners: int) -> dict[str, Measured]:
    """By strategy, what an average tuple with so many partners takes."""
    shape = Shape.of(groups)
    places, ts = np.sort(rng.integers(0, SPACE, partners)), rng.integers(0, SPACE, partners)
    columns = [ts, ts + SPACE, np.zeros(partners, np.int64), places]
    segment = np.stack(columns if shape.kind == "ranges" else [*columns, ts])
    segment = linked(segment) if shape.kind == "windows" else segment
    none, nobody, axes = np.zeros(TUPLES, np.int64), np.empty(0, np.uint64), len(groups.low)
    now, shift = none + SPACE, np.zeros((axes, TUPLES), np.int64)
    shift[1:] = SPACE if shape.kind == "windows" else 0
    where = Partners.of([segment], none[None, :], none[None, :] + partners, axes)
    placed = Axes(np.zeros(axes, np.uint8), np.ones(axes, np.int64))
    doubts = Doubts(nobody, nobody, np.zeros(0, np.int64))
    attributes = rng.integers(0, SPACE, (REPEATS, TUPLES))  # other tuples each time: the caches know the last ones
    arrivals = [Arrivals(shift, now, now + SPACE, none, np.stack([a, ~a])) for a in attributes]
    accepting = ((own[0][:, None] <= attributes.ravel()) & (attributes.ravel() <= own[1][:, None])).sum(axis=0)
    scattered = 1.0 - groups.sizes[: groups.hot].sum() / len(groups)
    average = np.array([float(accepting.mean())])
    expected = Expected(np.array([float(partners)]), average, average * scattered)
    found = {}
    for code, strategy in enumerate(STRATEGIES):
        how = np.full(TUPLES, code, np.uint8)
        best = np.inf
        for some in arrivals:  # the first compiles, or loads what was compiled, and makes what the strategy needs
            begun = time.perf_counter_ns()
            affected(groups, placed, some, where, doubts, how, listing=False)
            best = min(best, time.perf_counter_ns() - begun)
        found[strategy] = (terms(strategy, shape, expected), best / TUPLES)
    return found


def weights(names: Sequence[str], measured: Sequence[Measured]) -> dict[str, float]:
    """Of terms, by least squares of relative errors; 0 where a weight would be negative."""
    times = np.array([t for _, t in measured])
    counts = np.array([[float(np.mean(terms_of[n])) for n in names] for terms_of, _ in measured]) / times[:, None]
    kept = list(range(len(names)))
    while True:
        found = np.linalg.lstsq(counts[:, kept], np.ones(len(times)), rcond=None)[0]
        if (found >= 0).all() or len(kept) == 1:
            return dict.fromkeys(names, 0.0) | {names[k]: max(float(w), 0.0) for k, w in zip(kept, found, strict=True)}
        kept.pop(int(found.argmin()))
