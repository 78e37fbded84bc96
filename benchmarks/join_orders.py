"""Orders of probes that follow the data: selections of 1% per query, and a stream whose rates and keys are swapped.

Selections: 455 three-way joins over 15 streams on a common key. Every query selects 1%, 20% and 50% of the rows of its
three streams, in an order of its own that the text does not tell. The partial results that shared routes build are
counted, once the windows are full: with orders that follow the data, and with the orders known beforehand (each query
is forced to probe its streams by ascending selectivity; also the reverse, and as FROM lists them).

Swap: a join of four streams on a common key. The first is slow and has few matches, the last is fast and has many; in
the middle of the stream their rates and keys are swapped. Work is the number of keys looked up and rows joined. After
`SETTLING` tuples, work and time are compared with those of the best of all 24 forced orders. Results of all runs are
compared by a hash that does not depend on their order.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks._report import Figure, report
from eddyline.operators.joins.stem_join import StemJoin

STREAMS = 15
TRIPLES = list(combinations(range(STREAMS), 3))
SHARES = (0.01, 0.2, 0.5)
WINDOW, KEYS, BATCH, ROUNDS = 4_000, 1_000, 500, 16  # rows of a stream, distinct keys, rows a push, pushes a stream
SECOND = 1_000_000

NAMES = "abcd"
UNIT = 1_000  # tuples of all streams in a unit of time
UNITS_OF_WINDOW = 50
HALF = 150  # units
SETTLING = 2 * UNITS_OF_WINDOW * UNIT  # tuples: until the window has forgotten the past, and as many again
TIMED = 3  # runs of which the median counts


@dataclass(frozen=True)
class Role:
    """A stream: its share of all tuples, and the number of distinct keys."""

    share: float
    keys: int


FEW, SOME, MANY, MOST = Role(0.02, 50_000), Role(0.18, 50_000), Role(0.4, 2_500), Role(0.4, 2_500)
BEFORE, AFTER = (FEW, SOME, MANY, MOST), (MOST, SOME, MANY, FEW)


# Selections.


def shares_of(query: int) -> tuple[float, ...]:
    """How much a query selects of each of its streams."""
    return list(permutations(SHARES))[query % 6]


def text(query: int) -> str:
    streams, selected = TRIPLES[query], []
    for i, (s, share) in enumerate(zip(streams, shares_of(query), strict=True)):
        low = round((query + 1) * (i + 1) * 0.6180339887498949 % 1.0 * (1.0 - share), 6)
        selected.append(f"s{s}.v >= {low} AND s{s}.v < {round(low + share, 6)}")
    a, b, c = (f"s{s}" for s in streams)
    sources = ", ".join(f"{s} [RANGE {WINDOW} MILLISECONDS]" for s in (a, b, c))
    return (
        f"SELECT {a}.k AS k, {a}.ts AS t0, {b}.ts AS t1, {c}.ts AS t2 FROM {sources} "
        f"WHERE {a}.k = {b}.k AND {b}.k = {c}.k AND {' AND '.join(selected)}"
    )


def by_selectivity(query: int, *, reverse: bool = False) -> str:
    chosen = sorted(zip(shares_of(query), TRIPLES[query], strict=True), reverse=reverse)
    return ", ".join(f"s{s}" for _, s in chosen)


def selections(forced: str | None) -> tuple[int, int, float]:
    """Partial results built once the windows are full, the hash of the results from then on, and seconds."""
    db = eddyline.connect()
    for s in range(STREAMS):
        db.execute(f"CREATE STREAM s{s} (k BIGINT, v DOUBLE, ts TIMESTAMP) WATERMARK ts")
    for q, streams in enumerate(TRIPLES):
        order = {
            "best": by_selectivity(q),
            "reverse": by_selectivity(q, reverse=True),
            "as written": ", ".join(f"s{s}" for s in streams),
        }.get(forced or "")
        option = "" if order is None else f" WITH (order = '{order}')"
        db.execute(f"CREATE CONTINUOUS QUERY q{q}{option} AS {text(q)}")
    rng, hashed, built, seconds = np.random.default_rng(5), 0, 0, 0.0
    for n in range(ROUNDS):
        if n * BATCH == WINDOW:
            built, seconds = -_built(db), 0.0
        for s in range(STREAMS):
            ts = pa.array((n * BATCH + np.arange(BATCH)) * 1000, pa.timestamp("us"))
            rows = pa.table({"k": rng.integers(0, KEYS, BATCH), "v": rng.random(BATCH), "ts": ts})
            began = time.process_time()
            changes = db.push(f"s{s}", rows)
            changes.count()
            seconds += time.process_time() - began
            for name in changes.queries() if n * BATCH >= WINDOW else ():
                hashed = (hashed + hash_of(changes.rows(name), int(name[1:]))) % 2**64
    return built + _built(db), hashed, seconds


def _built(db: Any) -> int:
    return sum(joins.routes.built for joins in db.engine.shared_joins.values())


def hash_of(rows: pa.Table, salt: int = 0) -> int:
    """A sum over all rows that does not depend on their order."""
    words = np.full(rows.num_rows, salt + 1, np.uint64)
    for column in rows.columns[1:]:
        values = column.cast(pa.int64()).to_numpy().view(np.uint64)
        words = (words ^ values) * np.uint64(0x9E3779B97F4A7C15)
        words ^= words >> np.uint64(29)
    return int(words.sum(dtype=np.uint64))


# Swap.


def tuples() -> Iterator[list[tuple[str, pa.Table]]]:
    """By unit of time, the rows of each stream."""
    rng = np.random.default_rng(6)
    for unit in range(2 * HALF):
        roles, pushes = BEFORE if unit < HALF else AFTER, []
        for name, role in zip(NAMES, roles, strict=True):
            n = round(role.share * UNIT)
            ts = np.sort(rng.integers(unit * SECOND, (unit + 1) * SECOND, n))
            keys = pa.array(rng.integers(0, role.keys, n))
            pushes.append((name, pa.table({"k": keys, "id": ts, "ts": pa.array(ts, pa.timestamp("us"))})))
        yield pushes


@dataclass
class Swapped:
    """By half, after settling: work and seconds; the hash of all results; and the join as it was at the end."""

    work: list[int]
    seconds: list[float]
    hash: int
    join: StemJoin


def swapped(order: Sequence[int] | None) -> Swapped:
    db = eddyline.connect(threads=1)
    for name in NAMES:
        db.execute(f"CREATE STREAM {name} (k BIGINT, id BIGINT, ts TIMESTAMP) WATERMARK ts")
    sources = ", ".join(f"{name} [RANGE {UNITS_OF_WINDOW} SECONDS]" for name in NAMES)
    option = "" if order is None else f" WITH (order = '{', '.join(NAMES[i] for i in order)}')"
    db.execute(
        f"CREATE CONTINUOUS QUERY q{option} AS SELECT a.id AS i0, b.id AS i1, c.id AS i2, d.id AS i3 FROM {sources} "
        "WHERE a.k = b.k AND b.k = c.k AND c.k = d.k"
    )
    (running,) = db.engine.running.values()
    join = next(o for o in running.root.walk() if isinstance(o, StemJoin))
    work, seconds, hashed, settled = [0, 0], [0.0, 0.0], 0, 0
    for unit, pushes in enumerate(tuples()):
        half, within = divmod(unit, HALF)
        if within * UNIT == SETTLING:
            settled = join.stems.counts.work
        for name, rows in pushes:
            began = time.process_time()
            changes = db.push(name, rows)
            changes.count()
            seconds[half] += (time.process_time() - began) * (within * UNIT >= SETTLING)
            if changes.count():
                hashed = (hashed + hash_of(changes.rows("q"))) % 2**64
        if within == HALF - 1:
            work[half] = join.stems.counts.work - settled
    return Swapped(work, seconds, hashed, join)


def main() -> bool:
    orders = ("best", "as written", "reverse", None)
    built = {order: selections(order) for order in orders}
    figures = [Figure(f"selections: partial results, {_label(order)}", float(built[order][0]), "") for order in orders]
    least = min(b for order, (b, _, _) in built.items() if order is not None)
    figures += [
        Figure("selections: following the data against the best forced orders", built[None][0] / least, "times", 3.0),
        Figure("selections: different answers among all runs", len({h for _, h, _ in built.values()}), "", 1.0),
    ]
    swapped((0, 1, 2, 3))  # compiles
    forced = {order: swapped(order) for order in permutations(range(4))}
    following = [swapped(None)]
    halves = ("before", "after")
    hashes = {r.hash for r in (*forced.values(), *following)}
    points: dict[str, Any] = {"".join(NAMES[i] for i in o): r.work for o, r in forced.items()}
    for half, name in enumerate(halves):
        best = min(forced, key=lambda o: forced[o].work[half])
        worst = max(forced, key=lambda o: forced[o].work[half])
        ratios = []
        for _ in range(TIMED):
            known, free = swapped(best), swapped(None)
            hashes |= {known.hash, free.hash}
            ratios.append(free.seconds[half] / known.seconds[half])
        label = f"swap: {name} it, best forced order {''.join(NAMES[i] for i in best)}"
        figures += [
            Figure(f"{label}: work", forced[best].work[half], ""),
            Figure(
                f"swap: {name} it, worst against best order, work",
                forced[worst].work[half] / forced[best].work[half],
                "times",
            ),
            Figure(
                f"{label}: work of orders that follow the data",
                following[0].work[half] / forced[best].work[half],
                "times",
                1.2,
            ),
            Figure(f"{label}: time of orders that follow the data", median(ratios), "times", 1.2),
        ]
    (final,) = following
    figures += [
        Figure("swap: tuples after which orders have settled", SETTLING, "tuples"),
        Figure("swap: different answers among all runs", len(hashes), "", 1.0),
        Figure("swap: statistics measured", final.join.orders.checks, "times"),
        Figure("swap: orders searched", final.join.orders.searches, "times"),
    ]
    changes = [
        f"{c.arrivals}: origin {NAMES[c.origin]}, {_names(c.before)} to {_names(c.after)}: {c.why}"
        for c in final.join.orders.changes
    ]
    return report("join-orders", figures, {"work of forced orders": points, "changes of orders": changes})


def _label(order: str | None) -> str:
    return "orders that follow the data" if order is None else f"forced orders: {order}"


def _names(order: Sequence[int]) -> str:
    return "".join(NAMES[i] for i in order)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
