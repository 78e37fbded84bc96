"""The figures of micro-batches: from reports that a run has left, as text on a screen, and over HTTP."""

from __future__ import annotations

import io
import json
import re
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from rich.console import Console, RenderableType

from eddyline.commands import display
from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.output.reports import write_reports
from eddyline.spark.run.metrics import LABELS, Metrics, serve
from eddyline.spark.run.progress import (
    BatchFigures,
    BatchSeconds,
    OfFamily,
    OfStream,
    Progress,
    Totals,
    backlog,
    spread,
)
from eddyline.spark.run.spark_session import NOISE, without
from tests.spark.pipelines import Small

pytestmark = pytest.mark.xdist_group("spark")

# Two micro-batches of two buckets over this script: 3 rows, then 4 of which one is late and one is bad.
RECORDED = json.loads((Path(__file__).parent / "recorded_progress.json").read_text())
SCRIPT = """
CREATE STREAM trades (symbol STRING, price DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 2 SECONDS
  USING parquet OPTIONS (path 'in');
CREATE QUERY FAMILY alert (lo DOUBLE, hi DOUBLE) AS SELECT symbol, price FROM trades WHERE price BETWEEN :lo AND :hi;
CREATE CONTINUOUS QUERY busy AS SELECT symbol, COUNT(*) AS n FROM trades [RANGE 10 SECONDS] GROUP BY symbol;
"""


PIPELINE = """
CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS USING parquet OPTIONS (path '{in}/s');
CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE a > 1;
"""


@pytest.fixture
def progress(tmp_path: Path) -> Progress:
    catalog = PipelineCatalog(CommitLog(tmp_path))
    catalog.run_script(SCRIPT)
    catalog.register("alert", [{"query": "a", "lo": 0.0, "hi": 50.0}, {"query": "b", "lo": 40.0, "hi": 90.0}])
    found = Progress(tmp_path / "own", catalog, cores=2)
    found.begin(0)
    return found


def replay(progress: Progress, *batches: int) -> None:
    for b in batches:
        found = RECORDED[b]
        write_reports(progress.own, found["batch"], found["reports"], found["seconds"])
        progress.heard(found["said"])


# --- figures ---------------------------------------------------------------------------------------------------------


def test_figures_are_the_sums_of_what_buckets_and_partitions_report(progress: Progress) -> None:
    family, query = progress.catalog.query("b")
    progress.catalog.quarantine(family.number, [query], "overflow")
    replay(progress, 0, 1)
    found = progress.latest
    assert found is not None
    assert (found.batch, found.version) == (1, 2)
    assert found.streams == {"trades": OfStream(rows=4, late=1, bad=1, watermark=1767225618.0)}
    assert found.families == {"alert": OfFamily(2, 3, 0, 1), "family_2": OfFamily(1, 3, 12, 0)}
    assert (found.queries, found.changes, found.state_rows, found.quarantined) == (3, 6, 12, 1)
    assert found.state_bytes == 1572 + 2415
    assert (found.cache_hits, found.cache_misses) == (2, 0)
    assert "is bad: no event time" in found.first_bad
    assert found.lag(1767225618.0 + 60) == 60
    assert found.backlog is None
    assert (progress.totals.batches, progress.totals.rows, progress.totals.late, progress.totals.bad) == (2, 7, 1, 1)
    assert progress.totals.families == {"alert": 7, "family_2": 5}


def test_the_parts_of_a_batch_add_up_to_what_spark_says_it_took(progress: Progress) -> None:
    replay(progress, 1)
    found = progress.latest
    assert found is not None
    assert found.seconds == pytest.approx(RECORDED[1]["said"]["durationMs"]["triggerExecution"] / 1000)
    assert found.split.pack == pytest.approx(0.0573)
    assert found.split.process == pytest.approx(0.0288 + 0.0002)
    assert found.split.sink == pytest.approx(RECORDED[1]["seconds"])


