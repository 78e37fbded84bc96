"""Files as blocks of lines, tables as aligned cells, values as words; mistakes are told with file and line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from eddyline import types as t
from eddyline.reference import MIN, micros

Line = tuple[int, str]
Grid = tuple[tuple[str, ...], ...]  # the cells of a table, its header first
_WORD = re.compile(r"'(?:[^']|'')*'|\S+")
_DAY = 86_400_000_000


class FormatError(Exception):
    """A text that is not of the format."""


@dataclass(frozen=True)
class Block:
    """Lines without a blank one between them: the first says what the block is. Comments are left out."""

    path: Path
    line: int
    head: str
    body: tuple[Line, ...]

    def fail(self, message: str, line: int | None = None) -> NoReturn:
        place = f"{self.path.parent.name}/{self.path.name}:{line or self.line}"
        raise FormatError(f"{place}: {message}") from None

    def split(self, mark: str) -> tuple[Block, Block | None]:
        """What is before the line `mark`, and what is after it."""
        for i, (line, text) in enumerate(self.body):
            if text == mark:
                return Block(self.path, self.line, self.head, self.body[:i]), Block(
                    self.path, line, mark, self.body[i + 1 :]
                )
        return self, None

    def text(self) -> str:
        return "\n".join(text for _, text in self.body)

    def statements(self) -> list[tuple[int, str]]:
        """Statements with their lines; a semicolon at the end of a line ends one."""
        found: list[tuple[int, str]] = []
        begun: list[Line] = []
        for line, text in self.body:
            begun.append((line, text))
            if text.endswith(";"):
                found.append((begun[0][0], "\n".join(x for _, x in begun).removesuffix(";")))
                begun = []
        if begun:
            self.fail("The statement does not end with a semicolon.", begun[0][0])
        return found

    def grid(self) -> Grid:
        """The lines as a table: every one has as many cells as the header."""
        if not self.body:
            self.fail("A table has at least a header.")
        rows = [(line, tuple(_WORD.findall(text))) for line, text in self.body]
        width = len(rows[0][1])
        for line, cells in rows:
            if len(cells) != width:
                self.fail(f"Expected {width} cells as in the header, found {len(cells)}.", line)
        return tuple(cells for _, cells in rows)


def blocks(path: Path) -> Iterator[Block]:
    """The blocks of a file, parted by blank lines."""
    lines = [*enumerate(path.read_text(encoding="utf-8").splitlines(), start=1), (0, "")]
    block: list[Line] = []
    for number, text in lines:
        if text.strip() and not text.startswith("#"):
            block.append((number, text.rstrip()))
        elif not text.strip() and block:
            yield Block(path, block[0][0], block[0][1], tuple(block[1:]))
            block = []


def aligned(grid: Grid) -> list[str]:
    """The lines of a table."""
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    return ["  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)).rstrip() for cells in grid]


@dataclass(frozen=True)
class Values:
    """How values are written: a time as seconds after `start`, or as a whole date and time if it is far from it."""

    start: datetime

    def cells(self, row: Sequence[Any], types: Sequence[pa.DataType]) -> tuple[str, ...]:
        return tuple(self.write(v, x) for v, x in zip(row, types, strict=True))

    def write(self, value: Any, type: pa.DataType) -> str:
        if value is None:
            return "NULL"
        if type == t.STRING:
            quoted = value.replace("\\", "\\\\").replace("\n", "\\n").replace("'", "''")
            return f"'{quoted}'"
        if type == t.TIMESTAMP:
            near = abs(self.after(micros(value))) < _DAY
            return self.seconds(micros(value)) if near else value.isoformat()
        if type == t.INTERVAL:
            return f"{_seconds(micros(value))}s"
        return str(value).lower() if type == t.BOOLEAN else str(value)

    def read(self, text: str, type: pa.DataType) -> Any:
        """The value of a cell; ValueError if it has none of this type."""
        if text == "NULL":
            return None
        if type == t.STRING:
            if not text.startswith("'"):
                raise ValueError("a string stands in quotes")
            return re.sub(r"''|\\.", lambda m: {"\\n": "\n"}.get(m[0], m[0][1]), text[1:-1])
        if type == t.BOOLEAN:
            return {"true": True, "false": False}[text]
        if type == t.TIMESTAMP:
            return datetime.fromisoformat(text) if "T" in text else self.moment(self.instant(text))
        if type == t.DATE:
            return date.fromisoformat(text)
        return int(text) if t.is_integer(type) else float(text)

    def after(self, instant: int) -> int:
        return instant - micros(self.start)

    def instant(self, text: str) -> int:
        """Microseconds since 1970, of a number of seconds after the start."""
        try:
            return micros(self.start) + int(Decimal(text) * 1_000_000)
        except ArithmeticError:
            raise ValueError(f"{text!r} is not a number of seconds") from None

    def moment(self, instant: int) -> datetime:
        return self.start + timedelta(microseconds=self.after(instant))

    def seconds(self, instant: int) -> str:
        return _seconds(self.after(instant))

    def first(self, instant: int) -> str:
        """When a row enters an answer."""
        return "ever" if instant == MIN else self.seconds(instant)

    def last(self, end: int | None) -> str:
        """When a row leaves: `5`, after that instant; `<5`, at it; `end`, not in the time that is compared."""
        if end is None:
            return "end"
        return f"<{self.seconds(end)}" if end % 1000 == 0 else self.seconds(end - 1)


def _seconds(amount: int) -> str:
    number = f"{Decimal(amount) / 1_000_000:f}"
    return number.rstrip("0").rstrip(".") if "." in number else number
