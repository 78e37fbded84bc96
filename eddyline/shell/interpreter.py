"""The interpreter of the shell: runs pieces of input on a connection and prints the result of each statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import pyarrow as pa

from eddyline.delivery.changes import Changes
from eddyline.errors import Error
from eddyline.local.connection import Connection
from eddyline.shell import commands
from eddyline.shell.pieces import InputPiece, pieces
from eddyline.shell.printing import Printer, plural
from eddyline.sql.cursor import TokenCursor, statements

MAKES_CHANGES = ("INSERT", "UPDATE", "DELETE", ".LOAD", ".ADVANCE")


@dataclass
class Interpreter:
    db: Connection
    printer: Printer
    done: int = 0  # statements and commands that have run

    def run_script(self, lines: Iterable[str], name: str) -> bool:
        """Runs the input up to its first error, which is printed; returns whether all of it ran."""
        self.done = 0
        try:
            for piece in pieces(lines):
                self.run(piece)
        except Error as e:
            line = "" if e.place is None else f", line {e.place[0]}"
            self.printer.error(e, f" in {name}, statement {self.done + 1}{line}")
            return False
        except commands.Quit:
            pass
        return True

    def run(self, piece: InputPiece) -> None:
        """Runs the statements of a piece one by one; an error has its place in the whole input."""
        try:
            if piece.is_command:
                self._show(piece.text, partial(commands.run, self))
            else:
                for statement in statements(piece.text):
                    self._run_statement(statement)
        except Error as e:
            before = "\n" * (piece.line - 1)
            raise moved(e, piece.text, before + piece.text, len(before)) from None

    def _run_statement(self, statement: TokenCursor) -> None:
        try:
            self._show(statement.text, self.db.execute)
        except Error as e:
            raise moved(e, statement.text, statement.sql, statement.tokens[0].start) from None

    def _show(self, text: str, run: Callable[[str], Any]) -> None:
        began = perf_counter()
        result = run(text)
        seconds = perf_counter() - began
        self.done += 1
        word = text.split(maxsplit=1)[0].upper()
        if isinstance(result, Changes) and (len(result) or word in MAKES_CHANGES):
            self.printer.changes(self.db, result)
            self.printer.took(seconds, plural(len(result), "change"))
            self.printer.warnings(result.warnings())
        elif isinstance(result, pa.Table) and word == "EXPLAIN":
            self.printer.plan(result)
            self.printer.took(seconds)
        elif isinstance(result, pa.Table):
            self.printer.table(result)
            self.printer.took(seconds, plural(result.num_rows, "row"))
            self.printer.warnings(self.db.functions.take_noted())
        elif self.printer.kind == "terminal" and not word.startswith("."):
            self.printer.took(seconds, "ok")


def moved(error: Error, text: str, whole: str, start: int) -> Error:
    """An error in `text` with its place in `whole`, where the text begins at `start`."""
    error.at(text, (len(text) - len(text.lstrip()), len(text.rstrip())))
    if error.sql == text and error.span is not None:
        error.sql, error.span = whole, (start + error.span[0], start + error.span[1])
    return error
