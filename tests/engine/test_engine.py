"""An engine driven directly: actions and rows go in, parts come out, and a failing family fails alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.engine.actions import Action, AddQueries, AddQuery, ChangeTable, Define, DropQueries, NewFamily
from eddyline.engine.definitions import Definitions
from eddyline.engine.engine import Engine
from eddyline.engine.failures import FamilyFailure
from eddyline.engine.family import Family
from eddyline.engine.parts import Part
from eddyline.engine.running_family import EngineOptions, RunningFamily, arrived
from eddyline.state.delta import Delta, query_of

SECOND = 1_000_000
STREAM = "CREATE STREAM s (k INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 1 SECONDS"
TABLE = "CREATE TABLE t (k INT PRIMARY KEY, name STRING)"
FILTER = "CREATE QUERY FAMILY above (lo INT) AS SELECT k FROM s WHERE k > :lo"
COUNT = "CREATE QUERY FAMILY counts (lo INT) AS SELECT COUNT(*) AS n FROM s [RANGE 10 SECONDS] WHERE k > :lo"
JOIN = "CREATE QUERY FAMILY names (lo INT) AS SELECT name FROM t WHERE k > :lo"


class Contained:
    """A guard that contains everything, and fails the families that it is told to."""

    def __init__(self) -> None:
        self.failing: set[str] = set()

    def start(self, family: Family, build: Callable[[], RunningFamily]) -> Any:
        return FamilyFailure(family.name, "cannot start") if family.name in self.failing else build()

    def attempt(self, running: RunningFamily, work: Callable[[], Any]) -> Any:
        name = running.family.name
        return FamilyFailure(name, "has failed") if name in self.failing else work()


def engine(*families: str, **options: Any) -> tuple[Engine, Contained]:
    guard = Contained()
    made = Engine(Definitions(), guard, EngineOptions(**options))
    actions: list[Action] = [Define(STREAM), Define(TABLE)]
    for i, sql in enumerate(families):
        actions += [NewFamily(i + 1, sql.split()[3], "declared", sql), queries(i + 1, 0, 5)]
    for action in actions:
        made.apply(action)
    return made, guard


def queries(family: int, *bounds: int) -> AddQueries:
    names = pa.array([f"q{family}_{b}" for b in bounds])
    return AddQueries(family, names, (pa.array(bounds, pa.int32()),))


def tuples(made: Engine, *rows: tuple[int, int]) -> Delta:
    """(k, seconds) as tuples of the stream, whose clock is moved."""
    ts = np.array([s * SECOND for _, s in rows])
    columns = [pa.array([k for k, _ in rows], pa.int32()), pa.array(ts).cast(pa.timestamp("us"))]
    made.clocks.streams["s"].arrive(ts)
    return arrived(columns, ts, made.arrivals)


def changes(parts: list[Any]) -> list[tuple[str, int, int, Any]]:
    """(family, query, sign, first column) of all changes."""
    listed = []
    for part in parts:
        resolved: Part = part.resolve()
        delta = resolved.delta.spread()
        values = delta.columns[0].to_pylist()
        listed += [
            (resolved.family.name, int(q), int(s), v)
            for q, s, v in zip(query_of(delta), delta.sign, values, strict=True)
        ]
    return sorted(listed, key=repr)


def test_tuples_reach_the_queries_that_accept_them() -> None:
    made, _ = engine(FILTER)
    assert changes(made.arrive("s", tuples(made, (3, 0), (7, 0)))) == [
        ("above", 0, 1, 3),
        ("above", 0, 1, 7),
        ("above", 1, 1, 7),
    ]


@pytest.mark.parametrize("results", ["deferred", "at once"])
def test_what_depends_on_order_waits_for_the_clock(results: str) -> None:
    made, _ = engine(COUNT, results=results)
    assert changes(made.arrive("s", tuples(made, (3, 10), (7, 10)))) == []
    assert made.clocks.of(["s"]) == 9 * SECOND
    assert changes(made.advance(10 * SECOND)) == [
        ("counts", 0, -1, 0),
        ("counts", 0, 1, 2),
        ("counts", 1, -1, 0),
        ("counts", 1, 1, 1),
    ]


def test_a_query_sees_tuples_that_arrive_after_it_and_tables_as_they_are() -> None:
    made, _ = engine(FILTER, JOIN)
    made.arrive("s", tuples(made, (9, 0)))
    assert made.apply(queries(1, 2)) == []
    assert changes(made.arrive("s", tuples(made, (4, 1)))) == [("above", 0, 1, 4), ("above", 2, 1, 4)]
    row = (pa.array([3], pa.int32()), pa.array(["three"]))
    assert changes(made.apply(ChangeTable("t", np.empty(0, np.int64), row))) == [("names", 0, 1, "three")]
    assert changes(made.apply(queries(2, 1))) == [("names", 2, 1, "three")]


def test_an_initial_answer_is_as_of_its_registration_however_late_it_is_asked_for() -> None:
    made, _ = engine(JOIN)
    row = (pa.array([3], pa.int32()), pa.array(["three"]))
    made.apply(ChangeTable("t", np.empty(0, np.int64), row))
    asked_later = made.apply(queries(1, 1))
    dropped_before = made.apply(queries(1, 2))
    made.apply(DropQueries(1, np.array([3])))
    made.apply(ChangeTable("t", np.array([0]), tuple(c[:0] for c in row)))
    assert changes(asked_later) == [("names", 2, 1, "three")]
    assert changes(dropped_before) == [("names", 3, 1, "three")]


def test_a_family_that_fails_does_so_alone_and_starts_again_with_new_queries() -> None:
    made, guard = engine(FILTER, COUNT)
    guard.failing = {"counts"}
    parts = made.arrive("s", tuples(made, (7, 10)))
    assert changes([p for p in parts if p.family.name == "above"]) == [("above", 0, 1, 7), ("above", 1, 1, 7)]
    assert [p.outcome for p in parts if p.family.name == "counts"] == [FamilyFailure("counts", "has failed")]
    assert list(made.running) == [1] and list(made.failed) == [2]
    assert [p.family.name for p in made.arrive("s", tuples(made, (8, 11)))] == ["above"]
    guard.failing = set()
    made.apply(AddQuery(2, "new", (0,)))
    assert list(made.running) == [1, 2] and not made.failed


def test_a_family_that_cannot_start_leaves_the_others_alone() -> None:
    made, guard = engine(FILTER)
    guard.failing = {"counts"}
    made.apply(NewFamily(2, "counts", "declared", COUNT))
    assert list(made.running) == [1] and made.failed == {2: FamilyFailure("counts", "cannot start")}


def test_families_run_only_where_they_are_placed() -> None:
    made = Engine(Definitions(), Contained(), EngineOptions(), runs=lambda family: family.number == 2)
    for action in (
        Define(STREAM),
        NewFamily(1, "above", "declared", FILTER),
        NewFamily(2, "counts", "declared", COUNT),
    ):
        made.apply(action)
    assert list(made.running) == [2]


def test_a_restored_family_goes_on_where_the_saved_one_was() -> None:
    made, _ = engine(COUNT)
    made.arrive("s", tuples(made, (7, 10)))
    running = made.running[1]
    again, _ = engine()
    with again.restoring():
        again.definitions.apply(NewFamily(1, "counts", "declared", COUNT))
        again.definitions.apply(queries(1, 0, 5))
    assert not again.running
    again.clocks.load(*made.clocks.save())
    again.restore(again.definitions.families[1], running.save(), running.clock, running.changes)
    assert changes(again.advance(10 * SECOND)) == changes(made.advance(10 * SECOND)) != []
