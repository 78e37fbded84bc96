"""Orders of probes by the cost model of document 2 and by the tickets of document 1, on the same joins of four streams.

Every workload runs with orders chosen by the cost model (the engine's), by tickets and by signed tickets
(`yardsticks/ticket_join_orders.py`). Work is the number of keys looked up and rows joined in the second half, once
windows are full and orders have settled; times are CPU seconds of the same part. The best orders are known from runs
that follow every connected order of each origin: routes of different origins do not affect each other's work. The
results of all runs are compared by a hash that does not depend on their order.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import permutations
from statistics import geometric_mean, median

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks._report import Figure, report
from benchmarks.yardsticks.ticket_join_orders import TicketJoinOrders
from eddyline.operators.joins.measured_join import MeasuredJoin
from eddyline.operators.joins.order_state import Orders
from eddyline.operators.joins.stem_join import StemJoin

NAMES = "abcd"
UNITS, WINDOW, UNIT = 32, 8, 500  # units of time, those of a window, and tuples of a unit
TIMED = 2  # runs of which the median counts
SECOND = 1_000_000
Columns = dict[str, np.ndarray]
CHOICES = ("cost model", "tickets", "signed tickets")


@dataclass(frozen=True)
class Workload:
    """A join: its condition, the share of all tuples that each stream has, and the keys of a batch of a stream."""

    condition: str
    shares: tuple[float, float, float, float]
    keys: Callable[[str, int, int, np.random.Generator], Columns]  # by stream, rows and unit


def uniform(**domains: tuple[int, int, int, int]) -> Callable[[str, int, int, np.random.Generator], Columns]:
    """By column, the number of distinct values in each stream."""

    def keys(name: str, n: int, unit: int, rng: np.random.Generator) -> Columns:
        return {c: rng.integers(0, of[NAMES.index(name)], n) for c, of in domains.items()}

    return keys


def correlated(name: str, n: int, unit: int, rng: np.random.Generator) -> Columns:
    """Tuples of a that have a partner in b have many in c and d, the others have none: the product of selectivities
    is far from the truth."""
    own = uniform(k=(4000, 4000, 1, 1), m=(1, 1, 100, 1), n=(1, 1, 1, 100))(name, n, unit, rng)
    if name == "a":
        popular = own["k"] < 400
        own["m"] = np.where(popular, rng.integers(0, 100, n), 1000 + rng.integers(0, 100, n))
        own["n"] = np.where(popular, rng.integers(0, 100, n), 1000 + rng.integers(0, 100, n))
    if name == "b":
        own["k"] = rng.integers(0, 400, n)
    return own


def skewed(name: str, n: int, unit: int, rng: np.random.Generator) -> Columns:
    """Half of the tuples of a and c have one value of m, so c has many partners although it has many values."""
    own = uniform(k=(600, 600, 1, 1), m=(3000, 1, 3000, 1), n=(250, 1, 1, 250))(name, n, unit, rng)
    if name in "ac":
        own["m"] = np.where(rng.random(n) < 0.5, 0, own["m"])
    return own


def swapping(name: str, n: int, unit: int, rng: np.random.Generator) -> Columns:
    """After a quarter of the time the selective stream and the one with many partners change places."""
    before, after = uniform(k=(20_000, 20_000, 1_000, 1_000)), uniform(k=(1_000, 20_000, 1_000, 20_000))
    return (before if unit < UNITS // 4 else after)(name, n, unit, rng)


COMMON = "a.k = b.k AND b.k = c.k AND c.k = d.k"
STAR = "a.k = b.k AND a.m = c.m AND a.n = d.n"
WORKLOADS = {
    "common key": Workload(COMMON, (0.1, 0.2, 0.35, 0.35), uniform(k=(20_000, 8_000, 1_500, 800))),
    "common key, few values": Workload(COMMON, (0.7, 0.1, 0.1, 0.1), uniform(k=(2_000, 500, 400, 300))),
    "chain": Workload(
        "a.k = b.k AND b.m = c.m AND c.n = d.n",
        (0.25, 0.25, 0.25, 0.25),
        uniform(k=(400, 400, 1, 1), m=(1, 3_000, 3_000, 1), n=(1, 1, 900, 900)),
    ),
    "star": Workload(
        STAR, (0.4, 0.2, 0.2, 0.2), uniform(k=(600, 600, 1, 1), m=(6_000, 1, 6_000, 1), n=(1_200, 1, 1, 1_200))
    ),
    "star, fast and slow": Workload(
        STAR, (0.1, 0.7, 0.15, 0.05), uniform(k=(2_000, 2_000, 1, 1), m=(2_000, 1, 2_000, 1), n=(150, 1, 1, 150))
    ),
    "star, correlated": Workload(STAR, (0.4, 0.2, 0.2, 0.2), correlated),
    "star, skewed": Workload(STAR, (0.4, 0.2, 0.2, 0.2), skewed),
    "branch": Workload(  # b has more partners than d, but hardly any of them one in c
        "a.k = b.k AND b.m = c.m AND a.n = d.n",
        (0.1, 0.3, 0.3, 0.3),
        uniform(k=(450, 450, 1, 1), m=(1, 60_000, 60_000, 1), n=(800, 1, 1, 800)),
    ),
    "cycle": Workload(  # c alone has many partners, together with b hardly any
        "a.k = b.k AND b.m = c.m AND a.n = c.n AND c.k = d.k",
        (0.25, 0.25, 0.25, 0.25),
        uniform(k=(800, 800, 500, 500), m=(1, 900, 900, 1), n=(120, 1, 120, 1)),
    ),
    "swap": Workload(COMMON, (0.25, 0.25, 0.25, 0.25), swapping),
    "theta": Workload(
        COMMON + " AND a.m < b.m AND c.m + 900 < d.m",
        (0.25, 0.25, 0.25, 0.25),
        uniform(k=(900, 900, 900, 900), m=(1000, 1000, 1000, 1000)),
    ),
}


@dataclass(frozen=True)
class Run:
    work: tuple[int, ...]  # by origin
    seconds: float
    hash: int
    orders: Orders  # at the end


def batches(workload: Workload) -> Iterator[list[tuple[str, pa.Table]]]:
    rng = np.random.default_rng(7)
    for unit in range(UNITS):
        pushes = []
        for name, share in zip(NAMES, workload.shares, strict=True):
            n = round(share * UNIT)
            ts = np.sort(rng.integers(unit * SECOND, (unit + 1) * SECOND, n))
            every = {c: np.zeros(n, np.int64) for c in "kmn"} | workload.keys(name, n, unit, rng)
            pushes.append((name, pa.table(every | {"id": ts, "ts": pa.array(ts, pa.timestamp("us"))})))
        yield pushes


def run(workload: Workload, choice: str | int) -> Run:
    """`choice` is one of CHOICES, or the number of a fixed order for every origin, modulo the number that it has."""
    db = eddyline.connect(threads=1)
    for name in NAMES:
        db.execute(f"CREATE STREAM {name} (k BIGINT, m BIGINT, n BIGINT, id BIGINT, ts TIMESTAMP) WATERMARK ts")
    sources = ", ".join(f"{name} [RANGE {WINDOW} SECONDS]" for name in NAMES)
    db.execute(
        f"CREATE CONTINUOUS QUERY q AS SELECT a.id AS i0, b.id AS i1, c.id AS i2, d.id AS i3 FROM {sources} "
        f"WHERE {workload.condition}"
    )
    (running,) = db.engine.running.values()
    join = next(o for o in running.root.walk() if isinstance(o, StemJoin))
    revise = db.engine.join_orders.revise
    if isinstance(choice, int):
        every = [connected(join, origin) for origin in range(len(NAMES))]
        join.reorder([orders[choice % len(orders)] for orders in every], join.stems.node.scanned)
        revise = lambda *_: False  # noqa: E731
    elif choice != CHOICES[0]:
        revise = TicketJoinOrders(join, signed=choice == "signed tickets").revise
    db.engine.join_orders.revise = revise  # type: ignore[method-assign]
    seconds, hashed, settled = 0.0, 0, (0,) * len(NAMES)
    for unit, pushes in enumerate(batches(workload)):
        if unit == UNITS // 2:
            seconds, settled = 0.0, work_of(join)
        for name, rows in pushes:
            begun = time.process_time()
            changes = db.push(name, rows)
            count = changes.count()
            seconds += time.process_time() - begun
            if count:
                hashed = (hashed + hash_of(changes.rows("q"))) % 2**64
    work = tuple(now - before for now, before in zip(work_of(join), settled, strict=True))
    return Run(work, seconds, hashed, MeasuredJoin(join).orders)


def connected(join: StemJoin, origin: int) -> Orders:
    """The orders of an origin without cross products."""
    graph = MeasuredJoin(join).graph(shared=False)
    others = [i for i in range(graph.inputs) if i != origin]

    def follows(order: tuple[int, ...]) -> bool:
        return all(new in graph.extensions(frozenset((origin, *order[:n]))) for n, new in enumerate(order))

    return tuple(filter(follows, permutations(others)))


def work_of(join: StemJoin) -> tuple[int, ...]:
    """By origin, keys looked up and rows joined."""
    work = [0] * len(NAMES)
    for route, step in join.stems.counts.steps.items():
        work[route[0]] += step.probing + step.compared
    return tuple(work)


def hash_of(rows: pa.Table) -> int:
    """A sum over all rows that does not depend on their order."""
    words = np.ones(rows.num_rows, np.uint64)
    for column in ("i0", "i1", "i2", "i3"):
        words = (words ^ rows[column].to_numpy().view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        words ^= words >> np.uint64(29)
    return int(words.sum(dtype=np.uint64))


def main() -> bool:
    figures, series = list[Figure](), dict[str, object]()
    against: dict[str, list[float]] = {c: [] for c in CHOICES}
    for name, workload in WORKLOADS.items():
        fixed = [run(workload, n) for n in range(6)]
        best, worst = (sum(f(r.work[i] for r in fixed) for i in range(len(NAMES))) for f in (min, max))
        runs: dict[str, list[Run]] = {c: [] for c in CHOICES}
        for turn in range(TIMED):
            for choice in (*CHOICES[turn:], *CHOICES[:turn]):
                runs[choice].append(run(workload, choice))
        hashes = {r.hash for r in (*fixed, *(r for of in runs.values() for r in of))}
        assert len(hashes) == 1, f"the orders disagree on {name}"
        seconds = {c: median(r.seconds for r in of) for c, of in runs.items()}
        for choice in CHOICES:
            work = sum(runs[choice][0].work) / best
            against[choice].append(work)
            figures.append(Figure(f"{name}: {choice}, work against the best orders", work, "times"))
        for choice in CHOICES[1:]:
            ratio = seconds[choice] / seconds[CHOICES[0]]
            figures.append(Figure(f"{name}: {choice}, time against the cost model's", ratio, "times"))
        figures.append(Figure(f"{name}: the worst orders, work against the best", worst / best, "times"))
        series[name] = {
            "best": best,
            "worst": worst,
            "work": {c: sum(runs[c][0].work) for c in CHOICES},
            "orders": {c: ["".join(NAMES[i] for i in o) for o in runs[c][0].orders] for c in CHOICES},
        }
    means = {c: geometric_mean(of) for c, of in against.items()}
    for choice, of in against.items():
        figures.append(Figure(f"all workloads: {choice}, geometric mean of work", means[choice], "times"))
        figures.append(Figure(f"all workloads: {choice}, at worst", max(of), "times"))
    least = min(means[c] for c in CHOICES[1:])
    figures.append(
        Figure("the cost model against the better tickets, mean of work", means["cost model"] / least, "", 1.0)
    )
    return report("join-tickets", figures, series)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
