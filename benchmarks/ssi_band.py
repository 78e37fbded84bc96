"""Figure 10 of document 4: band joins over the number of queries and of stabbing groups. One tuple at a time.

QOuter is `vanilla` here (every query searches S), DOuter `join_first` (every row of S is looked up among the ranges).
"""

from __future__ import annotations

import numpy as np

from benchmarks._chart import Panel, draw
from benchmarks._join_workloads import KEYS, band_joins, rows_of_s
from benchmarks._report import Figure, report
from benchmarks._strategies import Setting, band_setting

NAMES = {"ssi": "SSI", "hotspot": "Hotspot", "vanilla": "QOuter", "join_first": "DOuter", "merge": "merge"}
ROWS = 100_000
TUPLES = 20_000


def rates(rng: np.random.Generator, found: Setting, shown: tuple[str, ...]) -> dict[str, float]:
    wanted, shift = np.zeros(TUPLES, np.int64), rng.integers(0, KEYS + 1, TUPLES)
    rates = {NAMES[s]: found.rate(s, wanted, shift, wanted) for s in shown}
    return rates | {f"{NAMES[s]}, batched": found.batched(s, wanted, shift, wanted) for s in ("ssi", "merge")}


def main() -> bool:
    rng = np.random.default_rng(5)
    b, _ = rows_of_s(rng, ROWS)
    sizes = [50, 500, 5_000, 50_000, 100_000, 500_000]
    groups_of, by_size = [], []
    for n in sizes:
        found = band_setting(band_joins(rng, n, length=700, spread=80), b)
        groups_of.append(len(found.groups.columns.stabbing.points))
        by_size.append(rates(rng, found, tuple(NAMES)))
    groups, by_groups = [], []
    for length in (900, 300, 90, 30, 10, 3):
        found = band_setting(band_joins(rng, 100_000, length=length, spread=length / 9), b)
        groups.append(len(found.groups.columns.stabbing.points))
        by_groups.append(rates(rng, found, ("ssi", "hotspot", "merge", "join_first")))

    def lines(x: list[int], found: list[dict[str, float]]) -> dict[str, tuple[list[int], list[float]]]:
        return {s: (x, [f[s] for f in found]) for s in found[0]}

    draw(
        "ssi-band",
        [
            Panel("10a: over queries", "queries", "tuples/s", lines(sizes, by_size), "log"),
            Panel("10b: over stabbing groups, 100,000 queries", "groups", "tuples/s", lines(groups, by_groups), "log"),
        ],
    )
    at = by_size[sizes.index(100_000)]
    best_other = max(at[n] for n in ("QOuter", "DOuter", "merge", "merge, batched"))
    many = len(groups) - 1
    figures = [
        Figure("100,000 queries: SSI, one tuple at a time", at["SSI"], "tuples/s"),
        Figure("100,000 queries: SSI, batched", at["SSI, batched"], "tuples/s"),
        Figure("100,000 queries: SSI, batched, times the best of QOuter, DOuter and merge",
               at["SSI, batched"] / best_other, "", least=100),
        Figure("SSI, one at a time: its rate at 500,000 queries, share of that at 50",
               by_size[-1]["SSI"] / by_size[0]["SSI"], "", least=1 / 3),
        Figure("stabbing groups at 50 and at 500,000 queries", groups_of[0] + groups_of[-1] / 1000, ""),
        Figure(f"{groups[many]:,} groups: SSI, times the best other",
               by_groups[many]["SSI"] / max(by_groups[many][n] for n in ("DOuter", "merge")), "", least=1),
    ]  # fmt: skip
    return report("ssi-band", figures, {"10a": (sizes, by_size, groups_of), "10b": (groups, by_groups)})


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
