"""The format of the cases: nothing in a file is passed over, and mistakes are told with file and line."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import pytest

from eddyline import types as t
from eddyline.reference import canonical
from tests.sql.cases.reading import CASES, load, worlds
from tests.sql.cases.text import FormatError, Values


def test_every_file_among_the_cases_is_read() -> None:
    read = {path for folder in worlds() for path in folder.glob("*.slt")}
    found = {p for p in CASES.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    assert sorted(p.name for p in found - read) == ["README.md", "model.py", "reading.py", "test_format.py", "text.py"]


@pytest.mark.parametrize("folder", worlds(), ids=lambda folder: folder.name)
def test_every_expectation_of_a_file_is_read(folder: Path) -> None:
    """Counted once more by the plainest means: lines that begin so, and lines after `----` or `at`."""
    _, cases = load(folder)
    for path in sorted(folder.glob("*.slt")):
        mine = [case for case in cases if case.path == path]
        text = path.read_text(encoding="utf-8")
        grids = [grid for case in mine for grid in (case.expected, *case.answers.values()) if grid is not None]
        assert len(mine) == len(re.findall(r"^(?:query \w+(?:,|$)|family )", text, re.MULTILINE)), path.name
        assert len(grids) == len(re.findall(r"^(?:----|at .*)$", text, re.MULTILINE)), path.name
        assert len(mine) == text.count("\n----\n"), path.name
        tables = re.findall(r"^(?:----|at .*)\n((?:.+\n)*)", text, re.MULTILINE)
        assert sum(map(len, grids)) == sum(table.count("\n") for table in tables), path.name
        assert (path.name == "world.slt") == (mine == [])


def test_there_are_cases_enough() -> None:
    assert sum(len(load(folder)[1]) for folder in worlds()) >= 90


WORLD = """world, start 2026-01-01T00:00:00, until 5
CREATE STREAM r (a INT, n STRING, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 5 SECONDS;

step 1

rows r
a  n    ts
1  'x'  10
"""


@pytest.mark.parametrize(
    ("world", "cases", "message"),
    [
        ("", "", "world.slt:1: The file begins"),
        ("step 1\n", "", "world.slt:1: The file begins"),
        ("world, start 2026-01-01T00:00:00\n", "", "world.slt:1: A world says when"),
        (WORLD.replace(", until", ", til"), "", "world.slt:1: There is no option 'til 5'"),
        (WORLD.replace("CREATE STREAM", "CREATE STREAMING"), "", "world.slt:2: "),
        (WORLD.replace("SECONDS;", "SECONDS"), "", "world.slt:2: The statement does not end"),
        (WORLD.replace("step 1", "step 2"), "", "world.slt:4: Expected step 1"),
        (WORLD.replace("step 1", "step 1, advance to 5"), "", "world.slt:4: Only a world"),
        (WORLD.replace("step 1", "step 1\nDELETE r;"), "", "world.slt:5: "),
        (WORLD.replace("rows r", "rows s"), "", "world.slt:6: Expected `step`"),
        (WORLD.replace("a  n ", "a  m "), "", "world.slt:7: Expected the columns a, n, ts"),
        (WORLD.replace("'x'", "x"), "", "world.slt:8: x is no value for 'n'"),
        (WORLD.replace("1  'x'", "1.5  'x'"), "", "world.slt:8: 1.5 is no value for 'a'"),
        (WORLD.replace("1  'x'", "'x'"), "", "world.slt:8: Expected 3 cells"),
        (WORLD + "2  'y'  1\n", "", "world.slt:9: Whether the row is late"),
        (WORLD + "\nrows r\na  n    ts\n1  'x'  11\n", "", "world.slt:10: The streams of a step"),
        (WORLD.replace("until 5", "until 6"), "", "world.slt:1: The watermark of 'r'"),
        (WORLD, "SELECT a FROM r\n", "c.slt:1: Expected `query`"),
        (WORLD, "# ok\n\nquery a b\nSELECT a FROM r\n", "c.slt:3: There is no option 'b'"),
        (WORLD, "query q, emit some\nSELECT a FROM r\n", "c.slt:1: There is no option 'emit some'"),
        (WORLD, "query q\nSELECT FROM\n", "c.slt:1: "),
        (WORLD, "query q\nSELECT a FROM r\nregister\nquery\nx\n", "c.slt:1: A family has rows"),
        (WORLD, "family f (x INT)\nSELECT a FROM r WHERE a = :x\n", "c.slt:1: A family has rows"),
        (WORLD, "family f (x INT)\nSELECT a FROM r\nregister\nquery  y\nq  1\n", "c.slt:4: Expected the columns"),
        (WORLD, "family f (x INT)\nSELECT a FROM r\nregister\nquery  x\nq  1\nq  2\n", "c.slt:3: A family has queries"),
        (WORLD, "query q, added at step 2\nSELECT a FROM r\n", "c.slt:1: 'q' cannot come and go"),
        (WORLD, "query q, dropped at step 1\nSELECT a FROM r\n", "c.slt:1: 'q' cannot come and go"),
        (WORLD, "query q, dropped at step x\nSELECT a FROM r\n", "c.slt:1: 'x' is not the number"),
        (WORLD, "query q\nSELECT a FROM r\n\nquery q\nSELECT n FROM r\n", "c.slt:4: The name 'q' is taken"),
        (WORLD, "query q, together with p\nSELECT a FROM r\n", "c.slt:1: There is no query 'p'"),
        (WORLD, "query q\nSELECT a FROM r\n----\nfrom  to  a\n1  2\n", "c.slt:5: Expected 3 cells"),
        (WORLD, "query q\nSELECT a FROM r\n----\n", "c.slt:3: A table has at least a header"),
        (WORLD, "at 5\na\n", "c.slt:1: Expected `query`"),
        (WORLD, "query q\nSELECT a FROM r\n\nat 6\na\n", "c.slt:4: Answers are compared only"),
        (WORLD, "query q\nSELECT a FROM r\n\nat noon\na\n", "c.slt:4: 'noon' is not a number"),
    ],
)
def test_errors_of_the_format_name_file_and_line(tmp_path: Path, world: str, cases: str, message: str) -> None:
    (tmp_path / "world.slt").write_text(world, encoding="utf-8")
    (tmp_path / "c.slt").write_text(cases, encoding="utf-8")
    with pytest.raises(FormatError, match=re.escape(f"{tmp_path.name}/{message}")):
        load(tmp_path)


def test_values_are_read_as_they_are_written() -> None:
    values = Values(datetime(2026, 1, 1))
    texts = {
        t.INT: ["0", "-5"],
        t.DOUBLE: ["0.1", "1e+300", "NaN", "inf", "-inf", "NULL"],
        t.STRING: ["''", "'it''s'", "'a b'", r"'a\\b\nc'", "'NULL'"],
        t.BOOLEAN: ["true", "false"],
        t.DATE: ["2024-02-29"],
        t.TIMESTAMP: ["0", "-1.5", "0.000001", "1970-01-01T00:00:00"],
    }
    for kind, written in texts.items():
        for text in written:
            read = values.read(text, kind)
            assert values.write(canonical((read,))[0], kind) == text
    assert [values.last(values.instant(x)) for x in ("5", "5.000001", "5.0005")] == ["<5", "5", "5.000499"]
