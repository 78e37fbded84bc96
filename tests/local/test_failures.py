"""A family whose operators fail is set apart and told; the others take every step as if it were not there."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import eddyline
from eddyline.local.connection import Connection
from eddyline.operators.base import Operator, Step
from eddyline.state.delta import Delta
from tests.local.common import at, random_rows, row, world

QUERIES = {
    "filter": "SELECT a, n FROM s WHERE a > 0",
    "join": "SELECT r.a, s.b FROM r [RANGE 9 SECONDS], s [RANGE 9 SECONDS] WHERE r.a = s.a",
    "band": "SELECT r.a, s.b FROM r [RANGE 9 SECONDS], s [RANGE 9 SECONDS] WHERE s.b - r.b BETWEEN 0 AND 1",
    "grouped": "SELECT a, COUNT(*) AS k, SUM(b) AS v FROM s [RANGE 9 SECONDS] GROUP BY a",
    "distinct_": "SELECT DISTINCT a FROM r",
    "latest": "SELECT a, b FROM s [ROWS 3]",
    "table_": "SELECT s.a, t.n FROM s, t WHERE s.a = t.a",
    "rows_": "SELECT a, n FROM t",
}


def standing(*without: str) -> Connection:
    db = world(delay=2)
    for name, text in QUERIES.items():
        if name not in without:
            db.execute(f"CREATE CONTINUOUS QUERY {name} AS {text}")
    return db


def breaks(db: Connection, query: str, raised: BaseException, after: int = 0) -> None:
    """The family's operators raise in the step after so many others, when half of their work is done."""
    family, _ = db.registry.query(query)
    running = db.engine.running[family.number]
    root, left = running.root, [after]

    class Broken(Operator):
        def pull(self, step: Step) -> Delta:
            found = root.pull(step)
            if left[0] == 0:
                raise raised
            left[0] -= 1
            return found

    running.root, running.pool_filter = Broken(root.node, (root,)), None


def steps(rnd: Random) -> list[Callable[[Any], Any]]:
    """Pushes of one stream and of both, changes of a table and passing time."""
    made: list[Callable[[Any], Any]] = []
    for second in range(8):
        rows, more = (random_rows(rnd, [second + rnd.choice([-2.5, -1, 0, 0.5]) for _ in range(4)]) for _ in "rs")
        made.append(lambda db, rows=rows, more=more: db.push({"r": rows, "s": more}))
        made.append(lambda db, rows=rows: db.push("s", rows))
        value = rnd.randint(0, 3)
        made.append(lambda db, value=value: db.execute(f"INSERT INTO t VALUES ({value}, 'z'), (1, 'y')"))
        made.append(lambda db, value=value: db.execute(f"UPDATE t SET n = 'w' WHERE a = {value}"))
        made.append(lambda db, second=second: db.advance(at(second)))
    return made


def told(changes: Any, queries: list[str]) -> dict[str, list[Any]]:
    return {q: changes.rows(q).to_pylist() for q in queries}


@pytest.mark.filterwarnings("ignore::eddyline.FamilyWarning")
@pytest.mark.parametrize("raised", [ValueError("a bug"), MemoryError("no room"), ZeroDivisionError()], ids=repr)
@pytest.mark.parametrize("bad", QUERIES)
def test_whatever_one_family_raises_the_others_answer_as_without_it(bad: str, raised: Exception) -> None:
    seed = len(bad)
    db, alone = standing(), standing(bad)
    others = [q for q in QUERIES if q != bad]
    breaks(db, bad, raised, after=seed % 4)
    for i, step in enumerate(steps(Random(seed))):
        changes, expected = step(db), step(alone)
        assert told(changes, others) == told(expected, others), f"step {i}"
    for q in others:
        assert db.snapshot(q).to_pylist() == alone.snapshot(q).to_pylist()
    assert [f.family for f in changes.failures()] == [db.registry.query(bad)[0].name]
    assert db.late("s").to_pylist() == alone.late("s").to_pylist()


