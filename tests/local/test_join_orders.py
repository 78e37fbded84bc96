"""Orders of probes: forced by options, and following the data while rows stay where they are."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.engine import join_orders
from eddyline.local.connection import Connection
from eddyline.operators.joins.log_stem import LogStem
from eddyline.operators.joins.stem_join import StemJoin

NAMES = "abcd"
QUERY = (
    "SELECT a.v AS p, b.v AS q, c.v AS r, d.v AS s FROM a [RANGE 20 SECONDS], b [RANGE 20 SECONDS],"
    " c [RANGE 20 SECONDS], d [RANGE 20 SECONDS] WHERE a.k = b.k AND b.k = c.k AND c.k = d.k AND a.v <= d.v"
)
FEW, SOME, MANY = (2, 2_000), (10, 1_000), (60, 200)  # tuples a second, and distinct keys


def world(*options: str, query: str = QUERY) -> Connection:
    """A connection with a query q0, q1, … for each of the options."""
    db = eddyline.connect()
    for name in NAMES:
        db.execute(f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) WATERMARK ts")
    for i, option in enumerate(options):
        db.execute(f"CREATE CONTINUOUS QUERY q{i} {option} AS {query}")
    return db


def join_of(db: Connection, query: str = "q0") -> StemJoin:
    family, _ = db.registry.query(query)
    operators = db.engine.running[family.number].root.walk()
    return next(o for o in operators if isinstance(o, StemJoin))


def orders(join: StemJoin) -> list[str]:
    return ["".join(NAMES[p.input] for p in probes) for probes in join.stems.node.probes]


def push(db: Connection, seconds: range, roles: list[tuple[int, int]], seed: int = 0) -> list[Any]:
    """Rows of each second; returns the changes of every query, folded by row."""
    rng, told = np.random.default_rng(seed), []
    for second in seconds:
        for name, (n, keys) in zip(NAMES, roles, strict=True):
            ts = np.sort(rng.integers(second * 10**6, (second + 1) * 10**6, n))
            rows = {"k": rng.integers(0, keys, n), "v": rng.integers(0, 10, n), "ts": pa.array(ts, pa.timestamp("us"))}
            changes = db.push(name, pa.table(rows))
            told.append({q: sorted(map(repr, changes.rows(q).to_pylist())) for q in changes.queries()})
    return told


def test_every_forced_order_and_method_gives_the_same_answer() -> None:
    forced = [f"WITH (order = '{', '.join(o)}')" for o in permutations(NAMES)][::5]
    methods = [
        "WITH (join = 'nested loop')",
        "WITH (join = 'nested loop', order = 'd, b, c, a')",
        "WITH (join = 'hybrid', index_entries = 300)",
        "WITH (join = 'hybrid', index_entries = 300, order = 'c, d, a, b')",
    ]
    db = world("", *forced, *methods)
    told = push(db, range(30), [(8, 30)] * 4)
    assert sum(len(t.get("q0", ())) for t in told) > 100
    for changes in told:
        assert all(rows == changes.get("q0") for rows in changes.values())
    for i, order in enumerate(list(permutations(NAMES))[::5], 1):
        of = ["".join(x for x in order if x != origin) for origin in NAMES]
        assert orders(join_of(db, f"q{i}")) == of, "each origin probes the others in the order that was asked for"


def test_a_nested_loop_compares_every_row_of_the_next_window() -> None:
    db = world("WITH (join = 'nested loop', order = 'a, b, c, d')")
    push(db, range(21), [(4, 50)] * 4)
    join = join_of(db)
    step = join.stems.counts.steps[0, 1]
    probing, compared = step.probing, step.compared
    push(db, range(21, 25), [(4, 50)] * 4)
    before = join.stems.counts.steps
    assert 76 <= (step.compared - compared) / (step.probing - probing) <= 84, "a window has 80 rows"
    assert not any(index for s in join.stems.stems if isinstance(s, LogStem) for index in s.log.indexes if index), (
        "no key is indexed"
    )
    assert before[0, 1].left == before[0, 1, 2].probing, "what an equality leaves probes the next input"


def test_conditions_are_checked_as_soon_as_their_inputs_are_bound() -> None:
    db = world("WITH (order = 'a, d, b, c')", "WITH (order = 'b, c, a, d')")
    early, late = (join_of(db, q).stems.node.probes[0] for q in ("q0", "q1"))
    assert [p.conditions is not None for p in early] == [True, False, False], "a.v <= d.v when a and d are bound"
    assert [p.conditions is not None for p in late] == [False, False, True]


def test_orders_follow_rates_and_keys_and_no_row_is_touched() -> None:
    db = world("", "WITH (order = 'a, b, c, d')")
    first = push(db, range(60), [FEW, SOME, MANY, MANY], seed=1)
    join = join_of(db)
    assert all(order[0] == "a" for order in orders(join)[1:]), "few rows match those of a"
    logs = [s.log for s in join.stems.stems if isinstance(s, LogStem)]
    indexes = [dict(log.indexes) for log in logs]
    second = push(db, range(60, 240), [MANY, SOME, MANY, FEW], seed=2)
    assert all(order[0] == "d" for order in orders(join)[:3]), "now those of d"
    for log, before in zip(logs, indexes, strict=True):
        kept = {key: index for key, index in log.indexes.items() if key in before}
        assert list(log.indexes) == list(before), "no row is indexed by another key"
        assert kept
    assert all(t.get("q0") == t.get("q1") for t in (*first, *second))
    changes = join.orders.changes
    assert changes and all(c.why for c in changes) and all(c.arrivals > 0 for c in changes)


def test_a_restored_join_has_its_orders_and_goes_on_in_the_same_way(tmp_path: Path) -> None:
    db = world("")
    push(db, range(60), [MANY, SOME, MANY, FEW], seed=3)
    db.save(tmp_path / "saved")
    restored = eddyline.connect(tmp_path / "saved")
    assert orders(join_of(restored)) == orders(join_of(db))
    assert join_of(restored).orders == join_of(db).orders
    for played in (db, restored):
        push(played, range(60, 160), [FEW, SOME, MANY, MANY], seed=4)
    assert orders(join_of(restored)) == orders(join_of(db)) and join_of(restored).orders == join_of(db).orders


def test_a_hybrid_join_indexes_windows_within_its_limit() -> None:
    db = world("WITH (join = 'hybrid', index_entries = 700)")
    push(db, range(60), [FEW, SOME, MANY, MANY], seed=5)
    node = join_of(db).stems.node
    rows = {0: 40, 1: 200, 2: 1200, 3: 1200}
    indexed = set(range(4)) - node.scanned
    assert indexed and sum(rows[i] for i in indexed) <= 1.3 * 700, "the windows of a and b fit"


def test_joins_on_shared_routes_probe_selective_streams_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_orders, "PER_JOIN", 16)
    monkeypatch.setattr(join_orders, "PACE", 16)
    db, streams = world(), list(permutations("abc"))
    for x, y, _ in streams:  # a tenth of the rows of x, and all of y
        db.execute(
            f"CREATE CONTINUOUS QUERY q{x}{y} AS SELECT a.v AS p FROM a [RANGE 20 SECONDS], b [RANGE 20 SECONDS],"
            f" c [RANGE 20 SECONDS] WHERE a.k = b.k AND b.k = c.k AND {x}.v >= 9 AND {y}.v <= 9"
        )
    push(db, range(60), [(20, 100)] * 4, seed=6)
    for x, y, z in streams:
        of = orders(join_of(db, f"q{x}{y}"))
        assert of[NAMES.index(z)] == x + y and of[NAMES.index(y)] == x + z
    text = db.explain("qab", analyze=True)
    assert "on shared routes from a" in text and "routes to here, partial results" in text


@pytest.mark.parametrize("rows, order", [(5_000, "bt"), (5, "tb")])
def test_tables_are_measured_too(rows: int, order: str) -> None:
    """Tuples of `a` have two partners in `b`, and as many in the table as it has rows of their key."""
    db = eddyline.connect()
    for name in "ab":
        db.execute(f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP) WATERMARK ts")
    db.execute("CREATE TABLE t (k BIGINT)")
    query = "SELECT a.v FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS], t WHERE a.k = b.k AND b.k = t.k"
    db.execute(f"CREATE CONTINUOUS QUERY q0 AS {query}")
    db.execute(f"INSERT INTO t VALUES {', '.join(f'({k % 50})' for k in range(rows))}")
    rng = np.random.default_rng(1)
    for second in range(30):
        for name, n in (("a", 30), ("b", 10)):
            ts = pa.array(np.sort(rng.integers(second * 10**6, (second + 1) * 10**6, n)), pa.timestamp("us"))
            db.push(name, pa.table({"k": rng.integers(0, 50, n), "v": rng.integers(0, 9, n), "ts": ts}))
    assert "".join("abt"[p.input] for p in join_of(db).stems.node.probes[0]) == order


def test_explain_analyze_shows_routes_and_why_orders_changed() -> None:
    db = world("")
    push(db, range(60), [MANY, SOME, MANY, FEW], seed=3)
    text = db.explain("q0", analyze=True)
    assert "input 1 probes 4, 2, 3 (by cost" in text or "input 1 probes 4, 3, 2 (by cost" in text
    for part in ("partial results", "rows in its window", "tuples a second", "became", "rows compared"):
        assert part in text, part
