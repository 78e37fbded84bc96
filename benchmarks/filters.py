"""Filters by the hundred thousand and the million: rates, growth, listing, registration, adding one, memory.

Rates go through `push` and `count_affected` (or `sets`), on two threads, against brute force in the same run.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from benchmarks._memory import resident
from benchmarks._report import Figure, report
from benchmarks._workloads import best, connection, events, floor, queries_of
from eddyline.index.runtime.vectors import bits_set

ROWS = {("F-sel", 10_000): 100_000, ("F-sel", 100_000): 100_000, ("F-sel", 1_000_000): 50_000}


def rates(kind: str, queries: int, rows: int) -> tuple[float, float]:
    """Events per second: counting the affected queries, and listing them as sets."""
    rng = np.random.default_rng(5)
    db = connection(kind)
    db.register("f", queries_of(kind, queries))
    for _ in range(2):  # the index is made, kernels are compiled, memory is in use
        db.push("s", events(kind, rows, rng)).sets("f")
        db.push("s", events(kind, rows, rng)).count_affected("f")
    given = events(kind, rows, rng)
    counted = best(lambda: db.push("s", given).count_affected("f"), 8)
    listed = best(lambda: db.push("s", given).sets("f"), 8)  # each is let go before the next, as a consumer does
    return rows / counted, rows / listed


@njit(nogil=True)
def _and_all(maps: npt.NDArray[np.uint64], places: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> None:
    """Five bitmaps of 64 words for every row and block, nothing else: what memory allows."""
    blocks, rows = len(maps), places.shape[1]
    for b in range(blocks):
        for r in range(rows):
            x, y, z, u, v = (maps[b, places[0, r]], maps[b, places[1, r]], maps[b, places[2, r]], maps[b, places[3, r]],
                             maps[b, places[4, r]])  # fmt: skip
            total = 0
            for w in range(64):
                total += bits_set(x[w] & y[w] & z[w] & u[w] & v[w])
            counts[r] += total


def bandwidth(queries: int, rows: int = 20_000) -> float:
    """Bytes per second that two threads read from bitmaps of workload F when they do nothing else."""
    rng = np.random.default_rng(8)
    maps = rng.integers(0, 2**63, (-(-queries // 4096), 505, 64)).astype(np.uint64)
    places = rng.integers(0, 101, (5, rows)) + 101 * np.arange(5)[:, None]
    counts = np.zeros(rows, np.int64)
    half = rows // 2
    with ThreadPoolExecutor(2) as pool:

        def both() -> None:
            parts = (slice(0, half), slice(half, rows))
            list(pool.map(lambda s: _and_all(maps, np.ascontiguousarray(places[:, s]), counts[s]), parts))

        both()
        return rows * len(maps) * 5 * 512 / best(both, 5)


def adding(queries: int) -> tuple[float, float, float]:
    """Seconds to register queries into a live index, to add one more, and what the push after that takes longer."""
    rng = np.random.default_rng(5)
    table, few = queries_of("F-sel", queries), events("F-sel", 1000, rng)
    db = connection("F-sel")
    db.register("f", queries_of("F-sel", 10).set_column(0, "query", pa.array([f"first{i}" for i in range(10)])))
    db.push("s", few).count()
    begun = time.perf_counter()
    db.register("f", table)
    db.push("s", few).count()
    registered = time.perf_counter() - begun
    without = np.median([best(lambda: db.push("s", few).count(), 1) for _ in range(20)])
    one, after = [], []
    for i in range(50):
        more = table.slice(i, 1).set_column(0, "query", pa.array([f"more{i}"]))
        begun = time.perf_counter()
        db.register("f", more)
        one.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        db.push("s", few).count()
        after.append(time.perf_counter() - begun)
    return registered, float(np.median(one)), float(np.median(after) - without)


def memory(queries: int) -> float:
    """Bytes a query of a process that holds them and has used them, in a process of its own."""
    code = f"from benchmarks.filters import _memory; print(_memory({queries}))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(found.stdout)


def _memory(queries: int) -> float:
    rng = np.random.default_rng(5)
    warm = connection("F-sel", threads=1)
    warm.register("f", queries_of("F-sel", 20_000))
    warm.push("s", events("F-sel", 2000, rng)).count()
    del warm
    table = queries_of("F-sel", queries)
    path = "/dev/shm/eddyline-queries.arrow"
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    del table
    gc.collect()
    pa.default_memory_pool().release_unused()
    before = resident()
    db = connection("F-sel", threads=1)
    with pa.OSFile(path) as source:  # read, so that the queries are this process's own memory
        db.register("f", pa.ipc.open_file(source).read_all())
    db.push("s", events("F-sel", 2000, rng)).count()
    gc.collect()
    pa.default_memory_pool().release_unused()
    return (resident() - before) / queries


def main() -> bool:
    figures = []
    by_query, by_attribute = floor("F-sel", 100_000)
    f_by_query, f_floor = floor("F", 100_000)
    found = {k: rates(*k, rows) for k, rows in ROWS.items()}
    counted, listed = found["F-sel", 100_000]
    figures += [
        Figure("F-sel, 100,000 queries: brute force, by query", by_query, "events/s"),
        Figure(
            "F-sel, 100,000 queries: brute force, by attribute, several queries an instruction",
            by_attribute,
            "events/s",
        ),
        Figure("F-sel, 100,000 queries: counted", counted, "events/s"),
        Figure("F-sel, 100,000 queries: times brute force by query", counted / by_query, "", least=100),
        Figure("F-sel, 100,000 queries: times brute force by attribute", counted / by_attribute, ""),
        Figure("F-sel, 100,000 queries: listing as sets, times counting", counted / listed, "", 2),
    ]
    growth = found["F-sel", 10_000][0] / found["F-sel", 1_000_000][0]
    figures += [
        Figure("F-sel, 10,000 queries: counted", found["F-sel", 10_000][0], "events/s"),
        Figure("F-sel, 1,000,000 queries: counted", found["F-sel", 1_000_000][0], "events/s"),
        Figure("F-sel: cost of an event at 1,000,000 queries, times that at 10,000", growth, "", 12),
        Figure(
            "F-sel, 1,000,000 queries: listing as sets, times counting",
            found["F-sel", 1_000_000][0] / found["F-sel", 1_000_000][1],
            "",
            2,
        ),
    ]
    counted, listed = rates("F", 100_000, 20_000)
    figures += [
        Figure("F, 100,000 queries: brute force, by query", f_by_query, "events/s"),
        Figure("F, 100,000 queries: brute force, by attribute", f_floor, "events/s"),
        Figure("F, 100,000 queries: counted", counted, "events/s"),
        Figure("F, 100,000 queries: times brute force by attribute", counted / f_floor, "", least=20),
        Figure("F, 100,000 queries: listing as sets, times counting", counted / listed, "", 2),
        Figure("F, 100,000 queries: bitmaps read", counted * 5 * 100_000 / 8 / 1e9, "GB/s"),
        Figure("F, 100,000 queries: as a share of what memory allows", counted * 62_500 / bandwidth(100_000), ""),
    ]
    registered, one, after = adding(1_000_000)
    figures += [
        Figure("a million queries registered into a live index, until the next result", registered, "s", 10),
        Figure("adding one query to a million", one * 1000, "ms", 1),
        Figure("the push after it, beyond a push after none", after * 1000, "ms"),
        Figure("memory of a query among a million, all in all", memory(1_000_000), "bytes", 150),
    ]
    return report("filters", figures)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
