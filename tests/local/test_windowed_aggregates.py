"""Many windowed aggregates over one stream share its log, and give what stored ends give."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.plan import physical_planner

FAMILY = (
    "CREATE QUERY FAMILY f (w INT, lo DOUBLE, hi DOUBLE) AS SELECT COUNT(*) AS n, SUM(x) AS t, AVG(v) AS m "
    "FROM s [RANGE :w MILLISECONDS] WHERE v >= :lo AND v < :hi"
)
QUERIES, ROWS = 60, 6_000  # several blocks of sorted rows


def world() -> eddyline.Connection:
    db = eddyline.connect()
    db.execute("CREATE STREAM s (v DOUBLE, x BIGINT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 1 SECOND")
    db.execute(FAMILY)
    return db


def some_queries(rng: np.random.Generator, first: int, count: int) -> pa.Table:
    lo = rng.random(count)
    width = pa.array(rng.integers(0, 3000, count), pa.int32())
    names = [f"q{i}" for i in range(first, first + count)]
    return pa.table({"query": names, "w": width, "lo": lo, "hi": lo + 0.1})


def played(seed: int, folder: Path) -> tuple[Counter[Any], dict[str, Any], int]:
    """All changes, the last answers, and the rows of state."""
    rnd, rng = Random(seed), np.random.default_rng(seed)
    db, at, changes = world(), 0, Counter[Any]()
    for step in range(12):
        if step in (0, 3, 7):
            db.register("f", some_queries(rng, 20 * step, 20))
        if step == 9:
            db.drop("f", ["q0", "q61", "q141"])
        if step == 5:
            db.save(folder)
            db = eddyline.connect(folder)
        rows = ROWS // 12
        ts = 1000 * (at + np.arange(rows) - rng.integers(0, rnd.choice([1, 900]), rows))
        at += rows
        batch = {"v": rng.random(rows), "x": rng.integers(-9, 9, rows), "ts": pa.array(ts, pa.timestamp("us"))}
        batch["v"][rng.random(rows) < 0.05] = np.nan
        for table in (db.push("s", pa.table(batch)), db.advance(eddyline_time(at - 1000))):
            for name in table.queries():
                for row in table.rows(name).to_pylist():
                    changes[name, *map(str, row.values())] += 1
    names = db.execute("SHOW QUERIES")["query"].to_pylist()
    return changes, {n: db.snapshot(n).to_pylist() for n in names}, db.stats()["state_rows"]


def eddyline_time(milliseconds: int) -> str:
    moment = np.datetime64(0, "ms") + np.timedelta64(max(0, milliseconds), "ms")
    return str(moment)


@pytest.mark.parametrize("seed", range(3))
def test_ends_read_from_the_log_are_those_that_would_be_stored(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = played(seed, tmp_path / "logged")
    monkeypatch.setattr(physical_planner, "_ends", lambda child, node: "stored")
    stored = played(seed, tmp_path / "stored")
    assert logged[:2] == stored[:2]
    assert logged[2] < stored[2] / 2


def test_explain_says_that_ends_are_in_the_log() -> None:
    assert "rows leave windows as the log of s has them" in world().explain("f")


def test_state_that_stored_ends_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A family that was saved with stored ends goes on, and its new rows are read from the log."""
    rng = np.random.default_rng(1)
    queries = some_queries(rng, 0, 20)
    batches = [
        {"v": rng.random(300), "x": np.arange(300), "ts": pa.array(1000 * (at + np.arange(300)), pa.timestamp("us"))}
        for at in range(0, 6000, 300)
    ]

    def play(when: int | None) -> list[Any]:
        with monkeypatch.context() as patched:
            if when is not None:
                patched.setattr(physical_planner, "_ends", lambda child, node: "stored")
            db = world()
            db.register("f", queries)
            for batch in batches[:7]:
                db.push("s", pa.table(batch))
            if when is not None:
                db.save(tmp_path / "saved")
        if when is not None:
            db = eddyline.connect(tmp_path / "saved")
        answers = []
        for batch in batches[7:]:
            db.push("s", pa.table(batch))
            answers.append([db.snapshot(f"q{i}").to_pylist() for i in range(20)])
        return answers

    assert play(7) == play(None)
