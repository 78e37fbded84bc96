"""Lazy re-evaluation (document 2, sections 1.1 and 6.4): single tuples pushed to a join of four streams.

Every point gives the same tuples to a new connection; tau is a share of the window. First the windows are filled with
batches. Then tuples arrive one by one, and the processor time of two things is measured: of whole pushes, and of what
the engine does with a tuple once it has been checked, which is what the document compares. tau = 0 evaluates every
tuple when it arrives. Answers are not kept for snapshots at any point. All points must give the same result: the log of
changes is folded and hashed. Rounds alternate between the points; a ratio is the median of those within a round.
"""

from __future__ import annotations

import hashlib
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks._report import Figure, report
from eddyline.delivery.changes import Changes, Lookup
from eddyline.local.arriving import incoming

STREAMS = ("r", "s", "t", "u")
WINDOW, RATE, KEYS = 100, 1_000, 50_000  # seconds; tuples a second of all streams together; distinct values
FILLING, MEASURED = WINDOW * RATE, WINDOW * RATE // 2  # half a window: one evaluation at the largest tau
SHARES = (0.0, 0.001, 0.01, 0.1, 0.5)
ROUNDS = 2
QUERY = (
    "SELECT r.v AS a, s.v AS b, t.v AS c, u.v AS d"
    " FROM r [RANGE {w} SECONDS], s [RANGE {w} SECONDS], t [RANGE {w} SECONDS], u [RANGE {w} SECONDS]"
    " WHERE r.k = s.k AND s.k = t.k AND t.k = u.k"
)


@dataclass
class Input:
    """The tuples that fill the windows, a batch per second and stream, and those that arrive one by one."""

    filling: list[dict[str, pa.Table]] = field(default_factory=list)
    single: list[tuple[str, pa.Table]] = field(default_factory=list)


def tuples(seed: int = 7) -> Input:
    rng = np.random.default_rng(seed)
    n = FILLING + MEASURED
    ts = np.sort(rng.integers(0, n // RATE * 1_000_000, n))
    keys, stream = pa.array(rng.integers(0, KEYS, n), pa.int32()), rng.integers(0, len(STREAMS), n)
    whole = pa.table({"k": keys, "v": pa.array(np.arange(n)), "ts": pa.array(ts, pa.timestamp("us"))})
    made = Input()
    for start in range(0, FILLING, RATE):
        of = {name: start + np.nonzero(stream[start : start + RATE] == i)[0] for i, name in enumerate(STREAMS)}
        made.filling.append({name: whole.take(pa.array(rows)) for name, rows in of.items()})
    made.single = [(STREAMS[stream[i]], whole.slice(i, 1)) for i in range(FILLING, n)]
    return made


def connection(share: float) -> Any:
    db = eddyline.connect(threads=1)
    for name in STREAMS:
        db.execute(f"CREATE STREAM {name} (k INT, v BIGINT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS")
    evaluate = f", evaluate = '{round(share * WINDOW * 1000)} milliseconds'" if share else ""
    db.execute(f"CREATE CONTINUOUS QUERY q WITH (snapshot = 'no'{evaluate}) AS {QUERY.format(w=WINDOW)}")
    return db


def played(share: float, given: Input) -> tuple[float, float, list[Any]]:
    """Processor seconds of the pushes of single tuples and of the engine alone, and all changes."""
    db = connection(share)
    engine = db.engine
    changes = [db.push(batch) for batch in given.filling]
    pushing = processing = 0.0
    for name, row in given.single:
        began = time.process_time()
        (checked,) = incoming([(db.catalog.streams[name], row)], engine.clocks.streams, engine.arrivals)
        engine.clocks.streams[checked.key] = checked.clock
        arrived = time.process_time()
        parts = engine.arrive(checked.key, checked.batch)
        counted = sum(p.count() for p in parts)
        processed = time.process_time()
        if counted:
            changes.append(Changes(parts, [checked.arrival], Lookup(db.registry)))
        pushing += time.process_time() - began
        processing += processed - arrived
    last = given.single[-1][1].column("ts")[0].as_py()
    changes.append(db.advance(last + timedelta(seconds=2 * WINDOW)))
    return pushing, processing, changes


def folded(changes: Iterable[Any]) -> tuple[str, int]:
    """The hash of the net change of every row at every instant, and the number of joined rows."""
    total: Counter[tuple[Any, ...]] = Counter()
    rows = 0
    for found in changes:
        if not found.count():
            continue
        log = found.rows("q")
        op, ts, exp, *values = (c.to_pylist() for c in log.columns)
        rows += len(op)
        for sign, begin, end, row in zip(op, ts, exp, zip(*values, strict=True), strict=True):
            total[row, begin, "begins"] += 1 if sign == "+" else -1
            total[row, end, "ends"] += 1 if sign == "+" else -1
    net = sorted((key, n) for key, n in total.items() if n)
    return hashlib.sha256(repr(net).encode()).hexdigest(), rows


def main() -> bool:
    given = tuples()
    seconds: dict[str, dict[float, list[float]]] = {
        what: {share: [] for share in SHARES} for what in ("push", "engine")
    }
    hashes: dict[float, tuple[str, int]] = {}
    played(0.01, Input(given.filling, given.single[:2_000]))  # compiles, and fills caches
    for _ in range(ROUNDS):
        for share in SHARES:
            pushing, processing, changes = played(share, given)
            seconds["push"][share].append(pushing)
            seconds["engine"][share].append(processing)
            if share not in hashes:
                hashes[share] = folded(changes)
    if len(set(hashes.values())) != 1:
        raise AssertionError(f"the folded changes differ: {hashes}")
    _, rows = hashes[0.0]
    print(f"{rows:,} joined rows, folded changes equal at all points: {hashes[0.0][0][:16]}")
    figures = []
    for what, taken in seconds.items():
        for share in SHARES:
            each = 1e6 * statistics.median(taken[share]) / MEASURED
            figures.append(Figure(f"{what}: tau = {share:.1%} of the window", each, "µs/tuple"))
        for share in SHARES[1:]:
            ratio = statistics.median(e / x for e, x in zip(taken[0.0], taken[share], strict=True))
            least = 20.0 if (what, share) == ("engine", 0.01) else None
            figures.append(Figure(f"{what}: tau = {share:.1%} against one tuple at a time", ratio, "x", least=least))
    series = {"seconds": {what: {str(k): v for k, v in taken.items()} for what, taken in seconds.items()}}
    return report("multijoin-lazy", figures, series | {"joined rows": rows, "tuples": MEASURED})


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
