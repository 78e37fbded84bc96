"""What the shell prints for each kind of result, and how its commands fail."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from rich.console import Console

import eddyline
from eddyline.shell import commands
from eddyline.shell.interpreter import Interpreter
from eddyline.shell.pieces import InputPiece
from eddyline.shell.printing import Printer, cell

STREAM = "CREATE STREAM s (name STRING, a INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS;"


class Shell:
    """A session that keeps what it prints."""

    def __init__(self, limit: int = 40) -> None:
        self.file = io.StringIO()
        console = Console(file=self.file, width=200, highlight=False)
        self.session = Interpreter(eddyline.connect(), Printer(console, console, "plain", limit))
        self(STREAM)

    def __call__(self, text: str) -> list[str]:
        """The lines that running the text adds to the output, without rules and empty lines."""
        before = self.file.tell()
        self.session.run(InputPiece(text, 1))
        return [line.rstrip() for line in self.file.getvalue()[before:].splitlines() if line.strip("─ ")]

    def script(self, text: str) -> tuple[bool, str]:
        before = self.file.tell()
        went_well = self.session.run_script(text.splitlines(keepends=True), "x.sql")
        return went_well, self.file.getvalue()[before:]


def at(second: int) -> str:
    return f"TIMESTAMP '2026-01-01 00:00:{second:02}'"


def test_numbers_stand_to_the_right_and_null_is_named() -> None:
    shell = Shell()
    shell("CREATE TABLE t (word STRING, number INT);")
    shell("INSERT INTO t VALUES ('a', 1), ('bcd', 1000), (NULL, NULL);")
    assert shell("SELECT word, number FROM t;") == [
        "word   number",
        "a           1",
        "bcd      1000",
        "NULL     NULL",
        "3 rows",
    ]


def test_null_is_dim_and_control_characters_do_not_reach_the_terminal() -> None:
    assert cell(None).style == "dim"
    assert cell("a\x1b[31m\tb\n  c").plain == "a\\x1b[31m\\tb↵ c"
    assert cell("[red]").plain == "[red]"
    assert cell(True).plain == "true"


def test_a_long_result_is_cut_and_says_how_much_is_missing() -> None:
    shell = Shell(limit=2)
    shell("CREATE TABLE t (n INT);")
    shell("INSERT INTO t VALUES (1), (2), (3), (4), (5);")
    assert shell("SELECT n FROM t;")[-2:] == ["… 3 more rows", "5 rows"]


def test_changes_of_few_queries_come_query_by_query_and_of_many_together() -> None:
    shell = Shell()
    shell("CREATE CONTINUOUS QUERY only AS SELECT name FROM s WHERE a = 1;")
    shell("CREATE QUERY FAMILY alert (lo INT) AS SELECT name, a FROM s WHERE a >= :lo;")
    shell.session.db.register("alert", pa.table({"query": [f"u{n}" for n in range(12)], "lo": [0] * 12}))
    assert shell(f"INSERT INTO s VALUES ('x', 1, {at(1)});") == [
        "only",
        "op   ts                    exp    name",
        "+    2026-01-01 00:00:01   NULL   x",
        "alert: 12 queries",
        "op   ts                    exp    name   a   queries",
        "+    2026-01-01 00:00:01   NULL   x      1   12: u0, u1, u2, …",
        "13 changes",
    ]


def test_a_query_over_a_table_shows_what_stands_at_once() -> None:
    shell = Shell()
    shell("CREATE TABLE t (n INT); INSERT INTO t VALUES (5);")
    assert shell("CREATE CONTINUOUS QUERY q AS SELECT n FROM t;")[-1] == "1 change"
    assert shell("CREATE CONTINUOUS QUERY r AS SELECT a FROM s;") == []


def test_explain_is_text_and_not_a_table() -> None:
    shell = Shell()
    shell("CREATE CONTINUOUS QUERY q AS SELECT a FROM s;")
    assert shell("EXPLAIN q;")[0] == "family family_1: 1 query"


@pytest.mark.parametrize("kind", ["csv", "lines.json", "array.json", "parquet"])
def test_load_pushes_the_rows_of_a_file(tmp_path: Path, kind: str) -> None:
    rows = [
        {"name": "007", "a": 1, "ts": "2026-01-01T00:00:01"},
        {"name": None, "a": 2, "ts": "2026-01-01T00:00:02"},
    ]
    file = tmp_path / f"rows of.{kind}"
    if kind == "csv":
        file.write_text("name,a,ts\n" + "".join(f"{r['name'] or ''},{r['a']},{r['ts']}\n" for r in rows))
    elif kind == "lines.json":
        file.write_text("\n".join(map(json.dumps, rows)))
    elif kind == "array.json":
        file.write_text(json.dumps(rows))
    else:
        pa.parquet.write_table(pa.Table.from_pylist(rows), file)
    shell = Shell()
    shell("CREATE CONTINUOUS QUERY q AS SELECT name, a FROM s;")
    assert shell(f".load s '{file}'")[-1] == "2 changes"
    assert shell.session.db.snapshot("q").to_pylist() == [{"name": "007", "a": 1}, {"name": None, "a": 2}]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("rows.txt", "", "is no file to load"),
        ("none.csv", None, "No such file or directory"),
        ("empty.csv", "", "cannot be read"),
        ("bad.csv", "name,a,ts\nx,one,2026-01-01T00:00:01\n", "cannot be read"),
        ("bad.json", "[{]", "cannot be read"),
        ("lacks.csv", "name,a\nx,1\n", "lack column 'ts'"),
        ("more.csv", "name,a,ts,b\nx,1,2026-01-01T00:00:01,1\n", "no column 'b'"),
    ],
)
def test_a_file_that_does_not_fit_is_an_error_and_applies_nothing(
    tmp_path: Path, file: str, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / file).write_text(content)
    shell = Shell()
    with pytest.raises(eddyline.Error, match=message):
        shell(f".load s {tmp_path / file}")
    assert shell.session.db.stats()["rows"] == 0


def test_time_late_rows_and_counters_can_be_asked_for() -> None:
    shell = Shell()
    shell("CREATE CONTINUOUS QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 5 SECONDS];")
    shell(f"INSERT INTO s VALUES ('x', 1, {at(1)});")
    assert shell(".snapshot q") == ["n", "1", "1 row"]
    assert shell(".advance 2026-01-01T00:00:07")[-2:] == ["+    2026-01-01 00:00:06.000001   NULL   0", "1 change"]
    assert shell(f"INSERT INTO s VALUES ('y', 2, {at(2)});") == ["0 changes"]
    assert shell(".late s")[1:] == ["y      2   2026-01-01 00:00:02", "1 row"]
    shown = shell(".stats")
    assert shown[0].startswith("queries 1 · rows 2 · late 1 · changes ")
    assert [line.split()[0] for line in shown[1:]] == ["stream", "s", "family", "family_1"]


def test_help_names_every_command() -> None:
    shown = "\n".join(Shell()(".help"))
    assert [name for name in commands.COMMANDS if name not in shown] == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (".snapshto q", "There is no command .snapshto"),
        (".snapshot", ".snapshot takes <query>"),
        (".stats now", ".stats takes nothing more"),
        (".snapshot nobody", "There is no query 'nobody'"),
        (".advance tomorrow", "'tomorrow' is not a point in time"),
        (".late nowhere", "There is no stream 'nowhere'"),
        (".load s 'open", "A quote is not closed"),
    ],
)
def test_a_command_that_fails_says_what_and_where(line: str, message: str) -> None:
    went_well, shown = Shell().script(f"SHOW STREAMS;\n  {line}\nSHOW TABLES;")
    assert not went_well
    assert f"Error in x.sql, statement 2, line 2: {message}" in shown
    assert f"  at line 2, column 3:\n      {line}\n      {'^' * len(line)}" in shown


def test_quit_ends_a_script_well() -> None:
    assert Shell().script(".quit\nSELECT nonsense;") == (True, "")


def test_an_error_in_a_statement_of_one_line_points_into_that_line() -> None:
    _, shown = Shell().script("SHOW STREAMS; SELECT b FROM s;\n")
    assert "statement 2, line 1" in shown
    assert "    SHOW STREAMS; SELECT b FROM s;\n" + " " * 32 + "^" in shown


def test_a_quote_left_open_is_reported_after_what_came_before_it_ran() -> None:
    went_well, shown = Shell().script("SHOW STREAMS;\nSELECT 'open;\nSHOW TABLES;\n")
    assert not went_well
    assert "1 row\n" in shown
    assert "statement 2, line 2" in shown


def test_a_function_that_fails_is_told_under_the_result() -> None:
    shell = Shell()
    shell.session.db.function("bad", lambda x: [x], ["INT"], "INT")
    shell("CREATE CONTINUOUS QUERY q AS SELECT bad(a) AS x FROM s;")
    *_, warning = shell("INSERT INTO s VALUES ('n', 1, '2026-01-01 00:00:00');")
    assert warning == "Warning: The function 'bad' gave NULL for 1 row: bad(1): TypeError: [1] is not a value of INT"
    shell("CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (7);")
    assert shell("SELECT bad(a) AS x FROM t;")[-1].startswith("Warning: The function 'bad' gave NULL for 1 row: bad(7)")