def test_listeners_hear_of_each_batch_once_and_their_errors_stop_nothing(progress: Progress) -> None:
    heard: list[int] = []

    def fails(f: BatchFigures) -> None:
        heard.append(f.batch)
        raise RuntimeError("a listener's own affair")

    progress.listeners += [fails, lambda f: heard.append(f.batch + 100)]
    first, second = RECORDED
    write_reports(progress.own, first["batch"], first["reports"], first["seconds"])
    assert heard == [] and progress.latest is None
    progress.heard(second["said"])  # of a batch that has not been delivered
    progress.heard(first["said"])
    progress.heard(first["said"])
    assert heard == [0, 100]
    write_reports(progress.own, second["batch"], second["reports"], second["seconds"])
    write_reports(progress.own, 2, second["reports"], 0.0)
    assert heard == [0, 100]
    progress.heard(second["said"] | {"batchId": 2})  # of the one before Spark has never told
    assert heard == [0, 100, 1, 101, 2, 102]


def test_tasks_take_at_least_the_longest_and_their_sum_over_all_cores() -> None:
    assert spread([1.0, 1.0, 1.0, 1.0], 2) == 2.0
    assert spread([3.0, 1.0], 2) == 3.0
    assert spread([], 2) == 0.0


def test_the_backlog_is_what_sources_have_beyond_the_batch() -> None:
    kafka = {
        "endOffset": {"t": {"0": 10, "1": 5}, "$from": {"t": {"0": 0}}},
        "latestOffset": {"t": {"0": 30, "1": 5, "2": 4}},
    }
    files = {"endOffset": {"logOffset": 3}, "latestOffset": None}
    assert backlog({"sources": [files, kafka]}) == 20
    assert backlog({"sources": [files]}) is None


# --- text ------------------------------------------------------------------------------------------------------------


def figures(**more: Any) -> BatchFigures:
    known: dict[str, Any] = {
        "batch": 7,
        "ended": 1000.0,
        "version": 3,
        "families": {"alert": OfFamily(1_000_000, 300), "busy": OfFamily(1, 20, 4000)},
        "streams": {"trades": OfStream(2000, 0, 0, 997.0)},
        "split": BatchSeconds(0.2, 0.4, 0.1, 0.1, 1.2),
        "state_bytes": 2_500_000,
        "cache_hits": 4,
    }
    return BatchFigures(**known | more)


