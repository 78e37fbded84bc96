"""The way to a new checkpoint that docs/operations.md describes, command by command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline

pytestmark = pytest.mark.xdist_group("spark")
PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
SCRIPT = """
CREATE STREAM trades (symbol STRING, price DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 5 SECONDS
  USING parquet OPTIONS (path 'trades');
CREATE QUERY FAMILY alert (lo DOUBLE) AS SELECT symbol, price FROM trades WHERE price >= :lo;
CREATE SINK out USING parquet OPTIONS (path 'out');
"""
QUERIES = "CREATE CONTINUOUS QUERY cheap AS SELECT symbol FROM trades WHERE price < 10;"


def commands() -> str:
    section = PAGE.read_text().partition("## Changes that need a new checkpoint")[2]
    found = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


def shell(folder: Path, text: str) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", text], cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def trades(folder: Path, name: str, *prices: float, **more: list[str]) -> None:
    times = [datetime(2026, 1, 1, second=int(i)) for i in range(len(prices))]
    rows = {"symbol": [f"s{p}" for p in prices], "price": list(prices), "ts": times} | more
    pq.write_table(pa.table(rows), folder / "trades" / f"{name}.parquet")


def test_the_way_to_a_new_checkpoint_takes_over_every_query_and_goes_on_after_the_old_one(tmp_path: Path) -> None:
    for name in ("trades", "archive"):
        (tmp_path / name).mkdir()
    (tmp_path / "pipeline.sql").write_text(SCRIPT)
    (tmp_path / "more.sql").write_text(QUERIES)
    pq.write_table(pa.table({"query": ["a", "b"], "lo": [50.0, 5.0]}), tmp_path / "alerts.parquet")
    trades(tmp_path, "first", 4.0, 20.0, 60.0)
    shell(tmp_path, "eddyline run pipeline.sql --checkpoint ck --once --master 'local[2]'")
    shell(tmp_path, "eddyline query add more.sql --checkpoint ck")
    shell(tmp_path, "eddyline query add --family alert --from alerts.parquet --checkpoint ck")
    trades(tmp_path, "second", 7.0, 70.0, venue=["x", "y"])
    # The second file comes after the old pipeline has ended.
    shell(tmp_path, commands())
    assert [f.name for f in (tmp_path / "archive").iterdir()] == ["first.parquet"]
    rows = eddyline.read_sink(tmp_path / "out-2")
    assert rows.cursor.batch >= 0
    found = {(r["query"], r["symbol"]) for t in rows.tables.values() for r in t.to_pylist()}
    assert found == {("a", "s70.0"), ("b", "s7.0"), ("b", "s70.0"), ("cheap", "s7.0")}
