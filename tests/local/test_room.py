"""A family that would build too much in one step is stopped before it does, alone; what it may build is a setting."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

import eddyline
from eddyline.index.keys import sorted_runs
from eddyline.local.connection import Connection
from eddyline.operators.joins import by_ranges
from eddyline.operators.joins.filter_first import FirstFilter
from eddyline.operators.joins.routes import Partial
from eddyline.operators.joins.stem import Matches
from eddyline.operators.matcher import Matcher
from eddyline.state.delta import Delta
from tests.local.common import random_rows, row, world

pytestmark = pytest.mark.filterwarnings("ignore::eddyline.FamilyWarning")
AT_ONCE = 256
EXPLODING = {
    "cross_": "SELECT r.b AS x, s.b AS y FROM r, s",
    "theta": "SELECT r.b AS x, s.b AS y FROM r [RANGE 9 SECONDS], s [RANGE 9 SECONDS] WHERE r.b + s.b > 0",
    "three": "SELECT r.b AS x, s.b AS y FROM r, s, r z WHERE r.b <> s.b AND z.b <> s.b",
    "equal": "SELECT r.b AS x, s.b AS y FROM r, s WHERE r.a = s.a",
    "band": "SELECT r.b AS x, s.b AS y FROM r, s WHERE s.b - r.b BETWEEN -1000 AND 1000",
    "by_row": "SELECT r.b AS x, s.b AS y FROM r, s WHERE s.c * r.c < 1000.0",
    "counted": "SELECT COUNT(*) AS n FROM r, s",
    "table_": "SELECT s.b AS x, t.n AS y FROM s, t",
}


def rows(n: int) -> list[dict[str, Any]]:
    return [row(1, b=i + 1) for i in range(n)]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many joined rows were built at once, each time; and few pairs at a time."""
    monkeypatch.setattr(sorted_runs, "PAIRS_AT_ONCE", AT_ONCE)
    sizes: list[int] = []
    extended, joined = Partial.extended, by_ranges._joined

    def counted(partial: Partial, i: int, matches: Matches) -> Partial:
        sizes.append(len(matches.rows))
        return extended(partial, i, matches)

    def counted_ranges(i: int, tuples: Delta, rows: Delta) -> Delta:
        sizes.append(len(rows))
        return joined(i, tuples, rows)

    monkeypatch.setattr(Partial, "extended", counted)
    monkeypatch.setattr(by_ranges, "_joined", counted_ranges)
    return sizes


def exploding(db: Connection, name: str, most: int) -> None:
    db.execute(f"CREATE CONTINUOUS QUERY {name} WITH (most_bytes = '{most}') AS {EXPLODING[name]}")


@pytest.mark.parametrize("name", EXPLODING)
def test_a_join_that_explodes_is_stopped_in_time_and_the_others_go_on(name: str, built: list[int]) -> None:
    db = world()
    db.execute("CREATE CONTINUOUS QUERY fine AS SELECT r.b FROM r, s WHERE r.b = s.b")
    db.execute("INSERT INTO t VALUES " + ", ".join(f"({i}, 'x')" for i in range(300)))
    exploding(db, name, 200_000)
    db.push("r", rows(300))
    built.clear()
    changes = db.push("s", rows(300))
    assert changes.rows("fine").num_rows == 300
    with pytest.raises(eddyline.FamilyError, match="would make a step larger than 200,000 bytes"):
        changes.rows(name)
    assert sum(built) < 20_000 and max(built) <= 2 * AT_ONCE
    assert db.push("s", rows(1)).rows("fine").num_rows == 1


@pytest.mark.parametrize("name", EXPLODING)
def test_a_family_that_stays_within_its_room_answers_as_without_a_limit(name: str, built: list[int]) -> None:
    found = []
    for most in (4_000_000_000, 400_000_000):
        db = world()
        db.execute("INSERT INTO t VALUES " + ", ".join(f"({i}, 'x')" for i in range(100)))
        exploding(db, name, most)
        db.push("r", rows(100))
        found.append(db.push("s", rows(100)).rows(name).to_pylist())
    assert found[0] == found[1] and len(found[0]) > 0
    assert max(built) <= 2 * AT_ONCE


def test_one_tuple_with_very_many_partners_is_joined_piece_by_piece(built: list[int]) -> None:
    db = world()
    exploding(db, "cross_", 1 << 30)
    db.push("r", rows(5000))
    found = db.push("s", rows(1)).rows("cross_")
    assert found.column("x").to_pylist() == list(range(1, 5001))
    assert len(built) > 4 and max(built) <= 2 * AT_ONCE


