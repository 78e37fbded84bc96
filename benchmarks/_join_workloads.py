"""The workloads of joins over ranges: document 4's Table I, and the floor: every query on every tuple, by brute force.

R(A, B) arrives; S(B, C) is there. Attributes are integers: R.B uniform in 0 … 10,000, S.B normal around 5,000 with
deviation 1,000, R.A and S.C uniform in 0 … 1,000,000. Select joins ask R.B = S.B and a range over R.A and one over S.C;
band joins ask for a range of S.B - R.B.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

import eddyline
from benchmarks._workloads import best
from eddyline.arrays import Ints

SPACE = 1_000_000
KEYS = 10_000
STREAMS = """
CREATE STREAM r (a INT, b INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS;
CREATE STREAM s (b INT, c INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS;
"""
FAMILIES = {
    "select": "CREATE QUERY FAMILY f (a1 INT, a2 INT, c1 INT, c2 INT) WITH (snapshot = 'no', strategy = '{}') AS "
    "SELECT r.a, s.c FROM r [RANGE 1 HOUR], s "
    "WHERE r.b = s.b AND r.a BETWEEN :a1 AND :a2 AND s.c BETWEEN :c1 AND :c2",
    "band": "CREATE QUERY FAMILY f (lo INT, hi INT) WITH (snapshot = 'no', strategy = '{}') AS "
    "SELECT r.a, s.c FROM r [RANGE 1 HOUR], s WHERE s.b - r.b BETWEEN :lo AND :hi",
}


@dataclass(frozen=True)
class Queries:
    """The ends of the queries' ranges: along the axis (S.C, or S.B - R.B), and over R.A for select joins."""

    low: Ints
    high: Ints
    own_low: Ints
    own_high: Ints

    def __len__(self) -> int:
        return len(self.low)


def ranges(middle: npt.NDArray[Any], length: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    half = np.maximum(length, 0) / 2
    return np.round(middle - half).astype(np.int64), np.round(middle + half).astype(np.int64)


def select_joins(
    rng: np.random.Generator, n: int, *, length: float = 47_000, spread: float = 5_200, accepted: float = 0.1
) -> Queries:
    """Ranges over S.C so long; ranges over R.A that accept a tuple with this share, on average over its attribute."""
    low, high = ranges(rng.uniform(0, SPACE, n), rng.normal(length, spread, n))
    middle = np.clip(rng.normal(SPACE / 2, SPACE / 5, n), 0, SPACE)
    own_low, own_high = ranges(middle, rng.normal(accepted * SPACE, accepted * SPACE / 10, n))
    return Queries(low, high, own_low, own_high)


def band_joins(rng: np.random.Generator, n: int, *, length: float = 500, spread: float = 40) -> Queries:
    low, high = ranges(rng.uniform(-KEYS, KEYS, n), rng.normal(length, spread, n))
    nothing = np.zeros(n, np.int64)
    return Queries(low, high, nothing, nothing)


def rows_of_s(rng: np.random.Generator, n: int, deviation: float = 1_000) -> tuple[Ints, Ints]:
    """S.B and S.C."""
    b = np.clip(np.round(rng.normal(KEYS / 2, deviation, n)), 0, KEYS).astype(np.int64)
    return b, rng.integers(0, SPACE, n)


def tuples_of_r(rng: np.random.Generator, n: int) -> tuple[Ints, Ints]:
    """R.A and R.B."""
    return rng.integers(0, SPACE, n), rng.integers(0, KEYS + 1, n)


def connection(kind: str, queries: Queries, s: tuple[Ints, Ints], strategy: str = "auto", threads: int = 2) -> Any:
    """A connection with the queries, and S filled."""
    db = eddyline.connect(threads=threads)
    db.execute(STREAMS + FAMILIES[kind].format(strategy))
    names = ("c1", "c2", "a1", "a2") if kind == "select" else ("lo", "hi")
    ends = (queries.low, queries.high, queries.own_low, queries.own_high)
    columns = {n: e.astype(np.int32) for n, e in zip(names, ends, strict=False)}
    db.register("f", pa.table({"query": [f"q{i}" for i in range(len(queries))]} | columns))
    db.push("s", pa.table({"b": s[0].astype(np.int32), "c": s[1].astype(np.int32), "ts": _times(len(s[0]))}))
    return db


def batch_of_r(a: Ints, b: Ints) -> pa.Table:
    return pa.table({"a": a.astype(np.int32), "b": b.astype(np.int32), "ts": _times(len(a))})


def _times(n: int) -> pa.Array:
    return pa.array(np.zeros(n, np.int64), pa.timestamp("us"))


# the floor


def floor(
    kind: str, queries: Queries, s: tuple[Ints, Ints], r: tuple[Ints, Ints], threads: int = 2
) -> tuple[float, float]:
    """Tuples per second of brute force, and how many queries a tuple affects on average."""
    order = np.lexsort((s[1], s[0]))
    b, c = s[0][order], s[1][order]
    counts = np.zeros(len(r[0]), np.int64)
    by_low = np.argsort(queries.low)  # searches that follow one another are near one another: twice as fast
    queries = Queries(*(e[by_low] for e in (queries.low, queries.high, queries.own_low, queries.own_high)))
    cuts = np.linspace(0, len(counts), threads + 1).astype(int)

    def work(start: int, stop: int) -> None:
        if kind == "band":
            _band(queries.low, queries.high, b, r[1][start:stop], counts[start:stop])
        else:
            ends = queries.low, queries.high, queries.own_low, queries.own_high
            _select(*ends, b, c, r[0][start:stop], r[1][start:stop], counts[start:stop])

    with ThreadPoolExecutor(threads) as pool:

        def run() -> None:
            list(pool.map(work, cuts[:-1], cuts[1:]))

        run()
        return len(counts) / best(run, 3), float(counts.mean())


@njit(nogil=True)
def _first(values: Ints, start: int, stop: int, x: int) -> int:
    """The first place with a value of at least x, without a branch that depends on one."""
    n = stop - start
    while n > 1:
        half = n >> 1
        start += half * (values[start + half - 1] < x)
        n -= half
    return start + (n == 1 and values[start] < x)


@njit(nogil=True)
def _select(
    low: Ints, high: Ints, own_low: Ints, own_high: Ints, b: Ints, c: Ints, ra: Ints, rb: Ints, counts: Ints
) -> None:
    """Every query whose range on R accepts the tuple searches the sorted joining rows."""
    for i in range(len(counts)):
        start, stop = np.searchsorted(b, rb[i]), np.searchsorted(b, rb[i], side="right")
        found = 0
        for q in range(len(low)):
            if own_low[q] <= ra[i] <= own_high[q]:
                k = _first(c, start, stop, low[q])
                found += k < stop and c[k] <= high[q]
        counts[i] = found


@njit(nogil=True)
def _band(low: Ints, high: Ints, b: Ints, rb: Ints, counts: Ints) -> None:
    """Every query searches S."""
    for i in range(len(counts)):
        found = 0
        for q in range(len(low)):
            k = _first(b, 0, len(b), rb[i] + low[q])
            found += k < len(b) and b[k] <= rb[i] + high[q]
        counts[i] = found
