"""`eddyline query …` and `eddyline late` on a checkpoint, without Spark: what they write is what a pipeline reads."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from eddyline.cli import app
from eddyline.spark.run.checkpoint import Fixed, begin, catalog_of

SCRIPT = """
CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS USING parquet OPTIONS (path 'in');
CREATE QUERY FAMILY above (least INT, note STRING) AS SELECT a, :note AS note FROM s WHERE a >= :least;
CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE a > 1;
"""
ROWS = [{"query": f"u{i}", "least": i, "note": "x"} for i in range(5)]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "ck"
    begin(folder, Fixed(2, "min"))
    catalog = catalog_of(folder)
    catalog.run_script(SCRIPT)
    catalog.register("above", ROWS)
    return folder


class Answer:
    """What a command gave: its exit code, the words of its lines, and its errors."""

    def __init__(self, checkpoint: Path, *args: str, stdin: str = "") -> None:
        found = CliRunner().invoke(app, [*args, "--checkpoint", str(checkpoint)], input=stdin)
        self.code, self.errors = found.exit_code, found.stderr
        self.lines = [line.split() for line in found.stdout.splitlines() if line.strip("─ ")]


def names(checkpoint: Path) -> list[str]:
    return sorted(catalog_of(checkpoint).execute("SHOW QUERIES").column("query").to_pylist())


def test_a_file_of_statements_is_one_commit(checkpoint: Path, tmp_path: Path) -> None:
    file = tmp_path / "more.sql"
    file.write_text("CREATE CONTINUOUS QUERY r AS SELECT a FROM s WHERE a > 7; -- like q\nDROP CONTINUOUS QUERY u0;\n")
    before = catalog_of(checkpoint).version
    answer = Answer(checkpoint, "query", "add", str(file))
    assert (answer.code, answer.errors) == (0, "")
    assert " ".join(answer.lines[0]) == f"+0: 6 queries now, from the next micro-batch on (commit {before + 1})."
    assert names(checkpoint) == ["q", "r", "u1", "u2", "u3", "u4"]
    assert catalog_of(checkpoint).query("r")[0] is not None


def test_an_error_names_its_place_in_the_file_and_no_statement_of_it_is_applied(checkpoint: Path) -> None:
    before, version = names(checkpoint), catalog_of(checkpoint).version
    first = "DROP CONTINUOUS QUERY u0; CREATE QUERY FAMILY new (x INT) AS SELECT a FROM s WHERE a = :x;"
    script = f"{first} CREATE CONTINUOUS QUERY r AS SELECT a FROM s;\nCREATE CONTINUOUS QUERY t AS SELECT b FROM s;"
    answer = Answer(checkpoint, "query", "add", "-", stdin=script)
    assert (answer.code, answer.lines) == (1, [])
    assert "at line 2, column 37:" in answer.errors and answer.errors.startswith("Error: ")
    assert "No statement of the file was applied." in answer.errors
    after = catalog_of(checkpoint)
    assert (names(checkpoint), after.version, after.registry.find("new")) == (before, version, None)
    assert Answer(checkpoint, "query", "add", "-", stdin=script.replace(" b ", " a ")).code == 0
    assert names(checkpoint) == sorted({*before, "r", "t"} - {"u0"})


def test_a_file_that_cannot_be_parsed_to_its_end_is_not_applied(checkpoint: Path) -> None:
    before = names(checkpoint)
    for bad in ("CREATE CONTINUOUS QUERY", "SELECT 1", "CREATE SINK x USING json OPTIONS (path 'ck') FOR nobody"):
        answer = Answer(checkpoint, "query", "add", "-", stdin=f"CREATE CONTINUOUS QUERY r AS SELECT a FROM s; {bad};")
        assert (answer.code, names(checkpoint)) == (1, before)


@pytest.mark.parametrize("statement", ["SELECT 1", "SHOW QUERIES", "EXPLAIN q"])
def test_only_statements_that_change_something_can_be_added(checkpoint: Path, statement: str) -> None:
    answer = Answer(checkpoint, "query", "add", "-", stdin=statement)
    assert answer.code == 1 and "eddyline query list" in answer.errors


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_the_rows_of_a_file_become_queries_of_a_family(checkpoint: Path, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"rows.{suffix}"
    match suffix:
        case "csv":
            file.write_text("query,least,note\nann,3,hello\nbob,,\n")
        case "json":
            file.write_text(
                json.dumps({"query": "ann", "least": 3, "note": "hello"}) + '\n{"query": "bob", "least": null}\n'
            )
        case "parquet":
            pq.write_table(
                pa.table({"query": ["ann", "bob"], "least": pa.array([3, None], pa.int64()), "note": ["hello", None]}),
                file,
            )
    answer = Answer(checkpoint, "query", "add", "--family", "above", "--from", str(file))
    assert (answer.code, answer.errors) == (0, "")
    assert answer.lines[0][:2] == ["+2:", "8"]
    listed = Answer(checkpoint, "query", "list", "--family", "above", "--like", "%b%")
    assert listed.lines == [["query", "least", "note"], ["bob", "NULL", "NULL"], ["1", "query"]]
    listed = Answer(checkpoint, "query", "list", "--family", "above", "--like", "a%")
    assert listed.lines[1] == ["ann", "3", "hello"]


def test_rows_that_do_not_fit_are_refused_and_none_is_added(checkpoint: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("query,least,note\nnew,1,x\nu3,2,x\n")
    answer = Answer(checkpoint, "query", "add", "--family", "above", "--from", str(file))
    assert answer.code == 1 and "already a query 'u3'" in answer.errors
    assert "new" not in names(checkpoint)
    file.write_text("query,least\nnew,1\n")
    assert "lacks column 'note'" in Answer(checkpoint, "query", "add", "--family", "above", "--from", str(file)).errors
    missing = Answer(checkpoint, "query", "add", "--family", "abov", "--from", str(file))
    assert missing.code == 1 and "Did you mean 'above'" in missing.errors
    gone = Answer(checkpoint, "query", "add", "--family", "above", "--from", str(tmp_path / "none.csv"))
    assert gone.code == 1 and "cannot be read" in gone.errors


def test_add_takes_a_file_of_statements_or_a_family_with_a_table(checkpoint: Path) -> None:
    for args in ([], ["--family", "above"], ["-", "--family", "above"], ["--from", "x.csv"]):
        assert Answer(checkpoint, "query", "add", *args).code == 2


def test_queries_are_dropped_all_or_none(checkpoint: Path) -> None:
    answer = Answer(checkpoint, "query", "drop", "u1", "nobody", "q")
    assert answer.code == 1 and "There is no query 'nobody'" in answer.errors
    assert names(checkpoint) == ["q", "u0", "u1", "u2", "u3", "u4"]
    assert Answer(checkpoint, "query", "drop", "u1", "q", "--family", "above").code == 1
    assert names(checkpoint) == ["q", "u0", "u1", "u2", "u3", "u4"]
    answer = Answer(checkpoint, "query", "drop", "u1", "q")
    assert (answer.code, answer.lines[0][:2]) == (0, ["-2:", "4"])
    assert Answer(checkpoint, "query", "drop", "-", stdin="u0\nu4\n").code == 0
    assert names(checkpoint) == ["u2", "u3"]


def test_a_list_is_cut_at_its_limit_and_counts_all(checkpoint: Path) -> None:
    answer = Answer(checkpoint, "query", "list", "--limit", "2")
    assert answer.lines == [
        ["query", "family", "error"],
        ["u0", "above", "NULL"],
        ["u1", "above", "NULL"],
        ["…", "4", "more", "rows"],
        ["6", "queries"],
    ]
    assert len(Answer(checkpoint, "query", "list", "--limit", "0").lines) == 8


def test_a_query_in_quarantine_is_listed_with_its_reason_and_can_be_resumed(checkpoint: Path) -> None:
    catalog = catalog_of(checkpoint)
    family, query = catalog.query("u2")
    catalog.quarantine(family.number, [query], "integer overflow")
    listed = Answer(checkpoint, "query", "quarantined")
    assert listed.lines[1:] == [["u2", "above", "integer", "overflow"], ["1", "query"]]
    assert ["u2", "above", "integer", "overflow"] in Answer(checkpoint, "query", "list").lines
    assert Answer(checkpoint, "query", "resume", "u3").code == 1
    resumed = Answer(checkpoint, "query", "resume", "u2")
    assert resumed.code == 0 and resumed.lines[0][:5] == ["1", "query", "will", "begin", "anew,"]
    assert Answer(checkpoint, "query", "quarantined").lines == [["0", "queries"]]
    assert catalog_of(checkpoint).query("u2")[1] != query


def test_late_counts_what_was_set_apart_and_shows_the_rows_of_a_stream(checkpoint: Path) -> None:
    folder = checkpoint / "eddyline" / "dead_letter" / "s"
    folder.mkdir(parents=True)
    rows = {"a": [1, 2], "ts": [datetime(2026, 1, 1), None], "reason": ["late", "no event time"], "batch": [0, 0]}
    pq.write_table(pa.table(rows), folder / "part-000000000-00002-000.parquet")
    pq.write_table(pa.table(rows | {"batch": [3, 3]}), folder / "part-000000003-00002-000.parquet")
    counted = Answer(checkpoint, "late")
    assert counted.lines == [
        ["stream", "reason", "rows"],
        ["s", "late", "2"],
        ["s", "no", "event", "time", "2"],
        ["2", "rows"],
    ]
    shown = Answer(checkpoint, "late", "S", "--limit", "1")
    assert shown.lines[1] == ["1", "2026-01-01", "00:00:00", "late", "0"]
    assert shown.lines[-1] == ["4", "rows"]
    assert "Did you mean 's'" in Answer(checkpoint, "late", "ss").errors


@pytest.mark.parametrize("command", [["query", "list"], ["query", "drop", "q"], ["late"], ["query", "add", "-"]])
def test_a_checkpoint_that_is_none_is_an_error_and_stays_as_it_is(tmp_path: Path, command: list[str]) -> None:
    missing, other, spark = tmp_path / "missing", tmp_path / "other", tmp_path / "spark"
    other.mkdir()
    (spark / "offsets").mkdir(parents=True)
    for folder, why in (
        (missing, "does not exist"),
        (other, "is not the checkpoint of a pipeline"),
        (spark, "is the checkpoint of another streaming query"),
    ):
        answer = Answer(folder, *command)
        assert answer.code == 1 and why in answer.errors
    assert not missing.exists() and list(other.iterdir()) == []


def test_a_checkpoint_of_another_version_is_refused(checkpoint: Path) -> None:
    (checkpoint / "eddyline" / "pipeline.json").write_text('{"format": 99, "buckets": 2, "clock": "min"}')
    assert "has format 99" in Answer(checkpoint, "query", "list").errors
    (checkpoint / "eddyline" / "pipeline.json").write_text("{")
    assert "is damaged" in Answer(checkpoint, "query", "list").errors


def test_the_commands_do_without_spark(checkpoint: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from eddyline.commands import query;"
        "query.list_(Path(sys.argv[1]));"
        "assert not [m for m in sys.modules if m.startswith('pyspark')]"
    )
    done = subprocess.run([sys.executable, "-c", code, str(checkpoint)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
