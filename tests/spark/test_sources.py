"""Sources and sinks of every kind, through whole pipelines: every row comes once, over restarts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from eddyline.errors import CatalogError
from eddyline.spark import Pipeline
from eddyline.spark.input.control import ControlSource
from eddyline.spark.kafka.options import source_options
from eddyline.spark.kafka.source import KafkaReader
from eddyline.spark.run.checkpoint import catalog_of
from eddyline.spark.run.pipeline_run import PipelineRun
from tests.spark.pipelines import Small
from tests.spark.processes import children, command, jvm, until

if TYPE_CHECKING:
    from tests.spark.conftest import Kafka

pytestmark = pytest.mark.xdist_group("spark")
PATIENCE = 300.0  # seconds
FAMILY = "family_1"  # of the only query

ROWS = [
    {"k": k, "v": v, "ts": f"2026-01-01T00:00:0{s}Z"} for k, v, s in [("a", 1.5, 1), ("b", None, 2), ("ü,\n", 3.0, 3)]
]
EXPECTED = [("a", 1.5), ("ü,\n", 3.0)]


@contextmanager
def running(small: Small) -> Iterator[PipelineRun]:
    run = small.pipe.start()
    try:
        yield run
    finally:
        run.stop()


def as_json() -> str:
    return "".join(json.dumps(r) + "\n" for r in ROWS)


def as_csv() -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, ["k", "v", "ts"])
    writer.writerows(ROWS)
    return text.getvalue()


@pytest.mark.parametrize(("format_", "write"), [("json", as_json), ("csv", as_csv)])
def test_files_of_text_are_read(spark: SparkSession, tmp_path: Path, format_: str, write: Callable[[], str]) -> None:
    small = Small(
        spark,
        tmp_path,
        f"""CREATE STREAM s (k STRING, v DOUBLE, ts TIMESTAMP) WATERMARK ts USING {format_}
  OPTIONS (path '{{in}}/s', multiLine '{"false" if format_ == "json" else "true"}');
CREATE CONTINUOUS QUERY q AS SELECT k, v FROM s WHERE v > 1;""",
    )
    (tmp_path / "in" / "s" / "0").write_text(write())
    small.run()
    assert sorted((r["k"], r["v"]) for r in small.rows(FAMILY)) == EXPECTED


def test_rows_of_the_rate_source_come_once_over_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    script = "CREATE STREAM s (value BIGINT, timestamp TIMESTAMP) WATERMARK timestamp"
    script += " USING rate OPTIONS (rowsPerSecond '100', numPartitions '2');"
    small = Small(spark, tmp_path, script + "CREATE CONTINUOUS QUERY q AS SELECT value FROM s;")
    for least in (1, 300):
        with running(small):
            assert until(lambda least=least: len(small.rows(FAMILY)) >= least, PATIENCE, 0.3)
    values = sorted(r["value"] for r in small.rows(FAMILY))
    assert values == list(range(len(values)))


def test_rows_expire_when_no_more_come(spark: SparkSession, tmp_path: Path) -> None:
    script = """CREATE STREAM s (a BIGINT, ts TIMESTAMP) WATERMARK ts IDLE AFTER INTERVAL 1 SECOND
  USING parquet OPTIONS (path '{in}/s');