def test_a_certain_number_of_pairs_is_counted_before_any_is_built(built: list[int]) -> None:
    db = world()
    exploding(db, "cross_", 100_000)
    db.push("r", rows(300))
    built.clear()
    assert db.push("s", rows(300)).failures() and built == []


def test_a_filter_that_accepts_everything_is_counted_before_its_rows_are_listed() -> None:
    db = world()
    db.execute("CREATE QUERY FAMILY f (lo INT) WITH (most_bytes = '100000') AS SELECT a, b FROM s WHERE a > :lo")
    db.register("f", [{"query": f"q{i}", "lo": 0} for i in range(100)])
    changes = db.push("s", rows(300))
    assert changes.count() == 30_000 and changes.failures() == []
    with pytest.raises(eddyline.FamilyError, match="30,000 rows"):
        changes.rows("q1")
    assert db.push("s", rows(10)).rows("q1").num_rows == 10


def test_a_query_over_tables_that_would_be_too_large_is_not_created_or_fails_alone(built: list[int]) -> None:
    db = world()
    db.session.most_bytes = 200_000
    db.engine.options = replace(db.engine.options, most_bytes=200_000)
    values = ", ".join(f"({i}, 'x')" for i in range(300))
    db.execute(f"INSERT INTO t VALUES {values}; INSERT INTO k VALUES {values}")
    with pytest.raises(eddyline.FamilyError, match="would make a step larger"):
        db.execute("SELECT t.a FROM t, k WHERE t.a + k.a > 0")
    with pytest.raises(eddyline.FamilyError, match="would make a step larger"):
        db.execute("CREATE CONTINUOUS QUERY q AS SELECT t.a FROM t, k").rows("q")


@pytest.mark.parametrize("seed", range(4))
def test_the_way_that_is_faster_does_not_decide_who_fails(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditions on one input may come before or after the join: a clock decides, and must not show."""
    rnd = Random(seed)
    batches = [random_rows(rnd, [1.0] * 40) for _ in range(6)]
    for most in (5_000, 20_000, 60_000, 150_000, 400_000):
        outcomes = []
        for way in ("stem", "filter"):
            monkeypatch.setattr(FirstFilter, "first", lambda self, way=way: way)
            db = world()
            db.execute(
                f"CREATE QUERY FAMILY f (lo INT, hi DOUBLE) WITH (strategy = 'by row', most_bytes = '{most}') AS"
                " SELECT r.b, s.c FROM r, s WHERE r.a = s.a AND r.b > :lo AND s.c * 2.0 < :hi"
            )
            db.register("f", [{"query": f"q{i}", "lo": i % 3, "hi": 1.0 * i} for i in range(5)])
            outcome: list[Any] = []
            for i, batch in enumerate(batches):
                changes = db.push("r" if i % 2 else "s", batch)
                outcome.append(None if changes.failures() else sorted(map(str, changes.rows("f").to_pylist())))
            outcomes.append(outcome)
        assert outcomes[0] == outcomes[1], f"seed {seed}, most {most}"


def test_changes_attached_to_queries_take_room_too(monkeypatch: pytest.MonkeyPatch) -> None:
    attached: list[int] = []
    attach = Matcher.attached

    def counted(self: Matcher, step: Any, delta: Any, change: Any, position: Any) -> Any:
        found = attach(self, step, delta, change, position)
        attached.append(len(change))
        return found

    monkeypatch.setattr(Matcher, "attached", counted)
    db = world()
    for strategy in ("by row", "auto"):
        db.execute(
            f"CREATE QUERY FAMILY f (lo INT) WITH (strategy = '{strategy}', most_bytes = '300000') AS"
            " SELECT r.b FROM r, s WHERE r.a - s.a >= :lo"
        )
        db.register("f", [{"query": f"q{i}", "lo": 0} for i in range(200)])
        db.push("r", rows(10))
        changes = db.push("s", rows(10))
        if strategy == "auto":  # not built unless somebody asks
            assert changes.count() == 20_000 and changes.failures() == []
        with pytest.raises(eddyline.FamilyError, match="would make a step larger"):
            changes.rows("q0")
        assert sum(attached) * 56 <= 300_000
        db.execute("DROP QUERY FAMILY f")