def test_a_family_that_fails_is_told_once_by_a_warning_and_always_by_an_error() -> None:
    db = standing()
    breaks(db, "grouped", ValueError("a bug"))
    with pytest.warns(
        eddyline.FamilyWarning, match="'family_4' failed and is in quarantine: ValueError: a bug"
    ) as seen:
        changes = db.push("s", [row(1)])
    assert seen[0].filename == __file__
    later = db.push("s", [row(2)])
    for found in (changes, later):
        assert [(f.family, f.error) for f in found.failures()] == [("family_4", "ValueError: a bug")]
        for ask in (found.rows, found.compact, found.affected, found.count_affected, found.sets):
            with pytest.raises(eddyline.FamilyError, match="ValueError: a bug"):
                ask("grouped")
        with pytest.raises(eddyline.FamilyError):
            found.rows("family_4")
        assert found.rows("filter").num_rows == 1 and "filter" in found.queries() and found.count() > 0
    for refused in (
        lambda: db.snapshot("grouped"),
        lambda: db.execute(f"CREATE CONTINUOUS QUERY again AS {QUERIES['grouped']}"),
    ):
        with pytest.raises(eddyline.FamilyError, match=r"(?s)'family_4' failed .*resume"):
            refused()
    families = {f["family"]: f["error"] for f in db.execute("SHOW FAMILIES").to_pylist()}
    assert [n for n, e in families.items() if e] == ["family_4"] and "a bug" in families["family_4"]
    assert [q["query"] for q in db.execute("SHOW QUERIES").to_pylist() if q["error"]] == ["grouped"]
    assert db.stats()["failed"] == {"family_4": "ValueError: a bug"}
    assert "in quarantine: ValueError: a bug" in db.explain("grouped", analyze=True)


def test_a_warning_that_is_an_error_comes_after_all_families_have_taken_the_step() -> None:
    db = standing()
    breaks(db, "filter", ValueError())
    with warnings.catch_warnings(), pytest.raises(eddyline.FamilyWarning):
        warnings.simplefilter("error")
        db.push("s", [row(1), row(2)])
    db.advance(at(2))
    assert db.snapshot("latest").num_rows == 2