def text(shown: RenderableType, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(shown)
    assert isinstance(console.file, io.StringIO)
    return "".join(f"{line.rstrip()}\n" for line in console.file.getvalue().splitlines())


def test_a_screen_of_80_columns_shows_all_figures() -> None:
    totals = Totals()
    totals.add(figures())
    totals.add(figures())
    assert text(display.screen("p.sql → ck", "", figures(), totals, 940.0, 1001.0)) == SCREEN


SCREEN = """\
p.sql → ck                                           batch 7 · running for 1 min

rows       1,000/s  4,000 in all
changes      160/s  640 in all
queries  1,000,001  2 families
lag          4.0 s
state       2.5 MB  4,000 rows   100% found in memory
batch        2.0 s  ████████████████████████████████████████
                    pack 0.20  process 0.40  state 0.10  sink 0.10  Spark 1.20

family     queries   changes/s   changes   state rows   quarantine
──────────────────────────────────────────────────────────────────
alert    1,000,000         150       600
busy             1          10        40        4,000
"""


def test_a_screen_tells_of_trouble_and_of_silence() -> None:
    bad = figures(
        streams={"trades": OfStream(2000, 3, 2, None)}, backlog=50, families={"alert": OfFamily(5, quarantined=1)}
    )
    totals = Totals()
    totals.add(bad)
    shown = text(display.screen("p.sql → ck", "", bad, totals, 940.0, 1010.0))
    for words in ("3 late   2 bad", "1 in quarantine", "50 rows wait at the sources", "no new rows for 10.0 s"):
        assert words in shown
    assert re.search(r"lag +– ", shown)
    assert "stopping" in text(display.screen("p", "stopping", bad, totals, 940.0, 1010.0))
    assert "waiting for rows · 10.0 s" in text(display.screen("p", "", None, Totals(), 1000.0, 1010.0))


def test_of_very_many_families_the_busiest_are_shown() -> None:
    many = figures(families={f"f{i}": OfFamily(1, i) for i in range(1000)})
    totals = Totals()
    totals.add(many)
    shown = text(display.screen("p", "", many, totals, 940.0, 1001.0))
    assert re.findall(r"^(f\d+) ", shown, re.MULTILINE) == [f"f{i}" for i in range(999, 989, -1)]
    assert "… and 990 families more" in shown


def test_a_line_sums_the_batches_since_the_line_before(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), width=1000)
    now = [100.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    with display.Lines(console) as lines:
        lines.take(figures())
        lines.take(figures(batch=8))
        now[0] += 2
        lines.take(figures(batch=9, streams={"trades": OfStream(2000, 1, 0, 997.0)}, backlog=5))
        now[0] += display.EVERY
        lines.take(figures(batch=10))
        lines.take(figures(batch=11))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        "Batch 7 in 2.0 s · 2,000 rows (1,000/s) · 320 changes (160/s) · 1,000,001 queries · state 2.5 MB · lag 3.0 s",
        "Batches 8–10 in 6.0 s · 6,000 rows (1,000/s) · 960 changes (160/s) · 1,000,001 queries · state 2.5 MB"
        " · lag 3.0 s · 1 late",
        "Batch 11 in 2.0 s · 2,000 rows (1,000/s) · 320 changes (160/s) · 1,000,001 queries · state 2.5 MB · lag 3.0 s",
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "0.00 s"), (0.456, "0.46 s"), (59.94, "59.9 s"), (90, "2 min"), (7000, "117 min"), (8.64e6, "100 d")],
)
def test_durations_have_the_digits_that_matter(seconds: float, words: str) -> None:
    assert display.duration(seconds) == words


# --- Prometheus ------------------------------------------------------------------------------------------------------


