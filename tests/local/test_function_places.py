"""User functions before, between and after the probes of a join of three or four inputs: one answer, the least cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.index.keys import sorted_runs
from eddyline.operators.evaluate import Failure
from eddyline.operators.joins import routed_functions, timed_route, tuple_lineage
from eddyline.operators.joins.routed_functions import RoutedFunctions
from eddyline.operators.joins.stem_join import StemJoin
from eddyline.operators.room import Room

Row = dict[str, int]
Batch = tuple[str, list[Row]]


class Clock:
    """It advances by a microsecond whenever it is read, and by what functions add to it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def perf_counter(self) -> float:
        self.seconds += 1e-6
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (routed_functions, timed_route, tuple_lineage):
        monkeypatch.setattr(module, "time", clock)
    return clock


def streams(names: str) -> eddyline.Connection:
    db = eddyline.connect(threads=1)
    for name in names:
        db.execute(f"CREATE STREAM {name} (a INT, b INT, ts TIMESTAMP) WATERMARK ts")
    return db


def table(rows: list[Row]) -> pa.Table:
    columns = {n: pa.array([r[n] for r in rows], pa.int32()) for n in "ab"}
    return pa.table(columns | {"ts": pa.array(np.zeros(len(rows), np.int64), pa.timestamp("us"))})


def join_of(db: eddyline.Connection) -> StemJoin:
    (running,) = db.engine.running.values()
    (join,) = [o for o in running.root.walk() if isinstance(o, StemJoin)]
    return join


def tactic(db: eddyline.Connection) -> RoutedFunctions:
    (routed,) = [t for tactics in join_of(db).tactics for t in tactics if isinstance(t, RoutedFunctions)]
    return routed


def force(monkeypatch: pytest.MonkeyPatch, place: Callable[[RoutedFunctions], int]) -> None:
    monkeypatch.setattr(RoutedFunctions, "place", lambda self, *_: place(self))


# answers

JOINS = {
    "three": ("xyz", "x.a = y.a AND y.b = z.b AND inverse(x.b) > :p"),
    "three, other conditions": ("xyz", "x.a = y.a AND y.b = z.b AND inverse(x.b) > :p AND z.a >= :p"),
    "three, two functions": ("xyz", "x.a = y.a AND y.b = z.b AND inverse(x.b) > :p AND inverse(z.a) >= :p"),
    "four": ("xyzv", "x.a = y.a AND y.b = z.b AND z.a = v.a AND inverse(x.b) > :p"),
    "four, scanned": ("xyzv", "x.a < y.a AND y.b = z.b AND z.a < v.a AND inverse(x.b) > :p AND y.a >= :p"),
}
BOUNDS = [0, 1, 2, 3]


def inverse(x: int) -> int:
    return 12 // x


def batches(names: str, seed: int) -> list[Batch]:
    """Random rows of all inputs, in random batches."""
    rnd, given = Random(seed), list[Batch]()
    for _ in range(3 * len(names)):
        rows = [{"a": rnd.randint(0, 3), "b": rnd.randint(0, 4)} for _ in range(rnd.randint(1, 6))]
        given.append((rnd.choice(names), rows))
    return given


def answer(names: str, condition: str, given: list[Batch]) -> tuple[list[Any], list[Any]]:
    """By batch, the rows in their order, and the queries that fail, with messages."""
    db = streams(names)
    db.function("inverse", inverse, ["INT"], "INT")
    columns = ", ".join(f"{n}.{c} AS {n}{c}" for n in names for c in "ab")
    db.execute(f"CREATE QUERY FAMILY f (p INT) AS SELECT {columns} FROM {', '.join(names)} WHERE {condition}")
    db.register("f", [{"query": f"q{i}", "p": p} for i, p in enumerate(BOUNDS)])
    failures: list[Failure] = []
    db.functions.failures = failures
    rows, failed = [], []
    for name, batch in given:
        rows.append([tuple(r.values()) for r in db.push(name, table(batch)).rows("f").to_pylist()])
        (running,) = db.engine.running.values()
        queries = running.family.queries.rows()
        failed.append([(f.message, queries.name_of(f.queries).to_pylist()) for f in failures])
        failures.clear()
    return rows, failed


