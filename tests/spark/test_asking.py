"""What is asked of a pipeline's data on its driver: answered from the pipeline's figures, or refused."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from eddyline.errors import CatalogError
from eddyline.spark.output import counts
from eddyline.spark.output.counts import read_counts
from tests.spark.bare import Bare, BrokenOff
from tests.spark.pipelines import START, _timed

SCRIPT = """
CREATE STREAM s (k INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 1 SECOND USING parquet OPTIONS (path 'in/s');
CREATE STREAM quiet (k INT, ts TIMESTAMP) WATERMARK ts USING parquet OPTIONS (path 'in/quiet');
CREATE TABLE customers (k INT PRIMARY KEY, n STRING) USING parquet OPTIONS (path 'in/customers');
CREATE TABLE notes (k INT, note STRING);
CREATE CONTINUOUS QUERY q AS SELECT k FROM s WHERE k > 1;
CREATE MATERIALIZED VIEW v REFRESH WITHIN INTERVAL 1 SECOND AS SELECT COUNT(*) AS n FROM s;
INSERT INTO notes VALUES (1, 'one'), (2, 'two');
CREATE SINK out USING parquet OPTIONS (path 'out');
"""


def stream(*rows: tuple[int, int]) -> pa.Table:
    found = pa.Table.from_pylist([_timed({"k": k, "ts": ts}) for k, ts in rows])
    return found.cast(pa.schema([("k", pa.int32()), ("ts", pa.timestamp("us"))]))


def changes(*rows: tuple[str, int]) -> pa.Table:
    op, k = zip(*rows, strict=True)
    return pa.table({"op": op, "k": pa.array(k, pa.int32()), "n": [f"n{i}" for i in k]})


def take(host: Bare) -> None:
    version = host.catalog.log.latest()
    host.take({"s": [stream((1, 5), (2, 6)), stream((3, 7))], "customers": [changes(("+", 1), ("+", 2))]}, version, 1)
    host.take({"s": [stream((4, 9), (5, 2))], "customers": [changes(("-", 1))]}, version, 2)


@pytest.fixture
def host(tmp_path: Path) -> Bare:
    return Bare(tmp_path, SCRIPT, buckets=2)


def shown(host: Bare, what: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = host.catalog.execute(f"SHOW {what}").drop_columns(["columns"]).to_pylist()
    return rows


def test_show_counts_what_the_pipeline_has_read_and_what_its_tables_hold(host: Bare) -> None:
    take(host)
    mark = datetime(START.year, START.month, START.day, 0, 0, 8)
    assert shown(host, "STREAMS") == [
        {"stream": "s", "watermark": mark, "rows": 5, "late": 1},
        {"stream": "quiet", "watermark": None, "rows": 0, "late": 0},
    ]
    assert shown(host, "TABLES") == [
        {"table": "customers", "retroactive": True, "rows": 1},
        {"table": "notes", "retroactive": True, "rows": 2},
    ]
    found = host.catalog.stats()
    assert (found["rows"], found["late"]) == (5, 1)
    assert found["families"][host.catalog.query("q")[0].name] == {"queries": 1, "changes": 3}
    assert found["streams"]["s"] == {"rows": 5, "late": 1, "bad": 0, "watermark": mark}
    assert found["tables"] == {"customers": {"rows": 1}, "notes": {"rows": 2}}
    assert host.catalog.late("s").to_pylist() == [{"k": 5, "ts": datetime(2026, 1, 1, 0, 0, 2)}]
    assert host.catalog.late("quiet").num_rows == 0


def test_before_the_first_micro_batch_nothing_has_been_read(host: Bare) -> None:
    assert [r["rows"] for r in shown(host, "STREAMS")] == [0, 0]
    assert [r["rows"] for r in shown(host, "TABLES")] == [0, 2]


def test_what_was_not_counted_is_unknown(host: Bare) -> None:
    """A checkpoint of a version that kept no counts, and one that has lost a file."""
    take(host)
    for file in (host.settings.own / "counts").iterdir():
        file.unlink()
    assert [(r["rows"], r["late"]) for r in shown(host, "STREAMS")] == [(None, None), (None, None)]
    assert [r["rows"] for r in shown(host, "TABLES")] == [None, 2]
    assert host.catalog.stats()["changes"] is None
    host.take({"s": [stream((9, 20))]}, host.catalog.log.latest(), 3)
    assert [r["rows"] for r in shown(host, "STREAMS")] == [None, None]
    assert [r["rows"] for r in shown(host, "TABLES")] == [1, 2]  # this the buckets know
    (file,) = (host.settings.own / "counts").iterdir()
    file.write_text("{")
    assert [r["rows"] for r in shown(host, "TABLES")] == [None, 2]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n FROM customers",
        "SELECT n FROM notes JOIN customers ON notes.k = customers.k",
        "WITH c AS (SELECT k FROM customers) SELECT k FROM c",
        "SELECT n FROM v",
        "INSERT INTO notes SELECT k, n FROM customers",
    ],
)
def test_rows_that_are_not_on_the_driver_cannot_be_selected(host: Bare, sql: str) -> None:
    take(host)
    with pytest.raises(CatalogError, match=r"'customers' are in the pipeline's state|no answer of 'v'") as raised:
        host.catalog.execute(sql)
    assert raised.value.hint and "sink" in raised.value.hint
    assert host.catalog.execute("SELECT COUNT(*) AS n FROM notes").to_pylist() == [{"n": 2}]


def test_a_table_that_a_dataframe_feeds_has_a_source_too(tmp_path: Path) -> None:
    host = Bare(tmp_path, SCRIPT.replace(" USING parquet OPTIONS (path 'in/customers')", ""), buckets=2)
    assert host.catalog.execute("SELECT COUNT(*) AS n FROM customers").to_pylist() == [{"n": 0}]
    (host.settings.own / "pipeline.json").write_text(json.dumps({"format": 1, "sources": ["", "customers", "s"]}))
    for sql in ("SELECT k FROM customers", "INSERT INTO customers VALUES (1, 'x')", "DELETE FROM customers"):
        with pytest.raises(CatalogError):
            host.catalog.execute(sql)


def test_a_replayed_micro_batch_is_counted_once(host: Bare) -> None:
    version = host.catalog.log.latest()
    for lives in range(30):
        host.start(SCRIPT)
        host.lives = lives
        try:
            host.take({"s": [stream((1, 5), (2, 6))]}, version, 1)
            break
        except BrokenOff:
            pass
    assert lives > 5 and [r["rows"] for r in shown(host, "STREAMS")] == [2, 0]


def test_counts_keep_the_last_change_of_each_family_that_stands(host: Bare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "KEPT", 2)
    take(host)
    version = host.catalog.log.latest()
    q, other = host.catalog.query("q")[0].number, host.catalog.query("v")[0].number
    host.take({"s": [stream((0, 12))]}, version, 3)
    found = read_counts(host.settings.own)
    assert found is not None and found.complete
    assert (found.batch, found.version) == (2, version)
    assert (found.families[q].changes, found.families[q].batch) == (3, 1)
    assert found.relations["customers"].batch == 1 and found.relations["s"].batch == 2
    host.catalog.execute("DROP CONTINUOUS QUERY q")
    host.take({}, host.catalog.log.latest(), 4)
    found = read_counts(host.settings.own)
    assert found is not None and set(found.families) == {other}
    assert len(list((host.settings.own / "counts").iterdir())) == 2
