"""A sink is one file and one entry of a registry: nothing else must know it. One is added of each shape."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import eddyline
from eddyline.cli import app
from eddyline.delivery.marks import folders_of, parts_of
from eddyline.delivery.rewinding import rewind_files, rewind_mark, rewind_of
from eddyline.delivery.sinks import FILE_SINKS
from eddyline.errors import CatalogError
from eddyline.spark.catalog.externals import Rules
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.output.sinks import SENDING_SINKS
from tests.delivery.arrow_file import ARROW_FILE
from tests.spark.bare import Bare, BrokenOff
from tests.spark.pipelines import Small
from tests.spark.setbacks import COUNT, SINK, STREAM, bare, take
from tests.spark.sqlite_sink import SQLITE

ARROW = "CREATE SINK arrows USING Arrow OPTIONS (path 'arrows', compact '3');"


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch, apart: None) -> None:
    monkeypatch.setitem(FILE_SINKS, ARROW_FILE.suffix, ARROW_FILE)
    monkeypatch.setitem(SENDING_SINKS, "sqlite", SQLITE)


def sqlite(folder: Path) -> str:
    return f"CREATE SINK db USING sqlite OPTIONS (database '{folder / 'db'}');"


def in_database(folder: Path) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(folder / "db")
    changes = connection.execute("SELECT batch, position, query, op FROM changes ORDER BY 1, 2")
    rows = changes.fetchall()
    connection.close()
    return rows


def in_files(place: Path) -> list[tuple[Any, ...]]:
    (table,) = eddyline.read_sink(place).tables.values()
    return sorted((r["batch"], r["position"], r["query"], r["op"]) for r in table.to_pylist())


@pytest.mark.xdist_group("spark")
def test_a_sink_that_sends_gets_the_rows_of_a_pipeline_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    script = (
        "CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts USING parquet OPTIONS (path '{in}/s');\n"
        "CREATE CONTINUOUS QUERY q AS SELECT a, COUNT(*) AS n FROM s [RANGE 10 SECONDS] GROUP BY a;\n"
    )
    small = Small(spark, tmp_path, script + sqlite(tmp_path))
    for second in (1, 5):
        small.put("s", [{"a": a, "ts": second} for a in (1, 2, 2)])
        small.run()
    rows = in_database(tmp_path)
    assert rows == in_files(tmp_path / "out")
    assert {op for *_, op in rows} == {"+", "-"}
    assert not any((tmp_path / "ck" / "eddyline" / "sinks" / "db").rglob("*.*")), "staged files are removed"


def test_rows_that_are_sent_again_are_in_its_database_once(tmp_path: Path) -> None:
    host = bare(tmp_path, COUNT, SINK, sqlite(tmp_path))
    script = "\n".join((STREAM, COUNT, SINK, sqlite(tmp_path)))
    again = 0
    for lives in range(20):
        host.lives = lives
        try:
            take(host, (1, 100, 1), (2, 5, 1))
            break
        except BrokenOff:
            again += (tmp_path / "db").exists()
            host.start(script)
    assert again > 1
    assert in_database(tmp_path) == in_files(tmp_path / "out")


def test_files_of_a_new_format_are_committed_read_compacted_and_rewound(tmp_path: Path) -> None:
    host = bare(tmp_path, COUNT, SINK, ARROW)
    for second in range(1, 8):
        take(host, (1, 100, second), (second, 5, second))
    place = tmp_path / "arrows"
    rows = in_files(place)
    assert rows == in_files(tmp_path / "out") and len({batch for batch, *_ in rows}) == 7
    files = [part.path.name for folder in folders_of(place) for part in parts_of(folder)]
    assert len({name.split("-")[1] for name in files}) < 7, "some were merged"
    assert "complete up to micro-batch 6" in CliRunner().invoke(app, ["sink", "info", str(place)]).stdout
    rewind = rewind_of(place, 2)
    rewind_files(rewind)
    rewind_mark(rewind, {host.delivery.epoch.id})
    assert in_files(place) == [row for row in rows if row[0] < 2]


def test_the_files_of_a_broken_off_micro_batch_are_replaced(tmp_path: Path) -> None:
    host = bare(tmp_path, COUNT, ARROW)
    _break_off_anywhere(host)
    assert [batch for batch, *_ in in_files(tmp_path / "arrows")] == [0, 0]


def _break_off_anywhere(host: Bare) -> None:
    for lives in range(20):
        host.lives = lives
        try:
            take(host, (1, 100, 1), (2, 5, 1))
            return
        except BrokenOff:
            host.start("\n".join((STREAM, COUNT, ARROW)))
    raise AssertionError("the micro-batch never ended")


def test_the_options_of_a_new_sink_are_checked_when_it_is_declared(tmp_path: Path) -> None:
    host = bare(tmp_path, COUNT)
    with pytest.raises(CatalogError, match="The sink 'db' has no database"):
        host.catalog.execute("CREATE SINK db USING sqlite")
    with pytest.raises(CatalogError, match="The sink 'arrows' has no path"):
        host.catalog.execute("CREATE SINK arrows USING arrow")
    others = PipelineCatalog(host.settings.log(), Rules("others"))
    others.execute(sqlite(tmp_path))
    with pytest.raises(CatalogError, match=r"Option 'timeout' of the sink 'other' cannot be given here"):
        others.execute("CREATE SINK other USING sqlite OPTIONS (database 'x', timeout '3')")
