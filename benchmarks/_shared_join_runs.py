"""One run of three-way joins over 15 streams, in a process of its own, by the public API of the engine only.

It imports `eddyline` from the tree that PYTHONPATH names, so that two versions can be compared. It writes one JSON
object per line. After a line with "waits" it reads a line before it goes on: meanwhile the parent reads the memory of
this process from outside.

Usage: python _shared_join_runs.py SETTINGS, a JSON object with the fields of `Settings`.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import time
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

STREAMS = 15
TRIPLES = list(combinations(range(STREAMS), 3))  # 455
DISJOINT = [TRIPLES.index((s, s + 1, s + 2)) for s in range(0, STREAMS, 3)]  # 5: every stream in exactly one
MILLISECOND = 1000  # microseconds; every stream has one row a millisecond

Words = npt.NDArray[np.uint64]
Rows = dict[str, npt.NDArray[Any]]
Answer = dict[int, Rows]  # by query: op (1 or -1), ts, exp, k, v0, v1, v2


@dataclass(frozen=True)
class Settings:
    """`joins`: all 455 triples, the 5 disjoint ones that store every stream once, or all 455 by intermediate indexes
    (`yardsticks/intermediate_indexes.py`). `pushes`: pairs of (rows a push, pushes), after the windows are full."""

    joins: Literal["all", "disjoint", "intermediate"]
    window: int  # rows of a stream, and values of k: a row has one partner in each other stream on average
    pushes: list[list[int]]
    share: float  # of the values of v that the range of a query selects
    fill: int = 10_000  # rows a push
    settle: int = 0  # such pushes after the windows are full and before anything is measured
    extra: Literal["no", "control", "added"] = "no"  # further pushes at the end, without and with further queries


def mixed(x: Words) -> Words:
    """A 64-bit hash of every word (splitmix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def stream_rows(stream: int, start: int, count: int, keys: int) -> Rows:
    """Rows `start` to `start + count` of a stream: the same in every run, however they are cut into batches."""
    at = np.arange(start, start + count, dtype=np.uint64)
    k = mixed(at * np.uint64(2 * STREAMS) + np.uint64(2 * stream)) % np.uint64(keys)
    v = mixed(at * np.uint64(2 * STREAMS) + np.uint64(2 * stream + 1)) >> np.uint64(11)
    return {"k": k.astype(np.int64), "v": v.astype(np.float64) * 2.0**-53, "ts": at.astype(np.int64) * MILLISECOND}


def selection(query: int, share: float) -> tuple[int, float, float]:
    """Which of its three streams a query selects from, and its range of v: every query has its own."""
    low = round(query * 0.6180339887498949 % 1.0 * (1.0 - share), 6)
    return query % 3, low, round(low + share, 6)


def text(query: int, settings: Settings, condition: str | None = None) -> str:
    streams = TRIPLES[query]
    which, low, high = selection(query, settings.share)
    a, b, c = (f"s{s}" for s in streams)
    sources = ", ".join(f"{s} [RANGE {settings.window} MILLISECONDS]" for s in (a, b, c))
    condition = condition or f"s{streams[which]}.v >= {low} AND s{streams[which]}.v < {high}"
    return (
        f"SELECT {a}.k, {a}.v AS v0, {b}.v AS v1, {c}.v AS v2 FROM {sources} "
        f"WHERE {a}.k = {b}.k AND {b}.k = {c}.k AND {condition}"
    )


def answer_hash(answer: Answer) -> int:
    """A sum over all rows that does not depend on their order, and in which a retraction cancels its row."""
    total = 0
    for query, rows in answer.items():
        words = np.full(len(rows["op"]), query, np.uint64)
        for name in ("ts", "exp", "k", "v0", "v1", "v2"):
            words = mixed(words ^ np.ascontiguousarray(rows[name]).view(np.uint64))
        plus = rows["op"] > 0
        total += int(words[plus].sum(dtype=np.uint64)) - int(words[~plus].sum(dtype=np.uint64))
    return total % 2**64


class Engine(Protocol):
    def push(self, stream: int, rows: Rows) -> tuple[float, float, Answer]:
        """Seconds until the changes are counted and until their rows are read, and the rows."""
        ...


class Eddyline:
    def __init__(self, settings: Settings) -> None:
        import eddyline

        self.settings = settings
        self.db = eddyline.connect()
        for s in range(STREAMS):
            self.db.execute(f"CREATE STREAM s{s} (k BIGINT, v DOUBLE, ts TIMESTAMP) WATERMARK ts")

    def register(self) -> None:
        queries = range(len(TRIPLES)) if self.settings.joins == "all" else DISJOINT
        began = time.perf_counter()
        for q in queries:
            self.db.execute(f"CREATE CONTINUOUS QUERY q{q} AS {text(q, self.settings)}")
        tell(event="registered", queries=len(queries), seconds=time.perf_counter() - began)

    def push(self, stream: int, rows: Rows) -> tuple[float, float, Answer]:
        table = pa.table({**rows, "ts": pa.array(rows["ts"], pa.timestamp("us"))})
        began = time.perf_counter()
        changes = self.db.push(f"s{stream}", table)
        count = changes.count()
        counted = time.perf_counter()
        tables = {name: changes.rows(name) for name in changes.queries()}
        read = time.perf_counter()
        if sum(t.num_rows for t in tables.values()) != count:
            raise AssertionError("the rows are not as many as were counted")
        return counted - began, read - began, {int(n[1:]): _columns(t) for n, t in tables.items() if n[0] == "q"}

    def drop(self, name: str) -> None:
        self.db.execute(f"DROP CONTINUOUS QUERY {name}")

    def add(self, name: str, condition: str) -> float:
        """Seconds until a further query over the first triple runs and its initial answer is counted."""
        began = time.perf_counter()
        self.db.execute(f"CREATE CONTINUOUS QUERY {name} AS {text(0, self.settings, condition)}").count()
        return time.perf_counter() - began


def _columns(table: pa.Table) -> Rows:
    op = np.where(table.column("op").to_numpy(zero_copy_only=False) == "+", 1, -1)
    return {"op": op} | {n: table.column(n).to_numpy() for n in ("ts", "exp", "k", "v0", "v1", "v2")}


class Intermediates:
    def __init__(self, settings: Settings) -> None:
        from benchmarks.yardsticks.intermediate_indexes import IntermediateIndexes

        self.settings, self.window = settings, settings.window * MILLISECOND
        self.indexes = IntermediateIndexes(STREAMS, self.window)
        self.queries = {streams: q for q, streams in enumerate(TRIPLES)}

    def push(self, stream: int, rows: Rows) -> tuple[float, float, Answer]:
        """Results are built as they are found, so counting and reading take the same time."""
        began, answer = time.perf_counter(), Answer()
        for streams, joined in self.indexes.push(stream, rows["k"], rows["v"], rows["ts"]):
            query = self.queries[streams]
            which, low, high = selection(query, self.settings.share)
            own = joined.take((joined.v[which] >= low) & (joined.v[which] < high))
            if len(own):
                values = {f"v{i}": own.v[i] for i in range(3)}
                times = {"ts": own.latest, "exp": own.earliest + self.window}
                answer[query] = {"op": np.ones(len(own)), "k": own.k} | times | values
        seconds = time.perf_counter() - began
        return seconds, seconds, answer


def tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def wait(name: str, **what: Any) -> None:
    """Releases what is free, and lets the parent read the memory of this process."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    tell(waits=name, **what)
    sys.stdin.readline()


class Run:
    def __init__(self, settings: Settings, engine: Engine) -> None:
        self.settings, self.engine = settings, engine
        self.pushed, self.turn, self.hash, self.results = [0] * STREAMS, 0, 0, 0

    def pushes(self, rows: int, count: int) -> list[tuple[float, float]]:
        """Pushes to the streams in turn; seconds until counted and until read, of each."""
        taken = []
        for _ in range(count):
            stream, self.turn = self.turn, (self.turn + 1) % STREAMS
            batch = stream_rows(stream, self.pushed[stream], rows, self.settings.window)
            self.pushed[stream] += rows
            counted, read, answer = self.engine.push(stream, batch)
            taken.append((counted, read))
            self.results += sum(len(a["op"]) for a in answer.values())
            self.hash = (self.hash + answer_hash(answer)) % 2**64
        return taken

    def fill(self) -> None:
        """Pushes a whole window of every stream."""
        for _ in range(-(-self.settings.window // self.settings.fill)):
            self.pushes(self.settings.fill, STREAMS)


def measure(settings: Settings) -> None:
    engine = Intermediates(settings) if settings.joins == "intermediate" else Eddyline(settings)
    wait("empty")
    if isinstance(engine, Eddyline):
        engine.register()
        wait("registered")
    run = Run(settings, engine)
    run.fill()
    run.pushes(settings.fill, settings.settle)  # orders of probes follow the data
    for rows, count in settings.pushes:
        before, taken = run.results, run.pushes(rows, count)
        tell(event="pushed", rows=rows, pushes=count, seconds=taken, results=run.results - before)
    state = engine.indexes.state() if isinstance(engine, Intermediates) else {}
    wait("full", **state)
    tell(event="answers", hash=f"{run.hash:016x}", results=run.results, pushed=sum(run.pushed))
    if settings.extra != "no" and isinstance(engine, Eddyline):
        add_queries(run, engine)


def add_queries(run: Run, engine: Eddyline) -> None:
    """Adds queries to those that run: a second selection over a triple, and a condition of another shape. Memory is
    read at once, and again after a whole window of every stream, when the state of a query has its full size. A control
    makes the same pushes and adds none: memory also changes with the moment at which segments are merged. Both add
    and drop two such queries first, because the first of a kind loads kernels, which a process does once."""
    first = {"first_selection": "s0.v >= 0.55 AND s0.v < 0.59", "first_shape": "s0.v + s2.v > s1.v"}
    for name, condition in first.items():
        engine.add(name, condition)
    run.fill()
    wait("kernels loaded")
    for name in first:
        engine.drop(name)
    run.fill()
    wait("steady")
    for kind, condition in {"selection": "s0.v >= 0.15 AND s0.v < 0.19", "shape": "s0.v + s1.v > s2.v"}.items():
        seconds = engine.add(kind, condition) if run.settings.extra == "added" else 0.0
        wait(f"{kind} added", seconds=seconds)
        run.fill()
        wait(f"{kind} steady")


if __name__ == "__main__":
    measure(Settings(**json.loads(sys.argv[1])))