def brute_force(given: list[Batch]) -> tuple[Counter[Any], set[str]]:
    """The rows of the join "four, scanned" by query, and the queries that fail: a row would be in the answer but for a
    failed call."""
    stored = [[r for name, batch in given if name == n for r in batch] for n in "xyzv"]
    rows, failed = Counter[Any](), set[str]()
    for x, y, z, v in product(*stored):
        for i, p in enumerate(BOUNDS):
            others = x["a"] < y["a"] and y["b"] == z["b"] and z["a"] < v["a"] and y["a"] >= p
            if others and x["b"] == 0:
                failed.add(f"q{i}")
            elif others and inverse(x["b"]) > p:
                rows[f"q{i}", *(row[c] for row in (x, y, z, v) for c in "ab")] += 1
    return rows, failed


@pytest.mark.parametrize("portion", [sorted_runs.PAIRS_AT_ONCE, 3])
@pytest.mark.parametrize("name", JOINS)
def test_neither_rows_nor_their_order_nor_failing_queries_depend_on_the_place(
    monkeypatch: pytest.MonkeyPatch, name: str, portion: int
) -> None:
    monkeypatch.setattr(sorted_runs, "PAIRS_AT_ONCE", portion)
    names, condition = JOINS[name]
    seen = 0
    for seed in range(4):
        given, rnd = batches(names, seed), Random(seed)
        force(monkeypatch, lambda routed: len(routed.route.probes))
        after = answer(names, condition, given)
        seen += sum(map(len, after[0]))
        for k in range(len(names) - 1):
            force(monkeypatch, lambda _, k=k: k)
            assert answer(names, condition, given) == after, f"seed {seed}, after {k} probes"
        force(monkeypatch, lambda routed, rnd=rnd: rnd.randint(0, len(routed.route.probes)))
        assert answer(names, condition, given) == after, f"seed {seed}, a place for each batch"
    assert seen > 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("place", range(4))
def test_rows_and_failing_queries_are_those_of_nested_loops(
    monkeypatch: pytest.MonkeyPatch, place: int, seed: int
) -> None:
    force(monkeypatch, lambda _: place)
    given = batches("xyzv", seed)
    rows, failures = answer(*JOINS["four, scanned"], given)
    joined, failed = brute_force(given)
    assert Counter((r[0], *r[-8:]) for batch in rows for r in batch) == joined
    assert {query for batch in failures for _, queries in batch for query in queries} == failed
    assert joined and failed