CREATE CONTINUOUS QUERY q WITH (emit = 'all') AS SELECT a FROM s [RANGE 2 SECONDS];"""
    small = Small(spark, tmp_path, script)
    ops = lambda: [r["op"] for r in small.rows(FAMILY)]  # noqa: E731
    with running(small):
        small.put("s", [{"a": 1, "ts": 1}])
        assert until(lambda: ops() == ["+", "-"], PATIENCE, 0.3), ops()


def test_sources_of_ours_may_be_known_to_the_first_session(spark: SparkSession, tmp_path: Path) -> None:
    spark.dataSource.register(ControlSource)
    script = "CREATE STREAM s (value BIGINT, timestamp TIMESTAMP) WATERMARK timestamp USING rate;"
    small = Small(spark, tmp_path, script + "CREATE CONTINUOUS QUERY q AS SELECT value FROM s;")
    with running(small):
        assert until(lambda: len(small.rows(FAMILY)) >= 1, PATIENCE, 0.3)


def test_messages_of_kafka_go_through_a_pipeline_to_kafka(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    came, went = (f"t{uuid4().hex}" for _ in range(2))
    kafka.create(came)
    options = f"kafka.bootstrap.servers '{kafka.servers}'"
    file = tmp_path / "pipeline.sql"
    file.write_text(
        f"""CREATE STREAM s (k STRING, v BIGINT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 1 HOUR
  USING kafka OPTIONS ({options}, subscribe '{came}', startingOffsets 'earliest');
CREATE CONTINUOUS QUERY q AS SELECT k, v FROM s WHERE v >= 10;
CREATE SINK out USING kafka OPTIONS ({options}, topic '{went}') FOR q;"""
    )
    for start in (0, 40):
        for v in range(start, start + 40):
            kafka.send(came, v % 4, [json.dumps({"k": f"k{v}", "v": v, "ts": "2026-01-01T00:00:00Z"}).encode()])
        kafka.send(came, 0, [b"no json"])
        pipe = Pipeline(spark, file, tmp_path / "ck", buckets=2, on_bad_rows="set apart")
        pipe.start(available_now=True).awaitTermination()
    found = messages(kafka, went)
    assert sorted((m["k"], m["v"], m["query"], m["op"]) for m in found) == sorted(
        (f"k{v}", v, "q", "+") for v in range(10, 80)
    )
    assert len({(m["batch"], m["position"]) for m in found}) == 70
    set_apart = spark.read.parquet(str(tmp_path / "ck" / "eddyline" / "dead_letter" / "s")).collect()
    assert len(set_apart) == 2


def messages(kafka: Kafka, topic: str) -> list[dict[str, Any]]:
    options = {"kafka.bootstrap.servers": kafka.servers, "subscribe": topic, "startingOffsets": "earliest"}
    reader = KafkaReader(source_options(options))
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    batches = [b for part in reader.partitions(start, end) for b in reader.read(part)]
    return [json.loads(value) for b in batches for value in b.column("value").to_pylist()]


SIMPLE = """CREATE STREAM s (a BIGINT, ts TIMESTAMP) WATERMARK ts USING parquet OPTIONS (path '{in}/s');
CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE a > 1;
"""


def test_a_sink_may_be_the_console_or_any_format_of_sparks(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sinks = f"CREATE SINK shown USING console FOR q; CREATE SINK orc USING orc OPTIONS (path '{tmp_path}/orc') FOR q;"
    small = Small(spark, tmp_path, SIMPLE + sinks)
    small.put("s", [{"a": a, "ts": a} for a in range(30)])
    small.run()
    said = capsys.readouterr().out
    assert "-- shown, batch 0: 28 changes" in said
    assert sorted(r.a for r in spark.read.orc(f"{tmp_path}/orc").collect()) == list(range(2, 30))


def test_python_workers_are_kept_from_one_micro_batch_to_the_next(spark: SparkSession, tmp_path: Path) -> None:
    small = Small(spark, tmp_path, SIMPLE)
    found = []
    with running(small) as run:
        for i in range(8):
            small.put("s", [{"a": i, "ts": i}])
            run.processAllAvailable()
            daemons = [p for p in children(jvm()) if command(p).endswith("pyspark.daemon pyspark.worker")]
            found.append({w for d in daemons for w in children(d)})
    assert found[-1] and found[-1] <= found[2]


def test_a_running_spark_is_asked_for_formats_that_are_not_listed(spark: SparkSession, tmp_path: Path) -> None:
    stream = "CREATE STREAM t (k INT, ts TIMESTAMP) WATERMARK ts USING parquet OPTIONS (path '{in}/t');"
    found = Small(spark, tmp_path, stream)
    with pytest.raises(CatalogError, match=r"Spark has no format 'parqet' for the sink 'extra'[^$]*'parquet'"):
        found.pipe.execute("CREATE SINK extra USING parqet OPTIONS (path '/tmp/x')")
    found.pipe.execute(f"CREATE SINK extra USING binaryFile OPTIONS (path '{tmp_path}/extra')")
    pipeline_catalog = catalog_of(tmp_path / "ck")
    pipeline_catalog.execute(f"DROP SINK extra; CREATE SINK more USING binaryFile OPTIONS (path '{tmp_path}/more')")
    assert [s.name for s in pipeline_catalog.catalog.sinks] == ["out", "more"]
