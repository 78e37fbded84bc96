"""Every strategy for joins over ranges gives the same changes, in the same order, as looking at every joined row."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.engine.actions import ChangeTable
from eddyline.index.ranges.range_search import STRATEGIES

TRIALS = 60 if os.environ.get("EDDYLINE_NIGHTLY") == "1" else 4
WORLD = """
CREATE STREAM r (k INT, a INT, x DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 5 SECONDS;
CREATE STREAM s (k INT, a INT, x DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 5 SECONDS;
CREATE TABLE t (k INT, a INT, x DOUBLE, id INT)
"""
PARAMS = "lo INT, hi INT, u DOUBLE, v DOUBLE, w INT, z INT"
R, S = "r [RANGE 20 SECONDS]", "s [RANGE 20 SECONDS]"
SHAPES = {
    "select": f"FROM {R}, s WHERE r.k = s.k AND r.a BETWEEN :lo AND :hi AND s.x >= :u AND s.x < :v",
    "select from a table": "FROM r, t WHERE r.k = t.k AND r.x > :u AND t.a BETWEEN :lo AND :hi",
    "band": f"FROM {R}, {S} WHERE s.x - r.x BETWEEN :u AND :v",
    "band of integers": f"FROM r, {S} WHERE r.a - s.a > :lo AND r.a - s.a <= :hi AND r.x < :v",
    "band by key": f"FROM {R}, {S} WHERE r.k = s.k AND abs(r.x - s.x) <= :v AND s.a > :lo",
    "band in time": f"FROM {R}, {S} WHERE r.k = s.k AND abs(r.ts - s.ts) <= INTERVAL :w SECONDS",
    "band by sums": f"FROM {R}, s WHERE s.a >= r.a + :lo AND s.a <= r.a + :hi AND r.x < :v",
    "band around a number": f"FROM {R}, {S} WHERE r.k = s.k AND s.a BETWEEN r.a - :w AND r.a - 1 + :z",
    "band around a time": f"FROM {R}, {S} WHERE r.k = s.k AND s.a > :lo "
    "AND r.ts BETWEEN s.ts - INTERVAL :z SECONDS AND s.ts + INTERVAL :w SECONDS",
    "alike in time": "FROM r [RANGE :w SECONDS], s WHERE r.k = s.k AND r.ts <= s.ts AND s.x BETWEEN :u AND :v",
    "alike in numbers": f"FROM {R}, {S} WHERE s.a - r.a <= 10 AND r.a - 5 < s.a AND r.x < s.x AND r.x > :u",
    "alike at a distance": f"FROM {R}, s WHERE abs(s.a - r.a) <= 4 AND s.x - r.x < :v AND r.x <= s.x",
    "band by sums against a table": "FROM r [RANGE :w SECONDS], t WHERE t.a >= r.a + :lo AND r.x >= t.x",
    "window": "FROM r [RANGE :w SECONDS], s [RANGE :z SECONDS] "
    "WHERE r.k = s.k AND r.a >= :lo AND s.x BETWEEN :u AND :v",
    "only windows": "FROM r [RANGE :w SECONDS], s [RANGE :z SECONDS] WHERE r.k = s.k",
    "several attributes": f"FROM r, {S} WHERE r.k = s.k AND s.a BETWEEN :lo AND :hi AND s.x > :u "
    "AND r.a <= :hi AND r.x < :v",
    "self join": f"FROM {R} AS r, {R} AS s WHERE r.k = s.k AND s.a - r.a BETWEEN :lo AND :hi",
    "sums": f"SELECT COUNT(*) AS n, SUM(s.a) AS a, AVG(r.x) AS x FROM {R}, {S} "
    "WHERE r.k = s.k AND r.a BETWEEN :lo AND :hi AND s.x > :u",
    "sums of a band by sums": f"SELECT COUNT(*) AS n, SUM(s.a) AS a, MAX(r.x) AS x FROM {R}, {S} "
    "WHERE s.a > r.a + :lo AND s.a <= r.a + :hi AND s.ts >= r.ts",
    "extremes": "SELECT MIN(s.a) AS a, MAX(r.a) AS b, MAX(s.x) AS x FROM r [RANGE :w SECONDS], s [RANGE :z SECONDS] "
    "WHERE s.x - r.x BETWEEN :u AND :v",
    "sums against a table": "SELECT SUM(t.a) AS a, COUNT(r.x) AS n FROM r, t "
    "WHERE r.k = t.k AND t.x > :u AND r.a < :hi",
    "band against a table": "FROM r [RANGE :w SECONDS], t WHERE t.x - r.x BETWEEN :u AND :v AND t.a >= :lo",
}


def connect(shape: str, strategy: str) -> Any:
    db = eddyline.connect(threads=2)
    db.execute(WORLD)
    text = shape if shape.startswith("SELECT") else f"SELECT r.a, {'t' if ', t ' in shape else 's'}.x {shape}"
    db.execute(f"CREATE QUERY FAMILY f ({PARAMS}) WITH (strategy = '{strategy}', snapshot = 'no') AS {text}")
    return db


def queries(rng: np.random.Generator, n: int, begin: int, clustered: bool) -> pa.Table:
    def ends(scale: float) -> tuple[Any, Any]:
        middle = rng.choice([-0.4, 0.0, 0.5], n) if clustered else rng.uniform(-1, 1, n)
        low = middle * scale - rng.exponential(0.2 * scale, n) * rng.integers(0, 3, n)
        return low, low + rng.exponential(0.4 * scale, n) * rng.integers(-1, 4, n)

    lo, hi = (e.astype(np.int32) for e in ends(20))
    u, v = ends(10)
    odd = rng.random(n)
    u, v = np.where(odd < 0.02, np.nan, u), np.where(odd > 0.98, np.inf, v)
    w, z = (rng.integers(0, 30, n).astype(np.int32) for _ in range(2))
    names = [f"q{begin + i}" for i in range(n)]
    missing = rng.random(n) < 0.02
    return pa.table({"query": names, "lo": pa.array(lo, mask=missing), "hi": hi, "u": u, "v": v, "w": w, "z": z})


def rows(rng: np.random.Generator, n: int, clock: float) -> dict[str, pa.Array]:
    x = np.round(rng.normal(0, 5, n), rng.integers(0, 4))
    x[rng.random(n) < 0.03] = rng.choice([np.nan, np.inf, -np.inf, -0.0])
    return {
        "k": pa.array(rng.integers(0, 4, n).astype(np.int32), mask=rng.random(n) < 0.05),
        "a": pa.array(rng.integers(-15, 15, n).astype(np.int32), mask=rng.random(n) < 0.05),
        "x": pa.array(x, mask=rng.random(n) < 0.05),
        "ts": pa.array(((clock + rng.uniform(-6, 2, n)) * 1e6).astype(np.int64) + 10**15, pa.timestamp("us")),
    }


def told(changes: Any) -> tuple[Any, ...]:
    """Everything that changes say, asked in one order or another; what was asked before must not matter."""
    sets = [
        (q.stream, place, q.names(positions)) for q in changes.sets("f") for place, positions in q if len(positions)
    ]
    counts = changes.count_affected("f"), changes.count()
    return counts, sets, changes.queries(), changes.compact("f").to_pylist(), changes.affected("f").to_pylist()


def unordered(answer: tuple[Any, ...]) -> list[str]:
    """What changes say, with their rows in no order: whoever lists pairs row by row has another order."""
    return [repr(sorted(part, key=repr) if isinstance(part, list) else part) for part in answer]


@pytest.mark.parametrize("shape", SHAPES)
def test_strategies_tell_the_same(shape: str) -> None:
    total = 0
    for seed in range(TRIALS):
        rng, rnd = np.random.default_rng([seed, len(shape)]), Random(f"{shape} {seed}")
        worlds = {s: connect(SHAPES[shape], s) for s in ("by row", "auto", *STRATEGIES)}
        clock, standing, known, stored = 0.0, 0, [], 0
        for step in range(10):
            clock += rnd.choice([0, 0.5, 2, 6])
            kind = (
                rnd.choice(["register", "drop", "r", "s", "r", "s", "both", "table", "r", "s"]) if step else "register"
            )
            many = rnd.choice([1, 3, 20, 60])
            arriving = {n: pa.table(rows(rng, many, clock)) for n in "rs"}
            table = queries(rng, rnd.choice([1, 5, 40]), standing, rnd.random() < 0.5)
            fields = {n: c for n, c in rows(rng, 8, clock).items() if n != "ts"}
            gone = rnd.sample(known, min(len(known), rnd.randint(1, 10)))
            kept_out = rnd.randint(0, max(stored, 1))
            answers = {}
            for name, db in worlds.items():
                match kind:
                    case "register":
                        answers[name] = told(db.register("f", table))
                    case "drop":
                        if gone:
                            db.drop("f", gone)
                        answers[name] = ()
                    case "table":
                        columns = [*fields.values(), pa.array(range(stored, stored + 8), pa.int32())]
                        ids = db.definitions.tables["t"].to_arrow()["id"].to_numpy()
                        change = ChangeTable("t", np.nonzero(ids == kept_out)[0], tuple(columns))
                        answers[name] = told(db.apply([change]))
                    case "both":
                        answers[name] = told(db.push(arriving))
                    case _:
                        answers[name] = told(db.push(kind, arriving[kind]))
            known = [q for q in known if kind != "drop" or q not in gone]
            if kind == "register":
                known += table["query"].to_pylist()
                standing += table.num_rows
            stored += 8 if kind == "table" else 0
            for name, answer in answers.items():
                where = f"{shape}, seed {seed}, step {step} ({kind}), {name}"
                assert unordered(answer) == unordered(answers["by row"]), where
                assert name == "by row" or repr(answer) == repr(answers["auto"]), where
            total += answers["by row"][0][1] if answers["by row"] else 0
    assert total > 30 * TRIALS, f"{shape}: {total} changes are hardly a test"
