"""Figures 12 to 20 and Table II of document 4: a strategy for every tuple against one for all, and against the best.

Dynamic is what the engine chooses, Optimum what it should have chosen, known only afterwards. Queries are half in 40
hotspots and half scattered; keys of S are normal: tuples have from none to many partners. Every tuple is timed with
every strategy on its own, less what a call takes; Dynamic chooses for it alone, and is charged what a choice takes in a
batch. All tuples are also processed as one batch. Table II is fitted anew, with intervals that hold 95 % of the fits to
samples of what was measured, drawn with replacement.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks._chart import Panel, draw
from benchmarks._join_workloads import KEYS, SPACE, Queries, ranges, rows_of_s
from benchmarks._report import Figure, report
from benchmarks._strategies import Setting, select_setting
from benchmarks._workloads import best
from eddyline.arrays import Bytes, Ints
from eddyline.index.keys.sorted_runs import equal_ranges
from eddyline.index.ranges.probes import Arrivals, Axes, Partners, Probes
from eddyline.index.ranges.range_search import STRATEGIES
from eddyline.operators.joins.range_choice import Estimates
from eddyline.routing import calibration
from eddyline.routing.join_costs import MANY, default_costs

TUPLES = 150
REPEATS = 5
POINTS = 40
SAMPLES = 400


def queries(rng: np.random.Generator, n: int, hot: float = 0.5, accepted: float = 0.005) -> Queries:
    """R.A is asked for around the middle of its space: tuples are accepted by very few queries or by many."""
    many = round(n * hot)
    point = rng.integers(0, POINTS, many) * (SPACE / 2 / POINTS) + SPACE / 4 / POINTS
    low, high = ranges(rng.normal(point, 300), np.abs(rng.normal(5_000, 1_000, many)))
    few_low, few_high = ranges(rng.uniform(SPACE / 2, SPACE, n - many), rng.normal(60, 15, n - many))
    own_low, own_high = ranges(
        rng.normal(SPACE / 2, SPACE / 8, n), np.abs(rng.normal(accepted, accepted / 4, n)) * SPACE
    )
    mixed = rng.permutation(n)
    return Queries(np.append(low, few_low)[mixed], np.append(high, few_high)[mixed], own_low, own_high)


@dataclass(frozen=True)
class Outcome:
    """Seconds a tuple, by strategy; those of Dynamic and Optimum; what Dynamic chose, and how often that was best."""

    static: dict[str, float]
    dynamic: float
    optimum: float
    chosen: dict[str, float]
    best_chosen: float
    batched: dict[str, float]  # seconds a tuple, all together


def outcome(setting: Setting, wanted: Ints, own: Ints) -> Outcome:
    nothing = np.zeros(len(wanted), np.int64)
    taken = np.array([_times(setting, s, wanted, own) for s in STRATEGIES])
    estimates = Estimates(setting.groups)
    low, high = equal_ranges(setting.keys, wanted)
    partners = Partners.of([setting.segment], low[None, :], high[None, :])
    arrivals = Arrivals(nothing[None, :], nothing, nothing, nothing, np.stack([own, ~own]))
    probes = Probes(Axes(np.zeros(1, np.uint8), np.ones(1, np.int64)), arrivals, partners)
    strategies, _ = estimates.choose(probes)
    deciding = best(lambda: estimates.choose(probes), REPEATS) / len(wanted)
    alone = np.concatenate([estimates.choose(probes.slice(i, i + 1))[0] for i in range(len(wanted))])
    mine = taken[alone, np.arange(len(alone))]
    shares = np.bincount(alone, minlength=len(STRATEGIES)) / len(alone)
    return Outcome(
        dict(zip(STRATEGIES, taken.mean(axis=1).tolist(), strict=True)),
        float(mine.mean()) + deciding,
        float(taken.min(axis=0).mean()),
        dict(zip(STRATEGIES, shares.tolist(), strict=True)),
        float((alone == taken.argmin(axis=0)).mean()),
        _together(setting, strategies, deciding, wanted, own),
    )


def _together(setting: Setting, strategies: Bytes, deciding: float, wanted: Ints, own: Ints) -> dict[str, float]:
    nothing = np.zeros(len(wanted), np.int64)
    ways = {s: np.full(len(strategies), code, np.uint8) for code, s in enumerate(STRATEGIES)}
    ways |= {"Dynamic": strategies}
    rounds = [
        {s: best(lambda h=h: setting.count(wanted, nothing, own, h), 1) / len(wanted) for s, h in ways.items()}
        for _ in range(REPEATS)
    ]
    found = {s: min(r[s] for r in rounds) for s in ways}
    return found | {"Dynamic": found["Dynamic"] + deciding}


def _times(setting: Setting, strategy: str, wanted: Ints, own: Ints) -> np.ndarray:
    """Seconds of every tuple on its own, the best of some tries, less those of a call that finds nothing."""
    strategies, nothing = np.full(1, STRATEGIES.index(strategy), np.uint8), np.zeros(1, np.int64)
    nobody = np.full(1, -1, np.int64)

    def once(key: Ints, a: Ints) -> float:
        begun = time.perf_counter()
        setting.count(key, nothing, a, strategies)
        return time.perf_counter() - begun

    once(wanted[:1], own[:1])
    call = min(once(nobody, own[:1]) for _ in range(50))
    # one after another, so that no tuple finds what it needs in the caches from its last time
    rounds = [[once(wanted[i : i + 1], own[i : i + 1]) for i in range(len(wanted))] for _ in range(REPEATS)]
    return np.maximum(np.min(rounds, axis=0) - call, 1e-7)


def tuples(rng: np.random.Generator, near: float = KEYS / 5, accepted: float = SPACE / 5) -> tuple[Ints, Ints]:
    """Keys and attributes of tuples, around the middle of their spaces."""
    wanted = np.clip(np.round(rng.normal(KEYS / 2, near, TUPLES)), 0, KEYS).astype(np.int64)
    return wanted, np.clip(rng.normal(SPACE / 2, accepted, TUPLES), 0, SPACE).astype(np.int64)


def main() -> bool:
    rng = np.random.default_rng(12)
    results: dict[str, list[tuple[float, Outcome]]] = {"12": [], "15": [], "18": []}
    for n in range(100_000, 600_000, 100_000):
        setting = select_setting(queries(rng, n), *rows_of_s(rng, n))
        results["12"].append((n, outcome(setting, *tuples(rng))))
    large = select_setting(queries(rng, 500_000), *rows_of_s(rng, 500_000))
    for near in (4_000, 2_000, 1_000, 500, 100):
        wanted, own = tuples(rng, near=near)
        low, high = equal_ranges(large.keys, wanted)
        results["15"].append((float((high - low).mean()), outcome(large, wanted, own)))
    for spread in (4.0, 2.0, 1.0, 0.4, 0.1):
        wanted, own = tuples(rng, accepted=spread * SPACE / 5)
        q = large.queries
        share = np.mean([((q.own_low <= a) & (a <= q.own_high)).mean() for a in own[:50]])
        results["18"].append((float(share) * 100, outcome(large, wanted, own)))
    names = {"12": "queries, and rows of S", "15": "partners a tuple has", "18": "% of queries that accept a tuple"}
    panels = []
    for figure, found in results.items():
        x = [a for a, _ in found]
        lines = {s: (x, [1 / o.static[s] for _, o in found]) for s in STRATEGIES}
        lines |= {"Dynamic": (x, [1 / o.dynamic for _, o in found]), "Optimum": (x, [1 / o.optimum for _, o in found])}
        panels.append(Panel(f"{figure}: throughput", names[figure], "tuples/s", lines, "log"))
        chosen = {s: (x, [o.chosen[s] for _, o in found]) for s in STRATEGIES}
        chosen |= {"the best was chosen": (x, [o.best_chosen for _, o in found])}
        nexts = f"{int(figure) + 1}, {int(figure) + 2}"
        panels.append(Panel(f"{nexts}: what Dynamic chose", names[figure], "share", chosen, "log x"))
    draw("ssi-choice", panels)
    all_found = [o for found in results.values() for _, o in found]
    figures = [
        *(
            Figure(f"{figure}, {x:,.4g}: Dynamic", 1 / o.dynamic, "tuples/s")
            for figure, found in results.items()
            for x, o in found
        ),
        Figure("Dynamic, times Optimum, at its worst", min(o.optimum / o.dynamic for o in all_found), "", least=0.85),
        Figure(
            "Dynamic, times the best static strategy, at its worst",
            min(min(o.static.values()) / o.dynamic for o in all_found), "", least=0.95,
        ),
        Figure("Dynamic, times the best static strategy, at its best",
               max(min(o.static.values()) / o.dynamic for o in all_found), ""),
        Figure(
            "Dynamic, times the best static strategy, in batches, at its worst",
            min(min(o.batched[s] for s in STRATEGIES) / o.batched["Dynamic"] for o in all_found), "",
        ),
        *(Figure(f"Table II, {n}", w, f"ns, {low:,.3g} to {high:,.3g}") for n, (w, low, high) in fitted().items()),
    ]  # fmt: skip
    series = {figure: [(x, asdict(o)) for x, o in found] for figure, found in results.items()}
    return report("ssi-choice", figures, series)


def fitted() -> dict[str, tuple[float, float, float]]:
    """The weights of the terms of the cost formulas, and the ends of their intervals."""
    found, rng = {}, np.random.default_rng(2)
    measured = calibration.measure("ranges", (MANY,))
    for strategy in STRATEGIES:
        of, names = measured[strategy], list(default_costs()["ranges"].many[strategy])
        samples = [
            calibration.weights(names, [of[i] for i in rng.integers(0, len(of), len(of))]) for _ in range(SAMPLES)
        ]
        for term, weight in calibration.weights(names, of).items():
            low, high = np.quantile([s.get(term, 0.0) for s in samples], (0.025, 0.975))
            found[f"{strategy}: {term}"] = weight, float(low), float(high)
    return found


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
