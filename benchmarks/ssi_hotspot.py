"""Figure 9 of document 4: select joins of 500,000 queries, of which 10% to 100% are in hotspots (alpha 0.1%).

Queries in hotspots lie around 40 points in one half of S.C; the others have short ranges in the other half, in a great
many small groups. One query in 100 accepts a tuple; a key has 100 rows. Batches of tuples.
"""

from __future__ import annotations

import numpy as np

from benchmarks._chart import Panel, draw
from benchmarks._join_workloads import SPACE, Queries, ranges, select_joins
from benchmarks._report import Figure, report
from benchmarks._strategies import select_setting

QUERIES = 500_000
ROWS = 100_000
PARTNERS = 100
TUPLES = 4_000
POINTS = 40
ALPHA = 0.001
SHOWN = ("ssi", "select_first", "hotspot")


def workload(rng: np.random.Generator, hot: float) -> Queries:
    n = round(QUERIES * hot)
    point = rng.integers(0, POINTS, n) * (SPACE / 2 / POINTS) + SPACE / 4 / POINTS
    low, high = ranges(rng.normal(point, 300), np.abs(rng.normal(5_000, 1_000, n)))
    few_low, few_high = ranges(rng.uniform(SPACE / 2, SPACE, QUERIES - n), rng.normal(60, 15, QUERIES - n))
    own = select_joins(rng, QUERIES, accepted=0.01)
    return Queries(np.append(low, few_low), np.append(high, few_high), own.own_low, own.own_high)


def main() -> bool:
    rng = np.random.default_rng(9)
    inside, found = [], []
    for share in np.arange(1, 11) / 10:
        setting = select_setting(
            workload(rng, float(share)), np.arange(ROWS) // PARTNERS, rng.integers(0, SPACE, ROWS), ALPHA
        )
        groups = setting.groups.columns
        inside.append(float(groups.stabbing.sizes[: groups.hot].sum()) / QUERIES)
        wanted, own = rng.integers(0, ROWS // PARTNERS, TUPLES), rng.integers(0, SPACE, TUPLES)
        nothing = np.zeros(TUPLES, np.int64)
        found.append({s: setting.batched(s, wanted, nothing, own) for s in SHOWN})
    draw(
        "ssi-hotspot",
        [
            Panel("9: over the share of queries in hotspots", "share", "tuples/s",
                  {s: (inside, [f[s] for f in found]) for s in SHOWN}, "log y"),
        ],
    )  # fmt: skip
    worst = min(f["hotspot"] / max(f["ssi"], f["select_first"]) for f in found)
    figures = [
        Figure("share of queries in hotspots, least clustered", inside[0], ""),
        Figure("share of queries in hotspots, most clustered", inside[-1], ""),
        *(Figure(f"{s}: least and most clustered", found[i][s], "tuples/s") for s in SHOWN for i in (0, -1)),
        Figure("Hotspot, times the better of SSI and SelectFirst, at its worst of ten", worst, "", least=0.8),
    ]
    return report("ssi-hotspot", figures, {"9": (inside, found)})


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