def scrape(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_the_figures_are_served_to_prometheus(progress: Progress) -> None:
    port = serve(progress, 0, "127.0.0.1")
    replay(progress, 0, 1)
    found = scrape(port)
    assert found["eddyline_batches_total"] == 2
    assert found['eddyline_rows_total{stream="trades"}'] == 7
    assert found['eddyline_late_rows_total{stream="trades"}'] == 1
    assert found['eddyline_changes_total{family="alert"}'] == 7
    assert found['eddyline_queries{family="alert"}'] == 2
    assert found['eddyline_state_rows{family="family_2"}'] == 12
    assert found['eddyline_lag_seconds{stream="trades"}'] > 1e6
    assert found['eddyline_batch_seconds_total{part="spark"}'] > 0
    assert found["eddyline_catalog_version"] == 2


def test_the_labels_of_families_are_bounded_and_given_back() -> None:
    metrics = Metrics()

    def labels() -> dict[str, float]:
        (family,) = (m for m in metrics.registry.collect() if m.name == "eddyline_queries")
        return {s.labels["family"]: s.value for s in family.samples}

    metrics.take(figures(families={f"f{i}": OfFamily(2) for i in range(LABELS + 50)}))
    assert len(labels()) == LABELS + 1 and labels()["other"] == 100
    metrics.take(figures(families={f"f{i}": OfFamily(3) for i in range(10, LABELS + 50)}))
    assert len(labels()) == LABELS + 1 and labels()["other"] == 40 * 3
    assert "f0" not in labels() and f"f{LABELS}" in labels()


# --- what Spark says -------------------------------------------------------------------------------------------------


def test_noise_is_left_out_with_the_empty_lines_after_it() -> None:
    lines = ["WARNING: Using incubator modules: x\n", "ERROR real\n", "\n", "Starting Streaming "]
    lines[3] += "TransformWithStateInPandas Python worker.\n"
    assert list(without([*lines, "\n", "end\n"], NOISE)) == ["ERROR real\n", "\n", "end\n"]
    assert list(without(lines, ())) == lines


def test_that_spark_has_ended_a_source_is_no_news() -> None:
    runner = '  File "pyspark.zip/pyspark/sql/streaming/python_streaming_source_runner.py", line 265, in main\n'
    start, chain = "Traceback (most recent call last):\n", "During handling of the above exception, another occurred:\n"
    code = "    func_id = read_int(infile)\n"
    ended = [start, runner, code, "EOFError\n", "\n", chain, "\n", start, runner, code, "BrokenPipeError: [Errno 32]\n"]
    failed = [start, runner, code, "ValueError: no such offset\n", "\n", chain, "\n", start, runner, "OSError\n"]
    of_others = [start, '  File "worker.py", line 1, in main\n', code, "EOFError\n"]
    assert list(without([*ended, "next\n"], NOISE)) == ["next\n"]
    assert list(without([*failed, *of_others, *ended[:4]], NOISE)) == [*failed, *of_others]
    assert list(without(ended, ())) == ended
    assert list(without(ended[:2], NOISE)) == ended[:2]


def test_a_run_has_its_figures_and_tells_listeners(spark: SparkSession, tmp_path: Path) -> None:
    small = Small(spark, tmp_path, PIPELINE)
    heard: list[BatchFigures] = []
    small.pipe.listen(heard.append)
    assert small.pipe.figures() is None
    ts = pa.array([1, 2], pa.timestamp("us"))
    small.put("s", pa.table({"a": pa.array([1, 2], pa.int32()), "ts": ts}))
    small.put("s", pa.table({"a": ["no", "numbers"], "ts": ts}))
    run = small.pipe.start(available_now=True)
    run.awaitTermination()
    found = run.figures()
    assert found is not None
    assert (found.batch, found.rows, found.changes, found.queries, found.bad) == (0, 2, 1, 1, 1)
    assert found.first_bad.endswith("00001.parquet: column 'a' is string, not INT")
    assert found.split.spark > 0 and found.seconds < 600
    assert [replace(f, ended=0.0) for f in heard] == [replace(found, ended=0.0)]
    assert small.pipe.figures() == found
    assert run.error() is None and not run.isActive


def test_rows_that_families_share_are_summed_over_buckets_and_shown_once(progress: Progress) -> None:
    port = serve(progress, 0, "127.0.0.1")
    found = json.loads(json.dumps(RECORDED[1]))
    for r, rows in zip(found["reports"], (1000, 2000), strict=True):
        r["shared_rows"] = rows
    write_reports(progress.own, found["batch"], found["reports"], found["seconds"])
    progress.heard(found["said"])
    figures = progress.latest
    assert figures is not None
    assert (figures.state_rows, figures.shared_rows) == (12, 3000)
    assert "3,012 rows   3,000 of them shared" in text(display.screen("t", "", figures, Totals(), 0.0, 1.0))
    assert scrape(port)["eddyline_shared_rows"] == 3000


def test_functions_that_fail_are_summed_over_buckets_and_shown(progress: Progress) -> None:
    found = json.loads(json.dumps(RECORDED[0]))
    told = {"function": "bad", "first": "bad(1): TypeError: [1] is not a value of INT"}
    for r, rows in zip(found["reports"], (1, 2), strict=True):
        r["functions"] = [told | {"rows": rows}]
    heard: list[BatchFigures] = []
    progress.listeners.append(heard.append)
    write_reports(progress.own, found["batch"], found["reports"], found["seconds"])
    progress.heard(found["said"])
    (figures,) = heard
    assert [w.rows for w in figures.warnings] == [3]
    line = f"The function 'bad' gave NULL for 3 rows: {told['first']}"
    assert line in display.line([figures])
    assert line in text(display.screen("t", "", figures, Totals(), 0.0, 1.0), 200)