def test_an_interruption_reaches_the_user_after_all_other_families_have_taken_the_step() -> None:
    db = standing()
    breaks(db, "filter", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        db.push("s", [row(1), row(2)])
    db.advance(at(2))
    assert db.snapshot("latest").num_rows == 2
    assert db.stats()["failed"] == {"family_1": "KeyboardInterrupt"}


@pytest.mark.filterwarnings("ignore::eddyline.FamilyWarning")
@pytest.mark.parametrize("named", ["table_", "family_7"])
def test_a_resumed_family_begins_anew_from_what_stands_and_comes(named: str) -> None:
    db = standing()
    db.execute("INSERT INTO t VALUES (1, 'z')")
    breaks(db, "table_", ValueError("a bug"))
    db.push("s", [row(1)])
    db.resume(named)
    assert db.snapshot("table_").num_rows == 0
    changes = db.push("s", [row(2)])
    assert changes.failures() == []
    assert changes.rows("table_").select(["op", "a", "n"]).to_pylist() == [{"op": "+", "a": 1, "n": "z"}]
    with pytest.raises(eddyline.CatalogError, match="not in quarantine"):
        db.resume(named)


@pytest.mark.filterwarnings("ignore::eddyline.FamilyWarning")
def test_a_resumed_family_shows_tables_as_they_stand() -> None:
    db = standing()
    breaks(db, "rows_", ValueError())
    db.execute("INSERT INTO t VALUES (1, 'z')")
    assert db.resume("rows_").rows("rows_").column("n").to_pylist() == ["z"]
    assert db.execute("INSERT INTO t VALUES (2, 'y')").rows("rows_").column("n").to_pylist() == ["y"]
    assert db.snapshot("rows_").num_rows == 2


@pytest.mark.filterwarnings("ignore::eddyline.FamilyWarning")
def test_a_failed_family_is_dropped_like_any_other() -> None:
    db = standing()
    db.execute("CREATE QUERY FAMILY f (lo INT) AS SELECT a FROM s [ROWS 5] WHERE a > :lo")
    db.register("f", [{"query": "x", "lo": 0}, {"query": "y", "lo": 1}])
    for q in ("filter", "x"):
        breaks(db, q, ValueError())
    db.push("s", [row(1)])
    with pytest.raises(eddyline.FamilyError):
        db.register("f", [{"query": "z", "lo": 0}])
    db.drop("f", ["y"])
    db.execute("DROP CONTINUOUS QUERY filter; DROP QUERY FAMILY f")
    assert db.stats()["failed"] == {}
    db.execute(f"CREATE CONTINUOUS QUERY filter AS {QUERIES['filter']}")
    changes = db.push("s", [row(2)])
    assert changes.failures() == [] and changes.rows("filter").num_rows == 1


@pytest.mark.filterwarnings("ignore::eddyline.FamilyWarning")
def test_a_saved_connection_knows_which_families_failed(tmp_path: Path) -> None:
    db = standing()
    breaks(db, "grouped", ValueError("a bug"))
    db.push("s", [row(1)])
    db.save(tmp_path / "saved")
    again = eddyline.connect(tmp_path / "saved")
    assert again.stats()["failed"] == {"family_4": "ValueError: a bug"}
    assert told(again.push("s", [row(2)]), ["filter", "latest"]) == told(db.push("s", [row(2)]), ["filter", "latest"])
    with pytest.raises(eddyline.FamilyError):
        again.snapshot("grouped")
    again.resume("grouped")
    again.advance(at(9))
    assert again.push("s", [row(12)]).failures() == []


@pytest.mark.filterwarnings("ignore::eddyline.FamilyWarning")
def test_an_initial_answer_that_fails_is_told_to_whoever_asks_for_it() -> None:
    db = world()
    db.execute("INSERT INTO t VALUES (1, 'z')")
    db.execute("CREATE QUERY FAMILY f (lo INT) AS SELECT a FROM t WHERE a > :lo")
    shown = db.register("f", [{"query": "x", "lo": 0}])
    breaks(db, "x", ValueError("a bug"))
    assert shown.count() == 0 and [f.family for f in shown.failures()] == ["f"]
    with pytest.raises(eddyline.FamilyError, match="a bug"):
        shown.rows("x")
    assert db.execute("SELECT COUNT(*) AS n FROM t").column("n").to_pylist() == [1]


def test_what_cannot_be_computed_when_asked_leaves_the_state_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    db = standing()
    db.push("r", [row(1)])
    changes = db.push("s", [row(1)])
    with monkeypatch.context() as patch:
        patch.setattr("eddyline.operators.project.Project.apply", _no_room)
        for q in ("filter", "band"):
            with pytest.raises(eddyline.FamilyError, match="MemoryError"):
                changes.rows(q)
    assert changes.rows("filter").num_rows == 1 and changes.rows("band").num_rows == 1
    assert db.push("s", [row(2)]).rows("band").num_rows == 1


def _no_room(*_: Any) -> Any:
    raise MemoryError("no room")


@pytest.mark.filterwarnings("ignore::eddyline.FamilyWarning")
def test_of_families_that_are_matched_together_only_the_one_that_fails_is_set_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    db = world()
    for i in range(6):
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS SELECT a, {', '.join(['b'] * (i + 1))} FROM s WHERE a + {i} > 0")
    db.push("s", [row(1)])
    assert db.engine.pools
    bad = db.engine.running[db.registry.query("q3")[0].number].pool_filter.matcher.condition  # type: ignore[union-attr]
    monkeypatch.setattr(bad, "of_queries", _no_room)
    for q in ("extra", "q3b"):  # new queries are indexed with the next rows
        db.execute(f"CREATE CONTINUOUS QUERY {q} AS SELECT a, b, b, b, b FROM s WHERE a + 3 > 0")
    changes = db.push("s", [row(2)])
    for i in (0, 1, 2, 4, 5):
        assert changes.rows(f"q{i}").num_rows == 1
    assert [f.family for f in db.push("s", [row(3)]).failures()] == [db.registry.query("q3")[0].name]


def test_families_are_matched_one_by_one_if_they_cannot_be_together(monkeypatch: pytest.MonkeyPatch) -> None:
    db, alone = world(), world()
    for i in range(6):
        text = f"SELECT a, {', '.join(['b'] * (i + 1))} FROM s WHERE a + {i} > 3"
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS {text}")
        if i == 4:
            alone.execute(f"CREATE CONTINUOUS QUERY q{i} AS {text}")
    rows = random_rows(Random(1), [float(i) for i in range(30)])
    changes, expected = db.push("s", rows), alone.push("s", rows)
    assert db.engine.pools
    db.execute("CREATE CONTINUOUS QUERY later AS SELECT a, b, b, b, b, b FROM s WHERE a + 1 > 3")
    db.push("s", [row(40)])
    monkeypatch.setattr("eddyline.operators.pool.PoolMatching._in_portions", _no_room)
    assert changes.count() > expected.count() > 0
    assert changes.rows("q4").to_pylist() == expected.rows("q4").to_pylist()
