"""The dot commands of the shell, for which SQL has no statement. Each is a function of session and arguments."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from eddyline.errors import DataError, ParseError, StateError, did_you_mean
from eddyline.sql.bound import Field

if TYPE_CHECKING:
    from eddyline.shell.interpreter import Interpreter


class Quit(Exception):
    """Ends the shell."""


@dataclass(frozen=True, slots=True)
class Command:
    words: tuple[str, ...]  # the names of its arguments
    help: str
    run: Callable[..., Any]


def run(interpreter: Interpreter, line: str) -> Any:
    """Runs one dot command; returns its result, as `execute` does for a statement."""
    try:
        name, *words = shlex.split(line)
    except ValueError:
        raise ParseError("A quote is not closed.") from None
    command = COMMANDS.get(name.lower())
    if command is None:
        raise ParseError(f"There is no command {name}.", hint=f"{did_you_mean(name, COMMANDS)} .help lists all.")
    if len(words) != len(command.words):
        raise ParseError(f"{name} takes {usage(command) or 'nothing more'}.", hint=f"{name}: {command.help}")
    return command.run(interpreter, *words)


def usage(command: Command) -> str:
    return " ".join(f"<{word}>" for word in command.words)


def _help(interpreter: Interpreter) -> None:
    width = max(len(f"{name} {usage(command)}") for name, command in COMMANDS.items())
    for name, command in COMMANDS.items():
        interpreter.printer.line(f"  {f'{name} {usage(command)}':<{width}}  {command.help}")
    interpreter.printer.line("  A statement ends with a semicolon and may take several lines. Try: SHOW STREAMS;")


def _stats(interpreter: Interpreter) -> None:
    interpreter.printer.stats(interpreter.db.stats())


def _load(interpreter: Interpreter, stream: str, file: str) -> Any:
    return interpreter.db.push(stream, read(interpreter.db.catalog.streams[stream].fields, Path(file).expanduser()))


def _save(interpreter: Interpreter, directory: str) -> None:
    try:
        interpreter.db.save(Path(directory).expanduser())
    except OSError as e:
        raise StateError(f"{directory!r} cannot be written: {e.strerror}.") from None
    interpreter.printer.line(f"Saved to {directory}.")


def _quit(_: Interpreter) -> None:
    raise Quit


COMMANDS = {
    ".help": Command((), "this list", _help),
    ".load": Command(("stream", "file"), "push the rows of a .csv, .json or .parquet file", _load),
    ".advance": Command(("time",), "let time pass, as in .advance 2026-01-01T00:00:10", lambda s, at: s.db.advance(at)),
    ".snapshot": Command(("query",), "the current answer of a query", lambda s, name: s.db.snapshot(name)),
    ".late": Command(("stream",), "the rows that arrived late", lambda s, name: s.db.late(name)),
    ".stats": Command((), "counters of streams, tables and families", _stats),
    ".save": Command(("directory",), "write everything; go on with: eddyline sql --open <directory>", _save),
    ".quit": Command((), "leave, as does Ctrl-D", _quit),
}


# files


def read(fields: Iterable[Field], path: Path) -> Any:
    """The rows of a file, cast to the types of the fields; other columns are not cast."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path.name!r} is no file to load.", hint=f"Give one that ends in {', '.join(_READERS)}.")
    try:
        return reader(pa.schema([(f.name, f.type) for f in fields]), path)
    except OSError as e:
        raise DataError(f"{str(path)!r} cannot be read: {e.strerror or e}.") from None
    except (pa.ArrowException, ValueError) as e:
        raise DataError(f"{str(path)!r} cannot be read: {e}", hint="No row was applied.") from None


def _read_csv(schema: pa.Schema, path: Path) -> pa.Table:
    options = pa.csv.ConvertOptions(column_types=schema, strings_can_be_null=True, quoted_strings_can_be_null=False)
    return pa.csv.read_csv(path, convert_options=options)


def _read_json(schema: pa.Schema, path: Path) -> Any:
    """One object per line, or one array of objects."""
    with path.open(encoding="utf-8") as file:
        if file.read(1) == "[":
            file.seek(0)
            return json.load(file)
    return pa.json.read_json(path, parse_options=pa.json.ParseOptions(explicit_schema=schema))


def _read_parquet(_: pa.Schema, path: Path) -> pa.Table:
    return pa.parquet.read_table(path)


_READERS = {".csv": _read_csv, ".json": _read_json, ".parquet": _read_parquet}
