"""Time: watermarks across partitions and restarts, and streams that fall silent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eddyline.spark.worker import keeping
from tests.spark.inline import Inline, plain_times
from tests.spark.suite_host import read

SECOND = 1_000_000


def world(folder: Path, monkeypatch: pytest.MonkeyPatch, idle: str = "", loses: bool = False) -> Inline:
    monkeypatch.setattr(keeping, "local_folder", lambda _, bucket: folder / "segments" / str(bucket))
    inline = Inline(folder, 2, lambda: loses)
    for statement in (
        f"CREATE STREAM r (k INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 2 SECONDS {idle}",
        f"CREATE STREAM s (k INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 2 SECONDS {idle}",
        "CREATE CONTINUOUS QUERY both AS SELECT r.k, count(*) AS n FROM r [RANGE 10 SECONDS], s [RANGE 10 SECONDS]"
        " WHERE r.k = s.k GROUP BY r.k",
        "CREATE CONTINUOUS QUERY ends WITH (emit = 'all') AS SELECT k FROM r [RANGE 5 SECONDS]",
        f"CREATE SINK out USING parquet OPTIONS (path '{folder / 'out'}')",
    ):
        inline.catalog.execute(statement)
    return inline


def rows(*pairs: tuple[int, float]) -> pa.Table:
    k, ts = zip(*pairs, strict=True)
    micros = pa.array([int(t * SECOND) for t in ts])
    return pa.table({"k": pa.array(k, pa.int32()), "ts": micros.cast(pa.timestamp("us"))})


def changes(inline: Inline, family: str) -> list[tuple[Any, ...]]:
    found = read(inline.out / family)
    if found is None:
        return []
    seconds = [(t - pa.scalar(0, pa.timestamp("us")).as_py()).total_seconds() for t in _times(found)]
    return sorted(zip(seconds, found["op"].to_pylist(), found["k"].to_pylist(), strict=True))


def _times(found: pa.Table) -> list[Any]:
    return list(plain_times(found)["ts"].to_pylist())


def late(inline: Inline, stream: str) -> list[int]:
    found = read(inline.settings.own / "dead_letter" / stream)
    return [] if found is None else sorted(found["k"].to_pylist())


@pytest.mark.parametrize("loses", [False, True])
def test_the_watermark_is_that_of_all_partitions_and_survives_what_is_lost(
    loses: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline = world(tmp_path, monkeypatch, loses=loses)
    inline.step({"r": [rows((1, 10)), rows((2, 20))]})
    inline.step({"r": [rows((3, 17.9), (4, 18)), rows((5, 30), (6, 19)), rows((7, 19))]})
    assert late(inline, "r") == [3]  # 20 - 2 = 18 held before the step; within it there is no order
    inline.step({"r": [rows((8, 27.9), (9, 28))]})
    assert late(inline, "r") == [3, 8]


def test_a_silent_stream_without_a_limit_holds_back_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inline = world(tmp_path, monkeypatch)
    inline.step({"r": [rows((1, 10))], "s": [rows((1, 10))]})
    inline.now += 3_600_000
    inline.step({"r": [rows((1, 100))]})
    assert changes(inline, "family_1") == []


def test_a_silent_stream_with_a_limit_no_longer_holds_back_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline = world(tmp_path, monkeypatch, "IDLE AFTER INTERVAL 30 SECONDS")
    inline.step({"r": [rows((1, 10))], "s": [rows((1, 10))]})
    inline.now += 29_000
    inline.step({"r": [rows((2, 50))]})
    assert changes(inline, "family_1") == []
    inline.now += 2_000
    inline.step({"r": [rows((2, 60))]})  # s has been silent for 31 seconds: it goes with r, to 60 - 2
    assert changes(inline, "family_1") == [(10.0, "+", 1)]
    inline.step({"s": [rows((9, 57)), rows((8, 58))]})
    assert late(inline, "s") == [9]


def test_when_all_streams_are_silent_time_passes_by_the_wall_clock_and_rows_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline = world(tmp_path, monkeypatch, "IDLE AFTER INTERVAL 30 SECONDS")
    inline.step({"r": [rows((1, 10))]})
    assert changes(inline, "family_2") == [(10.0, "+", 1)]
    inline.now += 30_000 + 7_000  # the watermark stood at 8, and goes on after the limit: to 15
    inline.step({})
    assert changes(inline, "family_2") == [(10.0, "+", 1)]
    inline.now += 1_000
    inline.step({})
    assert changes(inline, "family_2")[0] == (10.0, "+", 1)
    assert [c[1:] for c in changes(inline, "family_2")] == [("+", 1), ("-", 1)]


def test_under_the_latest_clock_a_union_sees_what_one_place_would_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import eddyline

    monkeypatch.setattr(keeping, "local_folder", lambda _, bucket: tmp_path / "segments" / str(bucket))
    inline = Inline(tmp_path, 2, clock="max")
    db = eddyline.connect(clock="max")
    for statement in (
        "CREATE STREAM r (k INT, ts TIMESTAMP) WATERMARK ts",
        "CREATE STREAM s (k INT, ts TIMESTAMP) WATERMARK ts",
        "CREATE CONTINUOUS QUERY u AS SELECT k FROM r [RANGE 1 SECONDS] UNION ALL SELECT k FROM s [RANGE 1 SECONDS]",
    ):
        inline.catalog.execute(statement)
        db.execute(statement)
    inline.catalog.execute(f"CREATE SINK out USING parquet OPTIONS (path '{inline.out}')")
    found = []
    for batch in ({"r": rows((1, 10))}, {"s": rows((2, 5), (3, 10), (4, 12))}, {"r": rows((5, 11), (6, 13))}):
        inline.step({name: [table] for name, table in batch.items()})
        found += db.push(batch).rows("u")["k"].to_pylist()
    assert [c[2] for c in changes(inline, "family_1")] == sorted(found) == [1, 3, 4, 6]
