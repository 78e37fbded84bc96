"""A bare host over one stream, with a few statements and small batches for it, to see what setbacks do to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.spark.bare import Bare

STREAM = "CREATE STREAM t (k INT, v BIGINT, ts TIMESTAMP) WATERMARK ts USING parquet OPTIONS (path 'in');"
SINK = "CREATE SINK out USING parquet OPTIONS (path 'out');"
COUNT = "CREATE CONTINUOUS QUERY q AS SELECT k, count(*) AS n FROM t [RANGE 100 SECONDS] GROUP BY k;"
ADD = "CREATE QUERY FAMILY f (by BIGINT) AS SELECT k, v + :by AS w FROM t;"


def bare(folder: Path, *statements: str, buckets: int = 2) -> Bare:
    return Bare(folder, "\n".join((STREAM, *statements)), buckets, "quarantine")


def rows(*found: tuple[int, int, int]) -> pa.Table:
    """k, v and the second."""
    k, v, ts = zip(*found, strict=True)
    times = pa.array([t * 1_000_000 for t in ts], pa.int64()).cast(pa.timestamp("us"))
    return pa.table({"k": pa.array(k, pa.int32()), "v": pa.array(v, pa.int64()), "ts": times})


def take(host: Bare, *found: tuple[int, int, int], version: int | None = None) -> list[dict[str, Any]]:
    latest = host.catalog.log.latest()
    return host.take({"t": [rows(*found)]}, latest if version is None else version, 1000 * host.batch)


def batches(folder: Path) -> list[int]:
    """The micro-batches of which a sink has files."""
    return sorted({int(f.name.split("-")[1]) for f in folder.rglob("part-*")})


def no_room(*_: Any) -> None:
    raise OSError(28, "No space left on device")
