"""Measures the costs of join strategies on this machine, once, in the background or by `eddyline doctor --warm`.

Every strategy is timed on generated queries and rows of several shapes. The weights of its terms minimise the squared
relative errors; none is below zero. Measuring takes some seconds, in one separate process. Until it has finished,
the default costs of another machine apply. Costs decide which strategy is used, never its result.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from eddyline.arrays import Doubles, Ints
from eddyline.index.ranges.probes import Arrivals, Axes, Partners, Probes, Visibility
from eddyline.index.ranges.range_groups import RangeGroups, range_groups
from eddyline.index.ranges.range_search import STRATEGIES, affected
from eddyline.index.ranges.skylines import linked
from eddyline.index.runtime.kernel_cache import cache_folder, digest
from eddyline.routing.join_costs import FEW, MANY, Expected, JoinCosts, Kind, Shape, default_costs, read_costs, terms

WORTH_MEASURING = 10_000  # queries; with fewer, every strategy is fast
TUPLES, REPEATS, POINTS = 8, 3, 40
_SIZES = {"few": (1_000, FEW), "many": (MANY,)}  # numbers of queries to measure with
SPACE = 1 << 30

_measured: dict[Kind, JoinCosts] = {}  # cache of this machine's file


def join_costs(kind: Kind) -> JoinCosts:
    """The costs of this machine. If they are unknown, starts to measure them and returns the default costs."""
    if not _measured:
        _measured.update(_read_file())
    if not _measured:
        _measure_in_background()
    return (_measured or default_costs())[kind]


def costs_file() -> Path | None:
    """The file with the costs of this machine; None if there is no cache folder."""
    home = cache_folder()
    return None if home is None else home / "join-costs" / f"{platform.node()}-{digest()}.json"


def calibrate() -> bool:
    """Measures and stores the costs of this machine unless they are stored; False if another process is measuring."""
    file = costs_file()
    if file is None or _read_file():
        return True
    file.parent.mkdir(parents=True, exist_ok=True)
    with (file.parent / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        costs = {kind: asdict(fit(kind)) for kind in default_costs()}
        temporary = file.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(costs, indent=1))
        temporary.replace(file)
    return True


def _read_file() -> dict[Kind, JoinCosts]:
    """The stored costs of this machine; empty if they are missing, unreadable, or have other terms."""
    file = costs_file()
    with suppress(OSError, ValueError, KeyError, TypeError):
        if file is not None:
            return read_costs(file.read_text())
    return {}


@cache
def _measure_in_background() -> None:
    """Starts a process that measures, at most one per process; none if there is no file to store the costs in."""
    if costs_file() is None:
        return
    run = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    threading.Thread(
        target=subprocess.run,
        args=([sys.executable, "-m", "eddyline.routing.calibration"],),
        kwargs={**run, "env": environ, "start_new_session": True},
        daemon=True,
    ).start()


Measured = tuple[dict[str, Doubles | float], float]  # the terms of an average tuple, and its nanoseconds


def fit(kind: Kind) -> JoinCosts:
    """Measures the strategies and fits the weights of their terms."""
    names = {s: list(w) for s, w in default_costs()[kind].few.items()}
    few, many = (
        {s: weights(names[s], times) for s, times in measure(kind, sizes).items()} for sizes in _SIZES.values()
    )
    return JoinCosts(few, many)


def measure(kind: Kind, sizes: Sequence[int]) -> dict[str, list[Measured]]:
    """The time of an average tuple per strategy, for these numbers of queries and for several shapes of rows."""
    measured: dict[str, list[Measured]] = {s: [] for s in STRATEGIES}
    for seed, (queries, width, accepted) in enumerate(product(sizes, (0.3, 0.01, 0.0005), (0.002, 0.03))):
        rng = np.random.default_rng(seed)
        groups, own = _queries(rng, queries, width, accepted, kind)
        for partners in (2, 40, 600):
            for strategy, one in _timed(rng, groups, own, partners).items():
                measured[strategy].append(one)
    return measured


def _queries(
    rng: np.random.Generator, queries: int, width: float, accepted: float, kind: Kind
) -> tuple[RangeGroups, tuple[Ints, Ints]]:
    """Query ranges of this width, half of them around a few points, and the ranges of their own attribute, which accept
    this share of tuples."""
    low = rng.integers(0, SPACE, (1, queries))
    low[:, ::2] = low[:, :POINTS].ravel()[rng.integers(0, POINTS, len(low[0, ::2]))]
    high = low + (width * SPACE * rng.uniform(0.5, 1.5, (1, queries))).astype(np.int64)
    if kind != "ranges":
        length = rng.integers(0, SPACE, (1, queries))
        first = -length if kind == "windows" else rng.integers(0, SPACE, (1, queries))
        low, high = np.vstack([low, first]), np.vstack([high, first + length * (2 if kind == "windows" else 1)])
    own_low = rng.integers(0, SPACE, queries)
    own = own_low, own_low + int(accepted * SPACE)
    return range_groups(np.arange(queries), low, high, [own]), own


def _timed(rng: np.random.Generator, groups: RangeGroups, own: tuple[Ints, Ints], partners: int) -> dict[str, Measured]:
    """The terms and the time of an average tuple with this number of partners, by strategy."""
    shape = Shape.of(groups)
    places, ts = np.sort(rng.integers(0, SPACE, partners)), rng.integers(0, SPACE, partners)
    columns = [ts, ts + SPACE, np.zeros(partners, np.int64), places]
    segment = np.stack(columns if shape.kind == "ranges" else [*columns, ts])
    segment = linked(segment) if shape.kind == "windows" else segment
    none, nobody, axes = np.zeros(TUPLES, np.int64), np.empty(0, np.uint64), len(groups.columns.ranges.low)
    now, shift = none + SPACE, np.zeros((axes, TUPLES), np.int64)
    shift[1:] = SPACE if shape.kind == "windows" else 0
    where = Partners.of([segment], none[None, :], none[None, :] + partners, axes)
    placed = Axes(np.zeros(axes, np.uint8), np.ones(axes, np.int64))
    visibility = Visibility(nobody, nobody, np.zeros(0, np.int64))
    attributes = rng.integers(0, SPACE, (REPEATS, TUPLES))  # other tuples each time: the last ones are in CPU caches
    batches = [Probes(placed, Arrivals(shift, now, now + SPACE, none, np.stack([a, ~a])), where) for a in attributes]
    accepting = ((own[0][:, None] <= attributes.ravel()) & (attributes.ravel() <= own[1][:, None])).sum(axis=0)
    scattered = 1.0 - groups.columns.stabbing.sizes[: groups.columns.hot].sum() / len(groups)
    average = np.array([float(accepting.mean())])
    expected = Expected(np.array([float(partners)]), average, average * scattered)
    measured = {}
    for code, strategy in enumerate(STRATEGIES):
        strategies = np.full(TUPLES, code, np.uint8)
        best = np.inf
        for probes in batches:  # the first run compiles or loads kernels and builds what the strategy needs
            begun = time.thread_time_ns()
            affected(groups, probes, visibility, strategies, listing=False)
            best = min(best, time.thread_time_ns() - begun)
        measured[strategy] = (terms(strategy, shape, expected), best / TUPLES)
    return measured


def weights(names: Sequence[str], measured: Sequence[Measured]) -> dict[str, float]:
    """The weights of terms, by least squares of relative errors; 0 where a weight would be negative."""
    times = np.array([t for _, t in measured])
    counts = np.array([[float(np.mean(terms_of[n])) for n in names] for terms_of, _ in measured]) / times[:, None]
    kept = list(range(len(names)))
    while True:
        fitted = np.linalg.lstsq(counts[:, kept], np.ones(len(times)), rcond=None)[0]
        if (fitted >= 0).all() or len(kept) == 1:
            return dict.fromkeys(names, 0.0) | {names[k]: max(float(w), 0.0) for k, w in zip(kept, fitted, strict=True)}
        kept.pop(int(fitted.argmin()))


if __name__ == "__main__":
    os.nice(19)  # work that somebody waits for has priority
    calibrate()
