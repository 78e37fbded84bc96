"""Guarantees at the edges of filters and joins: large tables, order of results, functions, names."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.operators.attach import Attach
from eddyline.operators.evaluate import Failure
from eddyline.operators.joins.filter_first import FirstFilter
from eddyline.state.chunks import WORTH_IT, Compact, compacted
from tests.local.common import row, world

MANY = WORTH_IT + 1


def test_many_queries_may_have_windows_of_their_own() -> None:
    """The size of a window is an INTERVAL, and of these no column can be made compact."""
    db = world()
    for i in range(MANY):
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS SELECT a FROM r [RANGE {i % 3600} SECONDS] WHERE a > 0")
    assert db.push("r", [row(0, a=1)]).count() == MANY


def test_many_queries_may_have_a_parameter_of_type_interval() -> None:
    db = world()
    db.execute("CREATE QUERY FAMILY f (p INTERVAL) AS SELECT a FROM r WHERE ts >= TIMESTAMP '2026-01-01' + :p")
    table = pa.table({"query": [f"q{i}" for i in range(MANY)], "p": pa.array(range(MANY), pa.duration("us"))})
    db.register("f", table)
    assert db.push("r", [row(1)]).count() == MANY


def test_queries_are_not_lost_if_their_columns_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong while queries that came one by one become columns: they are still there."""
    db = world()
    for i in range(3):
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS SELECT a FROM r WHERE a > {i}")

    def fails(*_: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as m:
        m.setattr("eddyline.state.query_table.with_chunk", fails)
        with pytest.raises(MemoryError):
            db.push("r", [row(0, a=5)])
    assert db.push("r", [row(0, a=5)]).count() == 3


@pytest.mark.parametrize("values", [[None] * 2 * MANY + [1], [1] + [None] * 2 * MANY])
def test_parameters_left_open_are_kept_once(values: list[int | None]) -> None:
    assert isinstance(compacted(pa.array(values, pa.int64())), Compact)


def joined_rows(monkeypatch: pytest.MonkeyPatch, first: str) -> list[tuple[Any, ...]]:
    monkeypatch.setattr(FirstFilter, "first", lambda _: first)
    rnd, db = Random(1), world(delay=100)
    db.execute("CREATE QUERY FAMILY f (lo INT) AS SELECT r.b AS x, s.b AS y FROM r, s WHERE r.a = s.a AND r.c >= :lo")
    db.register("f", [{"query": f"q{i}", "lo": 60 + i} for i in range(3)])
    found, number = [], 0
    for _ in range(40):
        for stream, n in (("r", rnd.randint(1, 6)), ("s", 2)):
            rows = [row(0, a=rnd.randint(0, 3), b=number + i, c=float(rnd.randint(0, 99))) for i in range(n)]
            number += n
            found += [(c["query"], c["x"], c["y"]) for c in db.push(stream, rows).rows("f").to_pylist()]
    return found


def test_the_order_of_joined_rows_does_not_tell_what_tuples_visited_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice depends on measured times; on Spark, (batch, position) must be the same in a replay."""
    by_filter, by_stem = (joined_rows(monkeypatch, first) for first in ("filter", "stem"))
    assert sorted(by_filter) == sorted(by_stem)
    assert by_filter == by_stem


@pytest.mark.parametrize("first", ["filter", "stem"])
def test_no_query_overflows_on_a_tuple_without_a_partner(monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    monkeypatch.setattr(FirstFilter, "first", lambda _: first)
    db = world()
    db.execute("CREATE QUERY FAMILY f (p BIGINT) AS SELECT r.a FROM r, s WHERE r.a = s.a AND r.b + :p > 10")
    db.register("f", [{"query": "q", "p": 1}])
    db.functions.failures = []
    db.push("r", [row(0, b=2**63 - 1)])
    assert db.functions.failures == []


def test_naming_the_queries_that_changed_lists_no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be billions of pairs, and as many names as queries at most."""
    db = world()
    db.execute("CREATE QUERY FAMILY f (lo DOUBLE) AS SELECT a FROM r WHERE c >= :lo")
    db.register("f", pa.table({"query": [f"q{i}" for i in range(100)], "lo": np.arange(100.0)}))
    changes = db.push("r", [row(0, c=50.0)] * 10)

    def listed(*_: Any) -> Any:
        raise AssertionError("all pairs are listed")

    monkeypatch.setattr("eddyline.operators.matcher.paired", listed)
    assert len(changes.queries()) == 51


def test_a_family_dropped_since_is_still_known_if_the_push_did_not_concern_it() -> None:
    db = world()
    db.execute("CREATE QUERY FAMILY f (p INT) AS SELECT a FROM r WHERE a > :p")
    db.register("f", [{"query": "q", "p": 1}])
    changes = db.push("s", [row(0)])
    assert changes.rows("f").num_rows == 0
    db.execute("DROP QUERY FAMILY f")
    assert changes.rows("f").num_rows == 0


def test_a_name_that_is_not_known_is_compared_with_families_too() -> None:
    db = world()
    db.execute("CREATE QUERY FAMILY alert (p INT) AS SELECT a FROM r WHERE a > :p")
    db.register("alert", [{"query": "u17", "p": 1}])
    with pytest.raises(eddyline.Error, match="'alert'"):
        db.push("r", [row(0)]).sets("alrt")


def test_positions_that_are_none_are_refused_with_a_reason() -> None:
    db = world()
    db.execute("CREATE QUERY FAMILY f (p INT) AS SELECT a FROM r WHERE a > :p")
    db.register("f", [{"query": "q", "p": 0}])
    (sets,) = db.push("r", [row(0)]).sets("f")
    for position in (-1, 1):
        with pytest.raises(eddyline.Error):
            sets.names(np.array([position]))


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_who_fails_does_not_depend_on_what_functions_cost(monkeypatch: pytest.MonkeyPatch, order: list[int]) -> None:
    """A failed call counts only for a row that satisfies all other clauses, whichever was evaluated first."""
    db = world()
    db.function("f", lambda a, p: 1 // (a - 1) >= p, ["INT", "INT"], "BOOLEAN")
    db.function("g", lambda a, p: a + 1 > p, ["INT", "INT"], "BOOLEAN")
    db.execute("CREATE QUERY FAMILY q (p INT) AS SELECT a FROM r WHERE f(a, :p) AND g(a, :p)")
    db.register("q", [{"query": f"q{p}", "p": p} for p in (0, 1, 2, 3)])
    (running,) = db.engine.running.values()
    (attach,) = [o for o in running.root.walk() if isinstance(o, Attach)]
    monkeypatch.setattr(attach.matcher.index.checks, "order", lambda: order)
    failures: list[Failure] = []
    db.functions.failures = failures
    changes = db.push("r", [row(0, a=1), row(0, a=2)])
    assert changes.queries() == ["q0", "q1"]
    (failure,) = failures
    names = running.family.queries.rows().name_of(failure.queries).to_pylist()
    assert names == ["q0", "q1"], "g rejects the row for q2 and q3, for which f has no value either"
    assert failure.message.startswith("The function 'f' failed for 2 rows: f(1, 0): ZeroDivisionError")
