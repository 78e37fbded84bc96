"""The command as a user starts it: what comes out, where it goes, and the exit code."""

from __future__ import annotations

import re
import shutil
from importlib.metadata import entry_points
from pathlib import Path

import eddyline
from eddyline import cli
from tests.cli.conftest import Run

STREAM = "CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS;\n"
QUERY = "CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE a > 1;\n"
ROW = "INSERT INTO s VALUES (7, TIMESTAMP '2026-01-01 00:00:01');\n"


def test_the_installed_command_is_this_one() -> None:
    (found,) = [e for e in entry_points(group="console_scripts") if e.name == "eddyline"]
    assert found.load() is cli.main


def test_version_and_help_are_short_and_name_only_what_exists(run: Run) -> None:
    assert run("--version").stdout == f"eddyline {eddyline.__version__}\n"
    shown = run("--help").stdout
    named = ["run", "late", "sql", "doctor", "bench", "demo", "query", "checkpoint", "sink"]
    assert re.findall(r"^│ (\w+)", shown, re.MULTILINE) == named


def test_a_script_shows_each_result_and_says_nothing_of_what_has_none(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(STREAM + QUERY + ROW + ".snapshot q\nSHOW QUERIES;\n")
    found = run("sql", str(script))
    assert (found.returncode, found.stderr) == (0, "")
    assert [line.rstrip() for line in found.stdout.splitlines() if line.strip("─ ")] == [
        "q",
        "op   ts                    exp    a",
        "+    2026-01-01 00:00:01   NULL   7",
        "1 change",
        "a",
        "7",
        "1 row",
        "query   family     error",
        "q       family_1   NULL",
        "1 row",
    ]


def test_an_error_stops_the_script_and_names_statement_and_line(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(f"-- a comment\n{STREAM}\nSHOW STREAMS;\nSELECT nothing\n  FROM nowhere;\nSHOW TABLES;\n")
    found = run("sql", str(script))
    assert found.returncode == 1
    assert "1 row" in found.stdout and "retroactive" not in found.stdout
    assert found.stderr.startswith("Error in script.sql, statement 3, line 6: ")
    assert "  FROM nowhere;\n           ^^^^^^^\n" in found.stderr
    assert "Traceback" not in found.stderr


def test_statements_of_e_run_in_order_on_one_connection(run: Run) -> None:
    found = run("sql", "-e", STREAM + QUERY, "--execute", ROW)
    assert found.returncode == 0
    assert "1 change\n" in found.stdout


def test_what_is_piped_in_runs_without_a_prompt(run: Run) -> None:
    found = run("sql", stdin=STREAM + QUERY + ROW + "SHOW NOTHING")
    assert found.returncode == 1
    assert "1 change\n" in found.stdout and "eddyline>" not in found.stdout
    assert found.stderr.startswith("Error in the input, statement 4, line 4: ")
    assert "\x1b" not in found.stdout + found.stderr


def test_what_is_saved_can_be_opened(run: Run, tmp_path: Path) -> None:
    assert run("sql", "-e", STREAM + QUERY + f".save {tmp_path / 'saved'}").returncode == 0
    found = run("sql", "--open", str(tmp_path / "saved"), "-e", ROW)
    assert "1 change\n" in found.stdout
    missing = run("sql", "--open", str(tmp_path / "never"), "-e", ROW)
    assert missing.returncode == 1
    assert missing.stderr.startswith("Error: ") and "Traceback" not in missing.stderr


def test_the_clock_is_min_or_max(run: Run) -> None:
    two = STREAM + STREAM.replace("STREAM s", "STREAM r") + ROW
    two += "CREATE CONTINUOUS QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 5 SECONDS], r [RANGE 5 SECONDS];\n"
    moves = two + "INSERT INTO s VALUES (1, TIMESTAMP '2026-01-01 00:00:09'); EXPLAIN ANALYZE q;"
    assert "clock: 2026-01-01 00:00:09" in run("sql", "--clock", "max", "-e", moves).stdout
    assert "clock: None" in run("sql", "--clock", "min", "-e", moves).stdout
    assert run("sql", "--clock", "mid", "-e", moves).returncode == 2


def test_the_doctor_names_each_need_and_fails_when_one_is_not_met(run: Run, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    java.chmod(0o755)
    well = run("doctor", JAVA_HOME=str(tmp_path))
    assert well.returncode == 0, well.stdout
    assert all(name in well.stdout for name in ("Python", "Java", "Spark", "numpy", "memory", "cores"))
    shutil.rmtree(java.parent)
    ill = run("doctor", JAVA_HOME=str(tmp_path))
    assert ill.returncode == 1
    assert "missing" in ill.stdout and "unset it to use the java on PATH" in ill.stdout


def test_a_small_demo_ends_with_a_summary(run: Run) -> None:
    found = run("demo", "--in-process", "--queries", "500", "--rows", "400", "--seconds", "120")
    assert found.returncode == 0, found.stderr
    assert "400 rows against 500 queries" in found.stdout
    assert "rows/s" in found.stdout
