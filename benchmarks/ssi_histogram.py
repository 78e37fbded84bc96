"""Document 5, Figure 4.12: the error of histograms of stabbing counts, by their number of buckets.

    equal width     the average count over buckets of equal width
    SSI-HIST        the best pieces among those that start where clusters of the sides of stabbing groups do
    near-optimal    the best pieces among those that start at a few places, which are chosen without groups
    optimal         by dynamic programming over all steps

There, 100,000 intervals within 0 … 10,000 have midpoints of Normal(5000, 1500) and lengths of Normal(1000, 2000), and
happen to form 18 groups; SSI-HIST errs by 14.9 % with 20 buckets, where equal width errs by 70 %. Such lengths, drawn
anew if negative, form hundreds of groups: the second panel. For the first, shorter lengths than 540 become 540, which
gives 18. Intervals that reach out of the domain are drawn anew. Errors are averaged over 5,000 uniform points.

In the third, every interval is about the nearest of 18 centres and does not reach half way to the next. The optimal one
minimises the mean square of relative errors, so that another may have a slightly lower average.
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks._chart import Panel, draw
from benchmarks._report import Figure, report
from benchmarks._workloads import best
from benchmarks.yardsticks.plain_histograms import equal_width, optimal
from benchmarks.yardsticks.stabbing_histograms import ssi_histogram
from eddyline.arrays import Ints
from eddyline.index.ranges.histograms import near_optimal, stabbing_counts
from eddyline.index.ranges.stabbing import canonical

TOP, INTERVALS, POINTS = 10_000, 100_000, 5_000
BUCKETS = (20, 30, 40, 50, 60, 70)
BUILDS = {
    "equal width": equal_width,
    "SSI-HIST": ssi_histogram,
    "near-optimal": near_optimal,
    "optimal": optimal,
}
SHORTEST, CENTRES, MANY = 540, 18, 400_000


def intervals(n: int, least: float, scale: int = 1) -> tuple[Ints, Ints]:
    """Lengths below `least` become `least`, or are drawn anew if that is 0; the domain is `scale` times as fine."""
    rng = np.random.default_rng(12)
    middle, length = rng.normal(5000, 1500, 3 * n), rng.normal(1000, 2000, 3 * n)
    length = np.maximum(length, least)
    low, high = middle - length / 2, middle + length / 2
    kept = np.nonzero((length > 0) & (low >= 0) & (high <= TOP))[0][:n]
    assert len(kept) == n
    return np.rint(low[kept] * scale).astype(np.int64), np.rint(high[kept] * scale).astype(np.int64)


def apart() -> tuple[Ints, Ints]:
    """Intervals about 18 centres, in groups that do not overlap."""
    rng = np.random.default_rng(12)
    room = TOP // CENTRES
    centre = np.clip(rng.normal(5000, 1500, INTERVALS) // room, 0, CENTRES - 1).astype(np.int64) * room + room // 2
    reach = np.minimum(rng.exponential(room / 8, (2, INTERVALS)), room // 2 - 1).astype(np.int64)
    return centre - reach[0], centre + reach[1]


def errors(low: Ints, high: Ints) -> dict[str, list[float]]:
    """The average relative error of each kind of histogram, by number of buckets."""
    counts = stabbing_counts(low, high)
    points = np.random.default_rng(5).integers(counts.starts[0], counts.last + 1, POINTS)
    held = counts.at(points)
    points, held = points[held > 0], held[held > 0]
    return {
        name: [float(np.mean(np.abs(build(low, high, b).estimate(points) - held) / held)) for b in BUCKETS]
        for name, build in BUILDS.items()
    }


def seconds(name: str, n: int) -> float:
    """To build a histogram where nearly all ends are distinct."""
    low, high = intervals(n, SHORTEST, scale=1_000_000)
    return best(lambda: BUILDS[name](low, high, BUCKETS[-1]), 5)


def main() -> bool:
    panels: list[Panel] = []
    figures: list[Figure] = []
    series: dict[str, dict[str, list[float]]] = {}
    for low, high in (intervals(INTERVALS, SHORTEST), intervals(INTERVALS, 0), apart()):
        separate = len(panels) == 2
        groups = f"{len(canonical(low, high))} groups{' apart' if separate else ''}"
        found = series[groups] = errors(low, high)
        lines = {name: (list(map(float, BUCKETS)), [100 * e for e in y]) for name, y in found.items()}
        title = f"Average relative error, {groups}{'' if separate else ' (Figure 4.12)'}"
        panels.append(Panel(title, "buckets", "%", lines, "log y"))
        for i in (0, -1):
            figures += [Figure(f"{groups}, {BUCKETS[i]} buckets: {n}", 100 * y[i], "%") for n, y in found.items()]
        for name in ("SSI-HIST", "near-optimal"):
            worst = max(a / b for a, b in zip(found[name], found["optimal"], strict=True))
            figures.append(Figure(f"{groups}: error of {name}, times that of optimal, at worst", worst, "", 1.5))
    for name in ("SSI-HIST", "near-optimal"):
        once, more = seconds(name, INTERVALS), seconds(name, MANY)
        times = MANY / INTERVALS
        figures += [
            Figure(f"to build {name} of {INTERVALS:,} intervals", 1000 * once, "ms"),
            Figure(f"{name}, {times:g} times the intervals: times slower", more / once, "", 1.5 * times),
        ]
    draw("ssi-histogram", panels)
    return report("ssi-histogram", figures, {"buckets": list(BUCKETS)} | series)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