@pytest.mark.parametrize("name", ["three", "four, scanned"])
def test_the_place_does_not_change_what_counts_towards_the_memory_limit(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    own, counted = Room.take, list[tuple[Any, ...]]()
    monkeypatch.setattr(Room, "take", lambda self, *rows: (counted.append(rows), own(self, *rows)))
    names, condition = JOINS[name]
    by_place = []
    for place in range(len(names)):
        force(monkeypatch, lambda _, place=place: place)
        counted.clear()
        answer(names, condition, batches(names, 1))
        by_place.append(list(counted))
    assert by_place[0] and all(counted == by_place[0] for counted in by_place)


# calls


def joined(clock: Clock, first: int, second: int, passing: int) -> tuple[eddyline.Connection, list[int]]:
    """A join in which every `first`-th tuple has 2 partners in y, and every `second`-th of those 10 in z. The function
    takes 100 µs and accepts every `passing`-th tuple."""
    calls: list[int] = []

    def wanted(b: int) -> bool:
        calls.append(b)
        clock.seconds += 100e-6
        return b // (first * second) % passing == 0

    db = streams("xyz")
    db.function("wanted", wanted, ["INT"], "BOOLEAN")
    db.execute(
        "CREATE CONTINUOUS QUERY q WITH (order = 'x, y, z') AS "
        "SELECT x.b, z.b AS k FROM x, y, z WHERE x.a = y.a AND y.b = z.b AND wanted(x.b)"
    )
    db.push("y", table([{"a": a, "b": a} for a in (1, 2) for _ in range(2)]))
    db.push("z", table([{"a": i, "b": 2} for i in range(10)]))
    return db, calls


def arriving(first: int, second: int, count: int) -> pa.Table:
    """Tuples that match neither input (a = 0), y alone (1), or y and z (2)."""
    met = [int(i % first == 0) + int(i % (first * second) == 0) for i in range(count)]
    return table([{"a": a, "b": i} for i, a in enumerate(met)])


@pytest.mark.parametrize(
    ("first", "second", "passing", "place"),
    [
        (100, 1, 2, 1),  # the first probe saves nearly all calls, the second none
        (20, 10, 2, 2),  # both save calls
        (1, 50, 2, 2),  # only the second one does
        (1, 1, 2, 0),  # no probe saves calls, so functions save probes
    ],
)
def test_functions_are_called_after_the_probes_that_save_calls(
    clock: Clock, first: int, second: int, passing: int, place: int
) -> None:
    db, calls = joined(clock, first, second, passing)
    met = {0: 1, 1: first, 2: first * second}[place]
    for _ in range(2):
        calls.clear()
        assert db.push("x", arriving(first, second, 2000)).count() == 20 * (2000 // (first * second * passing))
        assert sorted(calls) == list(range(0, 2000, met))
    assert tactic(db).places == Counter({place: 4000})
    shares = [f"{float(100 * (k == place)):.1f}%" for k in range(3)]
    expected = f"{shares[0]} of 4000 tuples called functions before they probed, {shares[1]} after 1 probe, {shares[2]}"
    assert f"{expected} after 2 probes" in db.explain("q", analyze=True)


def test_the_place_follows_the_data(clock: Clock) -> None:
    db, _ = joined(clock, 100, 1, 2)
    db.push("x", arriving(100, 1, 2000))
    for _ in range(20):
        db.push("x", arriving(1, 1, 2000))
    routed = tactic(db)
    before = routed.places.copy()
    db.push("x", arriving(1, 1, 2000))
    assert before[1] > 0 and routed.places - before == Counter({0: 2000})


@pytest.mark.parametrize("place", range(3))
def test_a_tuple_meets_functions_once_in_whatever_portions_its_partners_come(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, place: int
) -> None:
    monkeypatch.setattr(sorted_runs, "PAIRS_AT_ONCE", 3)
    force(monkeypatch, lambda _: place)
    db, calls = joined(clock, 2, 2, 1)
    assert db.push("x", arriving(2, 2, 40)).count() == 10 * 20
    assert sorted(calls) == list(range(0, 40, max(1, 2 * place)))


def test_survivors_that_functions_reject_are_sampled_without_effect(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    force(monkeypatch, lambda _: 1)
    db, calls = joined(clock, 2, 2, 1)
    db.function("wanted", lambda b: bool(calls.append(b)), ["INT"], "BOOLEAN")
    counts = join_of(db).stems.counts
    assert db.push("x", arriving(2, 2, 400)).count() == 0 and len(calls) == 200
    assert tactic(db).route.account(1).selectivity == pytest.approx(0.5, abs=0.05)
    assert counts.steps[0, 1].probing == 400 and (0, 1, 2) not in counts.steps


def test_probes_of_another_order_are_measured_anew(clock: Clock) -> None:
    db, calls = joined(clock, 100, 1, 2)
    routed, join = tactic(db), join_of(db)
    db.push("x", arriving(100, 1, 2000))
    join.reorder([[2, 1], [0, 2], [1, 0]], ())
    assert not routed.route.known(0)
    calls.clear()
    assert db.push("x", arriving(100, 1, 2000)).count() == 20 * 10
    assert routed.route.known(0) and len(calls) <= 2000
