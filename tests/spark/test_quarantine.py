"""One bad query does not stop the others: it goes into quarantine with its error, and can be resumed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines import Small

pytestmark = pytest.mark.xdist_group("spark")

SCRIPT = """
CREATE STREAM t (k INT, v BIGINT, ts TIMESTAMP) WATERMARK ts USING parquet OPTIONS (path '{in}/t');
CREATE CONTINUOUS QUERY fine AS SELECT k, v FROM t;
CREATE QUERY FAMILY shifted (by BIGINT) AS SELECT k, v + :by AS w FROM t;
CREATE QUERY FAMILY few (k INT) WITH (most_changes = '3', split = 'queries') AS SELECT v FROM t WHERE k = :k;
CREATE CONTINUOUS QUERY sums AS SELECT k, sum(v * v) AS s FROM t [RANGE 1 HOURS] GROUP BY k;
"""


def rows(*values: tuple[int, int, int]) -> pa.Table:
    k, v, ts = zip(*values, strict=True)
    micros = pa.array([x * 1_000_000 for x in ts], pa.int64())
    return pa.table({"k": pa.array(k, pa.int32()), "v": pa.array(v, pa.int64()), "ts": micros.cast(pa.timestamp("us"))})


def quarantined(found: Small) -> dict[str, str]:
    catalog = found.pipe.catalog
    catalog.catch_up()
    names = {}
    for family, errors in catalog.quarantined.items():
        table = catalog.registry.number(family).queries.rows()
        names |= dict(zip(table.name_of(np.array(list(errors), np.int64)).to_pylist(), errors.values(), strict=True))
    return names


def of(found: Small, family: str, query: str, column: str) -> list[int]:
    return sorted(r[column] for r in found.rows(family) if r["query"] == query and r["op"] == "+")


def test_queries_that_overflow_raise_or_explode_are_taken_out_and_the_others_do_not_notice(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = Small(spark, tmp_path, SCRIPT)
    found.pipe.function("picky", lambda k: 10 // k, ["INT"], "INT")
    found.pipe.execute("CREATE CONTINUOUS QUERY calls AS SELECT picky(k) AS p FROM t")
    found.pipe.register("shifted", pa.table({"query": ["small", "huge"], "by": pa.array([1, 2**63 - 10], pa.int64())}))
    found.pipe.register("few", pa.table({"query": ["k1", "k2"], "k": pa.array([1, 2], pa.int32())}))
    found.put("t", rows((1, 1, 0), (2, 2, 1)))
    found.run()
    assert quarantined(found) == {}
    found.put("t", rows((0, 5, 2), (1, 100, 3), (1, 101, 4), (1, 102, 5), (1, 103, 6), (2, 4, 7)))
    found.run()
    errors = quarantined(found)
    assert sorted(errors) == ["calls", "huge", "k1"]
    assert "ZeroDivisionError" in errors["calls"]
    assert "overflow" in errors["huge"]
    assert "More than 3 changes" in errors["k1"]
    found.put("t", rows((1, 7, 8), (2, 8, 9)))
    found.run()
    assert of(found, "family_1", "fine", "v") == [1, 2, 4, 5, 7, 8, 100, 101, 102, 103]
    assert of(found, "shifted", "small", "w") == [2, 3, 5, 6, 8, 9, 101, 102, 103, 104]
    assert of(found, "shifted", "huge", "w") == [2**63 - 9, 2**63 - 8]
    assert of(found, "few", "k1", "v") == [1]
    assert of(found, "few", "k2", "v") == [2, 4, 8]

    assert found.pipe.resume("k1") == 1
    assert found.pipe.resume("calls") == 1
    found.put("t", rows((1, 9, 10), (2, 10, 11)))
    found.run()
    assert sorted(quarantined(found)) == ["huge"]
    assert of(found, "few", "k1", "v") == [1, 9]


def test_a_state_that_overflows_takes_out_its_query_and_resuming_begins_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = Small(spark, tmp_path, SCRIPT)
    found.put("t", rows((1, 2**40, 0), (2, 3, 1)))
    found.run()
    assert sorted(quarantined(found)) == ["sums"]
    found.pipe.resume("sums")
    found.put("t", rows((1, 3, 2), (9, 0, 100)))
    found.run()
    assert quarantined(found) == {}
    assert of(found, "family_4", "sums", "s")[-1] == 9
