"""The implementation of `eddyline query …` and `eddyline late`, which read and append to the catalog's log.

Spark is neither started nor imported. A running pipeline applies the new commits at its next micro-batch, a stopped one
when it is started.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline import types as t
from eddyline.engine.family import Family
from eddyline.errors import CatalogError, DataError, Error, ParseError, did_you_mean
from eddyline.shell.commands import read
from eddyline.shell.printing import Printer
from eddyline.shell.session import moved, plural
from eddyline.spark.catalog.asking import dead_letters
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.run.checkpoint import catalog_of, folder_of
from eddyline.sql.bound import Field
from eddyline.sql.cursor import statements

CHANGING = ("CREATE", "DROP", "INSERT", "UPDATE", "DELETE")  # the statements that a file may contain


def add_statements(printer: Printer, checkpoint: Path, file: str) -> None:
    """Runs the statements of a file, or of the input, as one commit: all of them, or none if one fails."""
    text = sys.stdin.read() if file == "-" else _text(Path(file))
    pipeline_catalog = catalog_of(checkpoint)
    with _reporting(printer, pipeline_catalog), pipeline_catalog.commit(on_error="undo"):
        for statement in statements(text):
            try:
                if statement.text.split(maxsplit=1)[0].upper() not in CHANGING:
                    raise ParseError(
                        "Only statements that change something can be added.",
                        hint=f"They begin with {', '.join(CHANGING)}. `eddyline query list` shows what there is.",
                    )
                pipeline_catalog.execute(statement.text)
            except Error as e:
                e.hint = " ".join(filter(None, (e.hint, "No statement of the file was applied.")))
                raise moved(e, statement.text, text, statement.tokens[0].start) from None


def add_rows(printer: Printer, checkpoint: Path, family: str, file: Path) -> None:
    """Registers one query of a family for each row of a file."""
    pipeline_catalog = catalog_of(checkpoint)
    owner = pipeline_catalog.registry.named(family)
    rows = read([Field("query", t.STRING), *owner.bound.params], file)
    with _reporting(printer, pipeline_catalog):
        pipeline_catalog.register(family, rows)


def drop(printer: Printer, checkpoint: Path, names: Sequence[str], family: str | None) -> None:
    """Drops queries, all or none; `-` in place of their names reads them from the input, one in a line."""
    wanted = [line.strip() for line in sys.stdin if line.strip()] if list(names) == ["-"] else list(names)
    pipeline_catalog = catalog_of(checkpoint)
    with _reporting(printer, pipeline_catalog), pipeline_catalog.commit(on_error="undo"):
        for owner, mine in _by_family(pipeline_catalog, wanted, family).items():
            pipeline_catalog.drop(owner, mine)


def resume(printer: Printer, checkpoint: Path, name: str) -> None:
    pipeline_catalog = catalog_of(checkpoint)
    count = pipeline_catalog.resume(name)
    printer.line(f"{_queries(count)} will begin anew{_when(pipeline_catalog)}")


def show(printer: Printer, checkpoint: Path, family: str | None, like: str | None) -> None:
    """The names of queries; those of one family with their constants."""
    pipeline_catalog = catalog_of(checkpoint)
    if family is None:
        table = pipeline_catalog.execute("SHOW QUERIES")
    else:
        table = _with_constants(pipeline_catalog.registry.named(family))
    if like is not None:
        table = table.filter(pc.match_like(table.column("query"), like))
    _table(printer, table, _queries(table.num_rows))


def show_quarantined(printer: Printer, checkpoint: Path) -> None:
    pipeline_catalog = catalog_of(checkpoint)
    names, families, errors = [], [], []
    for number, out in pipeline_catalog.quarantined.items():
        f = pipeline_catalog.registry.number(number)
        rows = f.queries.rows()
        for query, error in out.items():
            names.append(rows.name_of(np.array([query]))[0].as_py())
            families.append(f.name)
            errors.append(error)
    columns = {"query": names, "family": families, "error": errors}
    table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    _table(printer, table, _queries(table.num_rows))


def explain(printer: Printer, checkpoint: Path, name: str) -> None:
    """Shows the facts about a query or a family; changes nothing, and loads no function of the checkpoint."""
    from eddyline.commands.explain import lines
    from eddyline.spark.catalog.explaining import explained

    for line in lines(explained(folder_of(checkpoint), name)):
        printer.line(line)


def show_late(printer: Printer, checkpoint: Path, stream: str | None) -> None:
    """How many rows were set apart, by stream and reason; or those of one stream."""
    pipeline_catalog = catalog_of(checkpoint)
    if stream is not None:
        known = [r.name for r in (*pipeline_catalog.catalog.streams, *pipeline_catalog.catalog.tables)]
        if stream.lower() not in [k.lower() for k in known]:
            raise CatalogError(f"There is no stream or table {stream!r}.", hint=did_you_mean(stream, known))
        rows = dead_letters(folder_of(checkpoint) / "eddyline", stream)
        _table(printer, pa.table({}) if rows is None else rows)
        return
    counts = []
    for relation in (*pipeline_catalog.catalog.streams, *pipeline_catalog.catalog.tables):
        rows = dead_letters(folder_of(checkpoint) / "eddyline", relation.name)
        if rows is not None:
            for reason in rows.column("reason").value_counts().to_pylist():
                counts.append({"stream": relation.name, "reason": reason["values"], "rows": reason["counts"]})
    schema = pa.schema([("stream", pa.string()), ("reason", pa.string()), ("rows", pa.int64())])
    _table(printer, pa.Table.from_pylist(counts, schema))


def _with_constants(family: Family) -> pa.Table:
    rows = family.queries.rows()
    names = ["query", *(p.name for p in family.bound.params)]
    return pa.table([rows.names_at(rows.live()), *rows.all_params_at(rows.live())], names=names)


def _by_family(pipeline_catalog: PipelineCatalog, names: Iterable[str], family: str | None) -> dict[str, list[str]]:
    """The names by family; raises if one does not exist."""
    if family is not None:
        return {pipeline_catalog.registry.named(family).name: list(names)}
    names_by_family: dict[str, list[str]] = {}
    for name in names:
        names_by_family.setdefault(pipeline_catalog.query(name)[0].name, []).append(name)
    return names_by_family


@contextmanager
def _reporting(printer: Printer, pipeline_catalog: PipelineCatalog) -> Iterator[None]:
    """Prints afterwards how many queries were registered or dropped."""
    before, version = len(pipeline_catalog.registry.names), pipeline_catalog.version
    try:
        yield
    finally:
        if pipeline_catalog.version > version:
            now = len(pipeline_catalog.registry.names)
            printer.line(f"{now - before:+,}: {_queries(now)} now{_when(pipeline_catalog)}")


def _when(pipeline_catalog: PipelineCatalog) -> str:
    return f", from the next micro-batch on (commit {pipeline_catalog.version})."


def _table(printer: Printer, rows: pa.Table, count: str = "") -> None:
    if rows.num_rows:
        printer.table(rows)
    printer.line(count or plural(rows.num_rows, "row"), "dim")


def _queries(count: int) -> str:
    return f"{count:,} {'query' if count == 1 else 'queries'}"


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as e:
        raise DataError(f"{str(file)!r} cannot be read: {e.strerror}.") from None
    except UnicodeDecodeError:
        raise DataError(f"{str(file)!r} is not text in UTF-8.") from None
