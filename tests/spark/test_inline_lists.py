"""Long IN lists and functions over columns in the parts of a pipeline, with buckets and packers that are lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from eddyline.spark.catalog import logged
from eddyline.spark.worker import keeping
from tests.spark.inline import Inline
from tests.spark.suite_host import read


def rows(start: int) -> pa.Table:
    ts = pa.array([start * 1_000_000] * 20, pa.timestamp("us"))
    return pa.table({"a": pa.array(range(start, start + 20), pa.int64()), "ts": ts})


def near(x: Any, y: Any) -> Any:
    return pc.less_equal(pc.abs(pc.subtract(x, y)), 1)


def test_lists_and_functions_over_columns_go_through_the_log_and_come_back_with_lost_buckets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "SMALLEST_LOG", 1)
    monkeypatch.setattr(keeping, "LONGEST_LOG", 2)
    monkeypatch.setattr(logged, "COMMITS", 3)
    monkeypatch.setattr(keeping, "local_folder", lambda _, bucket: tmp_path / "segments" / str(bucket))
    turns = iter(range(10_000))
    inline = Inline(tmp_path, 2, lambda: next(turns) % 2 == 1)
    catalog = inline.catalog
    catalog.execute(f"CREATE SINK out USING parquet OPTIONS (path '{inline.out}')")
    catalog.execute("CREATE STREAM s (a BIGINT, ts TIMESTAMP) WATERMARK ts USING parquet OPTIONS (path 'x')")
    catalog.function("near", near, ["BIGINT", "BIGINT"], "BOOLEAN", "arrow")
    even, odd = (", ".join(map(str, range(n, 2_000, 2))) for n in (0, 1))
    catalog.execute(f"CREATE CONTINUOUS QUERY even AS SELECT a FROM s WHERE a IN ({even})")
    catalog.execute(f"CREATE CONTINUOUS QUERY odd AS SELECT a FROM s WHERE a IN ({odd})")
    catalog.execute(f"CREATE CONTINUOUS QUERY others AS SELECT DISTINCT a FROM s WHERE a NOT IN ({even})")
    catalog.execute("CREATE CONTINUOUS QUERY nearby AS SELECT a FROM s WHERE near(a, 10)")
    for start in (0, 20, 40):
        inline.step({"s": [rows(start)]})
        catalog.execute(f"CREATE CONTINUOUS QUERY late{start} AS SELECT a FROM s WHERE a IN ({even})")
    found: dict[str, list[int]] = {}
    for folder in (f for f in inline.out.iterdir() if f.name != "_staged"):
        for r in read(folder).to_pylist():
            found.setdefault(r["query"], []).append(r["a"])
    assert sorted(found["even"]) == list(range(0, 60, 2))
    assert sorted(found["odd"]) == list(range(1, 60, 2))
    assert sorted(found["others"]) == list(range(1, 60, 2))
    assert sorted(found["nearby"]) == [9, 10, 11]
    assert sorted(found["late20"]) == list(range(40, 60, 2))
    assert "late40" not in found
