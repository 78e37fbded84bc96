"""Families: many queries, and queries, names and whole families that come and go."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from tests.local.common import ABOVE, above, at, bag, log_of, random_rows, row, table_of, tuples, world


def test_ten_thousand_queries_are_one_family_each_with_its_own_answer() -> None:
    n = 10_000
    db = world()
    db.execute("CREATE QUERY FAMILY band (lo INT, hi INT) AS SELECT b FROM s WHERE b BETWEEN :lo AND :hi")
    rnd = np.random.default_rng(1)
    lo = rnd.integers(0, 5_000, n)
    hi = lo + rnd.integers(0, 50, n)
    db.register("band", pa.table({"query": [f"u{i}" for i in range(n)], "lo": lo, "hi": hi}))
    assert db.stats()["queries"] == db.execute("SHOW QUERIES").num_rows == n
    assert db.execute("SHOW FAMILIES").num_rows == 1
    values = rnd.integers(0, 5_000, 50)
    ch = db.push("s", [row(0, b=int(v)) for v in values])
    inside = (lo[:, None] <= values) & (values <= hi[:, None])
    assert ch.count() == ch.count_affected("band") == inside.sum()
    assert set(ch.queries()) == {f"u{i}" for i in np.nonzero(inside.any(axis=1))[0]}
    listed = Counter((r["b"], q) for r in ch.compact("band").to_pylist() for q in r["queries"])
    assert listed == Counter((int(values[j]), f"u{i}") for i, j in zip(*np.nonzero(inside), strict=True))
    some = int(np.nonzero(inside.any(axis=1))[0][0])
    assert bag(db.snapshot(f"u{some}")) == Counter((int(v),) for v in values[inside[some]])


def test_names_dropped_and_registered_again_begin_anew() -> None:
    n = 3_000
    db = world()
    db.execute("CREATE QUERY FAMILY f (lo INT) AS SELECT COUNT(*) AS k FROM s WHERE a > :lo")
    names = [f"u{i}" for i in range(n)]
    for life in range(4):
        db.register("f", pa.table({"query": names, "lo": pa.array([life - 1] * n, pa.int32())}))
        assert tuples(db.snapshot("u7")) == [(0,)]
        db.push("s", [row(life, a=life), row(life, a=life - 1)])
        assert tuples(db.snapshot("u7")) == [(1,)] and tuples(db.snapshot(f"u{n - 1}")) == [(1,)]
        db.drop("f", names if life % 2 else pa.array(names))
        assert db.stats()["queries"] == 0
        assert db.push("s", [row(life, a=9)]).count() == 0
    assert db.stats()["families"]["f"]["state_rows"] <= 10 * n


def test_queries_come_and_go_at_random_and_the_rest_stays_right() -> None:
    rnd = Random(5)
    db = world()
    db.execute("CREATE QUERY FAMILY f (lo INT, w INT) AS SELECT DISTINCT a FROM s [RANGE :w SECONDS] WHERE a >= :lo")
    db.execute("CREATE QUERY FAMILY g (lo INT) AS SELECT a, b FROM s WHERE a >= :lo")
    alive: dict[str, tuple[int, int, int]] = {}
    seen: list[dict[str, Any]] = []
    for step in range(60):
        new = {f"q{step}_{i}": (rnd.randint(0, 3), rnd.randint(1, 4), len(seen)) for i in range(rnd.randint(0, 120))}
        lows, widths = ([v[i] for v in new.values()] for i in (0, 1))
        db.register("f", table_of(list(new), lo=lows, w=widths))
        db.register("g", table_of([f"g{q}" for q in new], lo=lows))
        alive |= new
        gone = rnd.sample(sorted(alive), k=min(len(alive), rnd.randint(0, 130)))
        db.drop("f", gone)
        db.drop("g", [f"g{q}" for q in gone])
        for q in gone:
            del alive[q]
        batch = random_rows(rnd, [float(step)] * 3)
        ch = db.push("s", batch)
        seen += batch
        assert set(ch.queries()) <= set(alive) | {f"g{q}" for q in alive}
        for q in rnd.sample(sorted(alive), k=min(3, len(alive))):
            lo, w, since = alive[q]
            rows = [r for r in seen[since:] if r["a"] is not None and r["a"] >= lo]
            assert bag(db.snapshot(f"g{q}")) == Counter((r["a"], r["b"]) for r in rows)
            assert bag(db.snapshot(q)) == Counter({(r["a"],): 1 for r in rows if r["ts"] >= at(step - w)})


def test_family_dropped_and_declared_again_is_another() -> None:
    db = above(q=0)
    db.execute("DROP QUERY FAMILY above")
    assert db.push("s", [row(0)]).count() == 0 and db.execute("SHOW QUERIES").num_rows == 0
    db.execute("CREATE QUERY FAMILY above (p STRING) AS SELECT n FROM s WHERE n = :p")
    db.register("above", [{"query": "q", "p": "x"}])
    assert log_of(db.push("s", [row(1)]), "q") == [("+", at(1), None, ("x",))]


def test_implicit_family_disappears_with_its_last_query() -> None:
    db = world()
    db.execute("CREATE CONTINUOUS QUERY q1 AS SELECT a FROM s WHERE a > 1")
    db.execute("CREATE CONTINUOUS QUERY q2 AS SELECT a FROM s WHERE a > 2")
    assert db.execute("SHOW FAMILIES").column("queries").to_pylist() == [2]
    db.execute("DROP CONTINUOUS QUERY q1")
    assert db.execute("SHOW FAMILIES").column("queries").to_pylist() == [1]
    db.execute("DROP CONTINUOUS QUERY q2")
    assert db.execute("SHOW FAMILIES").num_rows == 0 and db.stats()["families"] == {}
    db.execute("DROP STREAM r")
    db.execute("CREATE CONTINUOUS QUERY q1 AS SELECT a FROM s WHERE a > 3")
    assert db.push("s", [row(0, a=4)]).queries() == ["q1"]


def test_query_dropped_through_sql_or_by_family_is_the_same() -> None:
    db = above(p=0, q=0)
    db.execute("DROP CONTINUOUS QUERY p")
    db.drop("ABOVE", ["q"])
    assert db.push("s", [row(0)]).count() == 0
    with pytest.raises(eddyline.CatalogError):
        db.execute("DROP CONTINUOUS QUERY p")
    db.execute("DROP CONTINUOUS QUERY IF EXISTS p")


def test_drop_of_a_stranger_drops_none() -> None:
    db = above(p=0, q=0)
    db.execute("CREATE CONTINUOUS QUERY other AS SELECT b FROM s")
    for names in (["p", "nobody"], ["p", "other"], ["p", None], "p", ["p", 5], [""]):
        with pytest.raises(eddyline.Error):
            db.drop("above", names)
    with pytest.raises(eddyline.CatalogError, match="abov"):
        db.drop("abov", ["p"])
    db.drop("above", [])
    db.drop("above", ["p", "p"])
    assert db.execute("SHOW QUERIES").column("query").to_pylist() == ["q", "other"]


def test_queries_with_equal_parameters_get_equal_changes() -> None:
    db = above(x=0, y=0, z=0)
    ch = db.push("s", [row(0)])
    assert log_of(ch, "x") == log_of(ch, "y") == log_of(ch, "z") != []
    assert sorted(ch.compact("above").to_pylist()[0]["queries"]) == ["x", "y", "z"]


def test_a_query_cannot_take_the_name_of_a_family() -> None:
    """`rows(name)` could not tell one from the other."""
    db = above()
    with pytest.raises(eddyline.CatalogError):
        db.execute("CREATE CONTINUOUS QUERY above AS SELECT a FROM s")
    with pytest.raises(eddyline.CatalogError):
        db.register("above", [{"query": "above", "lo": 0}])


def test_names_of_queries_may_be_any_text() -> None:
    names = ["a b", "Ünï", "x'y", 'x"y', "`", ";", "--", "1", "A", "a", " ", "é", "e\u0301", "q" * 5000, "SELECT", "\n"]
    db = world()
    db.execute(ABOVE)
    db.register("above", [{"query": n, "lo": 0} for n in names])
    ch = db.push("s", [row(0)])
    assert sorted(ch.queries()) == sorted(names)
    assert all(ch.rows(n).num_rows == db.snapshot(n).num_rows == 1 for n in names)
    db.drop("above", names)
    assert db.execute("SHOW QUERIES").num_rows == 0
