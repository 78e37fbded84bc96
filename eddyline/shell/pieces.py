"""Splits input into pieces that can run: complete statements, which end with `;`, or a line with a dot command.

A piece is yielded as soon as its last line is read, so that the input of an open pipe is processed at once. A line that
begins with a dot is a command only where a statement could begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from eddyline.errors import ParseError
from eddyline.sql.cursor import tokenize


@dataclass(frozen=True, slots=True)
class InputPiece:
    """Some lines of the input; `line` is the number of the first, counted from one."""

    text: str
    line: int

    @property
    def is_command(self) -> bool:
        return self.text.lstrip().startswith(".")


def pieces(lines: Iterable[str]) -> Iterator[InputPiece]:
    held: list[str] = []
    start = 1
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith(".") and is_empty("".join(held)):
            yield InputPiece(line, number)
            held, start = [], number + 1
            continue
        held.append(line)
        if ";" in line and is_complete("".join(held)):
            yield InputPiece("".join(held), start)
            held, start = [], number + 1
    if not is_empty("".join(held)):
        yield InputPiece("".join(held), start)


def is_complete(text: str) -> bool:
    """Whether the text can run as it is: a dot command, or statements of which the last ends with `;`."""
    if text.lstrip().startswith("."):
        return True
    try:
        tokens = tokenize(text)
    except ParseError:  # a quote or comment is still open
        return False
    return bool(tokens) and text[tokens[-1].start] == ";"


def is_empty(text: str) -> bool:
    """Whether the text has only white space and comments."""
    if not text.strip():
        return True
    try:
        return not tokenize(text)
    except ParseError:
        return False
