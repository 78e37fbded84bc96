"""Range joins with churn: the cost of 100 adds, 100 drops and a batch of tuples, and what other structures would save.

R arrives and joins with the rows of a table S. Between two batches 100 queries are registered and 100 dropped, drawn
at random. Nine queries in ten lie around 40 hotspots, which drift; the others are uniform. The cost of a round is that
of `register`, `drop`, `push` and `count_affected`, in CPU time of one thread; the split names what the runs of the
index take of it (`eddyline/operators/query_runs.py`).

In place of the newest runs, where adds and drops land, the structures of `benchmarks/yardsticks/newest_part.py` get the
same updates and tuples, and give the same counts. The claim: those that change save less than a tenth of a round. One
run that never changes, built anew at every add, stands beside them.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks._join_workloads import (
    FAMILIES,
    KEYS,
    SPACE,
    STREAMS,
    Queries,
    batch_of_r,
    ranges,
    rows_of_s,
    select_joins,
    tuples_of_r,
)
from benchmarks._report import Figure, report
from benchmarks.yardsticks.newest_part import GroupedPart, HotspotPart, PartitionPart, RunsPart, Tuples
from eddyline.arrays import Ints
from eddyline.engine.actions import ChangeTable
from eddyline.index.keys.sorted_runs import equal_ranges
from eddyline.operators.joins import ranged
from eddyline.operators.query_runs import GROWTH, QueryRuns

KINDS = ("band", "select")
CHURN = 100
ROWS = 100_000
HOTSPOTS = 40
AROUND_HOTSPOTS = 0.9
SETTINGS = ((100_000, 1), (100_000, 30), (100_000, 1_000), (1_000_000, 1), (1_000_000, 1_000))  # queries, tuples
ROUNDS = {100_000: 200, 1_000_000: 60}
NEWEST = (1_000, 4_000, 16_000)  # queries, at most, in the part where updates land
PARTS = ("runs", "one run", "dynamic partition", "hotspot tracker")
Costs = dict[str, float]


class Drift:
    """Queries around hotspots that move."""

    def __init__(self, kind: str) -> None:
        self.kind, self.rng = kind, np.random.default_rng(13)
        self.least, self.most = (0, SPACE) if kind == "select" else (-KEYS, KEYS)
        self.points = self.rng.uniform(self.least, self.most, HOTSPOTS)
        self.weights = 1 / np.arange(1, HOTSPOTS + 1) / np.sum(1 / np.arange(1, HOTSPOTS + 1))

    def queries(self, n: int) -> Queries:
        rng, width = self.rng, self.most - self.least
        moved = self.points + rng.normal(0, width / 2_000, HOTSPOTS)
        self.points = self.least + (moved - self.least) % width
        middle = self.points[rng.choice(HOTSPOTS, n, p=self.weights)] + rng.normal(0, width / 4_000, n)
        uniform = rng.random(n) >= AROUND_HOTSPOTS
        middle[uniform] = rng.uniform(self.least, self.most, int(uniform.sum()))
        low, high = ranges(middle, rng.normal(width / 40, width / 400, n))
        own = select_joins(rng, n)
        return Queries(low, high, own.own_low, own.own_high)

    def table(self, n: int, first: int) -> pa.Table:
        q = self.queries(n)
        names = ("c1", "c2", "a1", "a2") if self.kind == "select" else ("lo", "hi")
        ends = zip(names, (q.low, q.high, q.own_low, q.own_high), strict=False)
        columns = {name: end.astype(np.int32) for name, end in ends}
        return pa.table({"query": [f"q{first + i}" for i in range(n)]} | columns)


class Living:
    """Numbers that are registered, from which some are drawn to be dropped."""

    def __init__(self, rng: np.random.Generator, count: int) -> None:
        self.rng, self.numbers, self.next = rng, list(range(count)), count

    def added(self, count: int) -> Ints:
        new = np.arange(self.next, self.next + count)
        self.numbers += new.tolist()
        self.next += count
        return new

    def drawn(self, count: int) -> Ints:
        numbers, gone = self.numbers, []
        for i in self.rng.integers(0, np.arange(len(numbers), len(numbers) - count, -1)).tolist():
            numbers[i], numbers[-1] = numbers[-1], numbers[i]
            gone.append(numbers.pop())
        return np.array(gone, np.int64)


# through the product


def connection(drift: Drift, queries: int) -> eddyline.Connection:
    db = eddyline.connect(threads=1)
    table = "CREATE TABLE s (b INT, c INT);"
    db.execute(STREAMS.strip().splitlines()[0] + table + FAMILIES[drift.kind].format("auto"))
    db.register("f", drift.table(queries, 0))
    rows = tuple(pa.array(column.astype(np.int32)) for column in rows_of_s(drift.rng, ROWS))
    db.apply([ChangeTable("s", np.empty(0, np.int64), rows)])
    return db


@contextmanager
def split(costs: Costs, newest: int) -> Iterator[None]:
    """Adds the time that parts of the index take; runs of at most `newest` queries are apart from the others."""

    def wrap(owner: Any, name: str, label: Callable[[tuple[Any, ...]], str]) -> Callable[[], None]:
        real = getattr(owner, name)

        def timed(*args: Any, **options: Any) -> Any:
            begun = time.process_time()
            try:
                return real(*args, **options)
            finally:
                costs[label(args)] += time.process_time() - begun

        setattr(owner, name, timed)
        return lambda: setattr(owner, name, real)

    def which(size: int) -> str:
        return "newest runs" if size <= newest else "large runs"

    undo = [
        wrap(QueryRuns, "_run", lambda args: f"build {which(args[3] - args[2])}"),
        wrap(ranged, "Estimates", lambda args: f"histograms of {which(len(args[0]))}"),
        wrap(ranged, "_doubts", lambda args: "flags of dropped queries"),
        wrap(ranged, "affected", lambda args: f"probe {which(len(args[0]))}"),
    ]
    try:
        yield
    finally:
        for restore in undo:
            restore()


def product(kind: str, queries: int, tuples: int) -> Costs:
    """Milliseconds a round."""
    drift = Drift(kind)
    db, living = connection(drift, queries), Living(drift.rng, queries)
    rounds = ROUNDS[queries]
    costs: Costs = defaultdict(float)

    def timed(name: str, call: Callable[..., Any], *args: Any) -> Any:
        begun = time.process_time()
        result = call(*args)
        costs[name] += time.process_time() - begun
        return result

    def take_round() -> None:
        gone = [f"q{i}" for i in living.drawn(CHURN).tolist()]
        new = drift.table(CHURN, living.next)
        living.added(CHURN)
        timed("register", db.register, "f", new)
        timed("drop", db.drop, "f", gone)
        changes = timed("push", db.push, "r", batch_of_r(*tuples_of_r(drift.rng, tuples)))
        timed("count", changes.count_affected, "f")

    with split(costs, queries // 4):
        take_round()
        take_round()
        costs.clear()
        for _ in range(rounds):
            take_round()
    found = {name: 1000 * cost / rounds for name, cost in sorted(costs.items())}
    return {"total": sum(found[name] for name in ("register", "drop", "push", "count"))} | found


# the newest part alone


def newest(kind: str, most: int, tuples: int) -> dict[str, Costs]:
    """Milliseconds a round for updates and for probes, of a part that grows to `most` queries by 100 a round."""
    drift = Drift(kind)
    rounds = most // CHURN
    b, c = rows_of_s(drift.rng, ROWS)
    order = np.lexsort((c, b))
    keys, places = (np.zeros(ROWS, np.int64), np.sort(b)) if kind == "band" else (b[order], c[order])
    q = [drift.queries(CHURN) for _ in range(rounds)]
    low, high, own_low, own_high = (
        np.concatenate([getattr(x, name) for x in q]) for name in ("low", "high", "own_low", "own_high")
    )
    own = (own_low, own_high) if kind == "select" else (np.empty(0, np.int64), np.empty(0, np.int64))
    kept = (RunsPart(own, places, GROWTH), RunsPart(own, places, np.inf), PartitionPart(own), HotspotPart(own))
    parts: dict[str, RunsPart | GroupedPart] = dict(zip(PARTS, kept, strict=True))
    costs = {name: np.zeros(2) for name in PARTS}
    living = Living(drift.rng, 0)
    for _ in range(rounds):
        gone = living.drawn(round(CHURN * len(living.numbers) / 100_000))  # its share of the drops among 100,000
        new = living.added(CHURN)
        own_value, key = tuples_of_r(drift.rng, tuples)
        nothing = np.zeros(tuples, np.int64)
        wanted, shift = (nothing, key) if kind == "band" else (key, nothing)
        probing = Tuples(places, *equal_ranges(keys, wanted), shift, own_value)
        counts = []
        for name, part in parts.items():
            begun = time.process_time()
            part.update(new, gone, low, high)
            updated = time.process_time()
            counts.append(part.count(probing))
            costs[name] += updated - begun, time.process_time() - updated
        assert all((count == counts[0]).all() for count in counts), "the structures must agree"
    return {
        name: dict(zip(("update", "probe"), (1000 * cost / rounds).tolist(), strict=True))
        for name, cost in costs.items()
    }


def saved(costs: Mapping[str, Costs], total: float, name: str) -> float:
    """Percent of a round, if a structure replaces the newest runs; at best of all sizes of the newest part."""
    return 100 * max(sum(c["runs"].values()) - sum(c[name].values()) for c in costs.values()) / total


def figures(alone: Mapping[str, Any], whole: Mapping[str, Costs]) -> list[Figure]:
    found = [
        Figure(f"{claim}: {name}", sum(cost.values()), "ms a round")
        for claim, costs in alone.items()
        for name, cost in costs.items()
    ]
    for claim, costs in whole.items():
        kind, batch = claim.split()[1], claim.split(", ")[1].removesuffix(" a batch")
        alike = {c: v for c, v in alone.items() if c.startswith(kind) and c.endswith(f", {batch}")}
        share = {name: saved(alike, costs["total"], name) for name in PARTS[1:]}
        found.append(Figure(f"{claim}: total", costs["total"], "ms a round"))
        for name, percent in share.items():
            limit = None if name == "one run" else 10
            found.append(Figure(f"{claim}: saved by the {name}, at best", percent, "%", limit))
    return found


def main() -> bool:
    for kind in KINDS:
        newest(kind, 500, 10)  # everything is compiled then
    batches = sorted({tuples for _, tuples in SETTINGS})
    alone = {
        f"{kind} joins, newest part of up to {most:,}, {tuples:,} tuples": newest(kind, most, tuples)
        for kind in KINDS
        for most in NEWEST
        for tuples in batches
    }
    whole = {
        f"{queries:,} {kind} joins, {tuples:,} tuples a batch": product(kind, queries, tuples)
        for kind in KINDS
        for queries, tuples in SETTINGS
    }
    return report("churn", figures(alone, whole), alone | whole)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
