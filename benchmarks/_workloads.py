"""The workloads of filters, and the floor: every condition of every query on every event, by brute force.

F is document 1's (section 3.2.8): five integer attributes in [0, 100), a predicate `<`, `<=`, `>` or `>=` on each with
probability 1/2. F-sel has five floats in [0, 1) and ranges over two or three of them that together accept 1 in 10,000.
Both are one family of five BETWEENs here; an attribute without a predicate has a range that accepts all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

import eddyline

Array = npt.NDArray[np.float64] | npt.NDArray[np.int64]
NAMES = "abcde"


def selective(queries: int, seed: int = 0) -> tuple[Array, Array]:
    """The low and high ends of F-sel, by query and attribute."""
    rng = np.random.default_rng(seed)
    low, high = np.full((queries, 5), -np.inf), np.full((queries, 5), np.inf)
    many = rng.integers(2, 4, queries)
    order = np.argsort(rng.random((queries, 5)), axis=1)
    for i in range(3):
        mine = np.nonzero(many > i)[0]
        width = 1e-4 ** (1 / many[mine])
        start = rng.random(len(mine)) * (1 - width)
        low[mine, order[mine, i]], high[mine, order[mine, i]] = start, start + width
    return low, high


def overlapping(queries: int, seed: int = 0) -> tuple[Array, Array]:
    """The low and high ends of F."""
    rng = np.random.default_rng(seed)
    has, op = rng.random((queries, 5)) < 0.5, rng.integers(0, 4, (queries, 5))
    constant = rng.integers(0, 100, (queries, 5))
    low = np.where(has & (op == 0), constant + 1, np.where(has & (op == 1), constant, 0))
    high = np.where(has & (op == 2), constant - 1, np.where(has & (op == 3), constant, 99))
    return low, high


KINDS = {"F-sel": ("DOUBLE", pa.float64(), selective), "F": ("INT", pa.int32(), overlapping)}


def events(kind: str, rows: int, rng: np.random.Generator) -> pa.Table:
    arrow = KINDS[kind][1]
    values = [rng.random(rows) if kind == "F-sel" else rng.integers(0, 100, rows) for _ in NAMES]
    columns = {n: pa.array(v).cast(arrow) for n, v in zip(NAMES, values, strict=True)}
    return pa.table(columns | {"ts": pa.array(np.zeros(rows, np.int64), pa.timestamp("us"))})


def queries_of(kind: str, queries: int) -> pa.Table:
    _, arrow, ends = KINDS[kind]
    low, high = ends(queries)
    columns = {"query": pa.array([f"q{i}" for i in range(queries)])}
    for i, n in enumerate(NAMES):
        columns |= {f"{n}0": pa.array(low[:, i]).cast(arrow), f"{n}1": pa.array(high[:, i]).cast(arrow)}
    return pa.table(columns)


def connection(kind: str, threads: int = 2) -> eddyline.Connection:
    """A connection with the stream and the family `f`, without queries."""
    type_ = KINDS[kind][0]
    db = eddyline.connect(threads=threads)
    columns = ", ".join(f"{n} {type_}" for n in NAMES)
    db.execute(f"CREATE STREAM s ({columns}, ts TIMESTAMP) WATERMARK ts")
    params = ", ".join(f"{n}0 {type_}, {n}1 {type_}" for n in NAMES)
    where = " AND ".join(f"{n} BETWEEN :{n}0 AND :{n}1" for n in NAMES)
    db.execute(f"CREATE QUERY FAMILY f ({params}) WITH (snapshot = 'no') AS SELECT a FROM s WHERE {where}")
    return db


def best(work: Callable[[], object], times: int = 3) -> float:
    """The shortest of several runs, in seconds."""
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return min(found)


@njit(nogil=True)
def _by_query(low: Array, high: Array, rows: Array, counts: npt.NDArray[np.int64]) -> None:
    """The ends of a query side by side, as a table of queries has them."""
    for r in range(len(rows)):
        total = 0
        for q in range(len(low)):
            held = True
            for a in range(5):
                held &= (low[q, a] <= rows[r, a]) & (rows[r, a] <= high[q, a])
            total += held
        counts[r] = total


@njit(nogil=True)
def _by_attribute(low: Array, high: Array, rows: Array, counts: npt.NDArray[np.int64]) -> None:
    """The ends of an attribute side by side, so that one instruction compares several queries."""
    for r in range(len(rows)):
        total = 0
        for q in range(low.shape[1]):
            held = True
            for a in range(5):
                held &= (low[a, q] <= rows[r, a]) & (rows[r, a] <= high[a, q])
            total += held
        counts[r] = total


def floor(kind: str, queries: int, rows: int = 1000) -> tuple[float, float]:
    """Events per second of brute force on two threads, by query and by attribute."""
    low, high = KINDS[kind][2](queries)
    rng = np.random.default_rng(1)
    given = rng.random((rows, 5)) if kind == "F-sel" else rng.integers(0, 100, (rows, 5))
    counts = np.zeros(rows, np.int64)
    turned = np.ascontiguousarray(low.T), np.ascontiguousarray(high.T)
    rates = []
    with ThreadPoolExecutor(2) as pool:
        for kernel, ends in ((_by_query, (low, high)), (_by_attribute, turned)):
            half = rows // 2

            def both(kernel: Callable[..., None] = kernel, ends: tuple[Array, Array] = ends, half: int = half) -> None:
                parts = (slice(0, half), slice(half, rows))
                list(pool.map(lambda s: kernel(*ends, given[s], counts[s]), parts))

            both()
            rates.append(rows / best(both))
    return rates[0], rates[1]
