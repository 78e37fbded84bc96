"""`stats()` and EXPLAIN ANALYZE tell what the state of every operator takes, apart from what families share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import eddyline

# By query: the fewest and the most bytes for each of its 10,000 distinct values.
QUERIES = {
    "SELECT DISTINCT k FROM s [RANGE 1 HOUR]": (32, 200),
    "SELECT k, COUNT(*) AS n FROM s [RANGE 1 HOUR] GROUP BY k": (48, 400),
    "SELECT k FROM s [RANGE 1 HOUR] EXCEPT ALL SELECT k FROM r [RANGE 1 HOUR]": (48, 500),
    "SELECT MAX(k) AS m FROM s [RANGE 1 HOUR]": (0, 100),
}


def filled(text: str, rows: int) -> eddyline.Connection:
    db = eddyline.connect()
    for name in "rs":
        db.execute(f"CREATE STREAM {name} (k BIGINT, ts TIMESTAMP) WATERMARK ts")
    db.execute(f"CREATE CONTINUOUS QUERY q WITH (snapshot = 'no') AS {text}")
    for name in "rs" if " r " in text else "s":
        ts = pa.array(1000 * np.arange(rows), pa.timestamp("us"))
        db.push(name, pa.table({"k": np.arange(rows) if name == "s" else np.arange(rows) + rows, "ts": ts})).count()
    return db


@pytest.mark.parametrize("text", QUERIES)
def test_bytes_of_state_grow_with_its_rows(text: str) -> None:
    least, most = QUERIES[text]
    small, large = (filled(text, n).stats()["state_bytes"] for n in (1_000, 11_000))
    assert least * 10_000 <= large - small <= most * 10_000


def test_what_families_share_is_counted_once() -> None:
    db = eddyline.connect()
    db.execute("CREATE STREAM s (k BIGINT, ts TIMESTAMP) WATERMARK ts")
    for i in range(3):
        db.execute(
            f"CREATE CONTINUOUS QUERY q{i} AS SELECT a.k AS k{i} FROM s [RANGE 9 SECONDS] a, s b WHERE a.k = b.k"
        )
    db.push("s", pa.table({"k": np.arange(5000), "ts": pa.array(np.arange(5000), pa.timestamp("us"))})).count()
    stats = db.stats()
    own = {f["shared_bytes"] for f in stats["families"].values()}
    assert own == {stats["shared_bytes"]}
    assert stats["shared_bytes"] > 24 * 5000  # key, event time and arrival of each row


def test_explain_analyze_tells_bytes_by_operator() -> None:
    db = filled("SELECT DISTINCT k FROM s [RANGE 1 HOUR]", 1_000)
    (line,) = (x for x in db.explain("q", analyze=True).splitlines() if "DuplicateElimination" in x)
    assert "1000 rows in " in line and line.endswith(" bytes")
