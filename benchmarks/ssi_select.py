"""Figures 7 and 8 of document 4: select joins over the number of queries, of groups, and by what a tuple meets.

That is how many queries accept a tuple (event selection rate), and how many partners it has (event join rate). One
tuple at a time in a kernel's call, in batches, and one at a time through `push` and `count_affected`.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks._chart import Panel, draw
from benchmarks._join_workloads import SPACE, Queries, batch_of_r, connection, ranges, select_joins
from benchmarks._report import Figure, report
from benchmarks._strategies import Setting, select_setting
from eddyline.arrays import Ints

SHOWN = ("ssi", "select_first", "join_first", "vanilla")
ROWS = 100_000
TUPLES = 20_000
PUSHES = 300
CLUSTERS = 30


def clustered(rng: np.random.Generator, n: int, clusters: int = CLUSTERS, accepted: float = 0.1) -> Queries:
    """Ranges over S.C around so many points, each of which its ranges hold."""
    point = (rng.integers(0, clusters, n) + 0.5) * SPACE / clusters
    before, after = rng.uniform(0, 0.9 * SPACE / clusters, (2, n))
    own = select_joins(rng, n, accepted=accepted)
    return Queries((point - before).astype(np.int64), (point + after).astype(np.int64), own.own_low, own.own_high)


def setting(rng: np.random.Generator, queries: Queries, partners: int) -> Setting:
    """Every key of S has so many rows."""
    return select_setting(queries, np.arange(ROWS) // partners, rng.integers(0, SPACE, ROWS))


def rates(rng: np.random.Generator, found: Setting, shown: tuple[str, ...] = SHOWN) -> dict[str, float]:
    keys = int(found.keys[-1]) + 1
    wanted, own, nothing = rng.integers(0, keys, TUPLES), rng.integers(0, SPACE, TUPLES), np.zeros(TUPLES, np.int64)
    rates = {s: found.rate(s, wanted, nothing, own) for s in shown}
    return rates | {f"{s}, batched": found.batched(s, wanted, nothing, own) for s in ("ssi", "select_first")}


def pushed(rng: np.random.Generator, n: int, partners: int = 1_000) -> float:
    """Tuples per second, each in a push of its own, by SSI."""
    s = np.arange(ROWS) // partners, rng.integers(0, SPACE, ROWS)
    db = connection("select", clustered(rng, n), s, "ssi", threads=1)
    given = [batch_of_r(rng.integers(0, SPACE, 1), rng.integers(0, ROWS // partners, 1)) for _ in range(PUSHES)]
    for g in given[:20]:
        db.push("r", g).count_affected("f")
    taken = []
    for g in given:
        begun = time.perf_counter()
        db.push("r", g).count_affected("f")
        taken.append(time.perf_counter() - begun)
    return 1 / float(np.median(taken))


def lines(x: list[int], found: list[dict[str, float]]) -> dict[str, tuple[list[int], list[float]]]:
    return {s: (x, [f[s] for f in found]) for s in found[0]}


def main() -> bool:
    rng = np.random.default_rng(4)
    sizes = [100, 1_000, 10_000, 100_000]
    by_size = [rates(rng, setting(rng, clustered(rng, n), 1_000)) for n in sizes]
    groups: list[int] = []
    by_groups = []
    for length in (60_000, 10_000, 3_000, 1_000, 300, 100):
        low, high = ranges(rng.uniform(0, SPACE, 100_000), rng.normal(length, length / 9, 100_000))
        own: Ints = clustered(rng, 100_000, accepted=0.0025).own_low
        found = setting(rng, Queries(low, high, own, own + 2_500), 1_000)
        groups.append(len(found.groups.columns.stabbing.points))
        by_groups.append(rates(rng, found))
    shares = [0.0001, 0.001, 0.01, 0.1]
    by_accepted = [
        rates(rng, setting(rng, clustered(rng, 100_000, accepted=s), 1_000), ("ssi", "select_first")) for s in shares
    ]
    partners = [10, 100, 1_000, 10_000]
    by_partners = [rates(rng, setting(rng, clustered(rng, 100_000), p)) for p in partners]
    at = by_size[-1]
    draw(
        "ssi-select",
        [
            Panel("7a: over queries, 30 groups, 1,000 partners", "queries", "tuples/s", lines(sizes, by_size), "log"),
            Panel("7b: over stabbing groups, 250 queries accept a tuple", "groups", "tuples/s",
                  lines(groups, by_groups), "log"),
            Panel("8a: over queries that accept a tuple", "queries", "tuples/s",
                  lines([int(s * 100_000) for s in shares], by_accepted), "log"),
            Panel("8b: over partners", "partners", "tuples/s", lines(partners, by_partners), "log"),
        ],
    )  # fmt: skip
    few, many = pushed(rng, 100), pushed(rng, 100_000)
    select_first = max(at["select_first"], at["select_first, batched"])
    figures = [
        Figure("100,000 queries: SSI, one tuple at a time", at["ssi"], "tuples/s"),
        Figure("100,000 queries: SSI, batched", at["ssi, batched"], "tuples/s"),
        Figure("100,000 queries: SSI, batched, times JoinFirst", at["ssi, batched"] / at["join_first"], "", least=25),
        Figure("100,000 queries: SSI, batched, times SelectFirst", at["ssi, batched"] / select_first, "", least=25),
        Figure("SSI at 100,000 queries, share of its rate at 100: pushed one by one", many / few, "", least=0.8),
        Figure("the same, in one kernel's call each", at["ssi"] / by_size[0]["ssi"], ""),
        Figure("the same, batched", at["ssi, batched"] / by_size[0]["ssi, batched"], ""),
    ]
    series = {
        "7a": (sizes, by_size),
        "7b": (groups, by_groups),
        "8a": (shares, by_accepted),
        "8b": (partners, by_partners),
    }
    return report("ssi-select", figures, series)


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
