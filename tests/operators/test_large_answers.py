"""A step costs what it changes, not what is kept: the memory that one pushed row takes, with few and with many rows.

An operator that reads all it keeps makes an array as long: a mask, a sorted copy, a gathered column. So the most memory
in use during a push counts its work. Structures that grow or merge now and then do so rarely: the median is compared.
"""

from __future__ import annotations

import statistics
import tracemalloc

import pyarrow as pa
import pytest

import eddyline
from eddyline.local.connection import Connection

FEW, MANY = 4_000, 120_000
HOUR = 3_600_000_000
S, R = "s [RANGE 1 HOUR]", "r [RANGE 1 HOUR]"


def push(db: Connection, stream: str, values: list[int], ts: list[int]) -> int:
    columns = {"v": pa.array(values, pa.int32()), "n": pa.array([f"n{v}" for v in values])}
    return db.push(stream, pa.table(columns | {"ts": pa.array(ts, pa.timestamp("us"))})).count()


def bytes_of_a_push(select: str, options: str, rows: int) -> float:
    """The median of the most memory in use during pushes of one row; each lets the oldest row end."""
    db = eddyline.connect()
    for stream in ("s", "r"):
        db.execute(f"CREATE STREAM {stream} (v INT, n STRING, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS")
    db.execute(f"CREATE CONTINUOUS QUERY q {options} AS {select.format(rows=rows)}")
    step = HOUR // rows
    for i in range(0, rows, 4_000):
        push(db, "s", list(range(i, i + 4_000)), [step * n for n in range(i, i + 4_000)])
        push(db, "r", [-1], [step * (i + 3_999)])
    peaks, changes = [], 0
    for i in range(rows, rows + 40):
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            changes += push(db, "s", [i if i % 2 else i // 2], [step * i])
            changes += push(db, "r", [i - 100], [step * i])
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
        finally:
            tracemalloc.stop()
    assert changes >= 20
    return statistics.median(peaks)


@pytest.mark.parametrize(
    ("select", "options"),
    [
        (f"SELECT DISTINCT v, n FROM {S}", ""),
        ("SELECT DISTINCT v, n FROM s [ROWS {rows}]", ""),
        (f"SELECT v, n FROM {S} EXCEPT ALL SELECT v, n FROM {R}", ""),
        (f"SELECT v, n FROM {S} INTERSECT ALL SELECT v, n FROM {R}", ""),
        (f"SELECT n, COUNT(*) AS k, AVG(v) AS a FROM {S} GROUP BY n", ""),
        (f"SELECT n, MAX(v) AS most, MIN(v) AS least FROM {S} GROUP BY n", ""),
        (f"SELECT v, n FROM {S}", "WITH (emit = 'all')"),
        ("SELECT v, n FROM s [ROWS {rows}]", ""),
    ],
)
def test_one_row_takes_as_much_work_with_few_rows_in_the_answer_as_with_many(select: str, options: str) -> None:
    few, many = (bytes_of_a_push(select, options, rows) for rows in (FEW, MANY))
    assert many < few + MANY // 4  # less than a mask of the rows
