"""`eddyline query …` and `eddyline late`: read the catalog of a pipeline, and append commits to its log.

Spark is neither started nor imported. A running pipeline applies new commits at its next micro-batch, a stopped one
when it is started. Commands import what they need when they run, so that `eddyline --help` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    import pyarrow as pa

    from eddyline.shell.printing import Printer
    from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog

app = typer.Typer(help="Adds, drops and lists the queries of a pipeline, while it runs or not.", no_args_is_help=True)

Checkpoint = Annotated[Path, typer.Option("--checkpoint", metavar="DIR", help="The checkpoint of the pipeline.")]
Limit = Annotated[int, typer.Option(min=0, help="Rows to show; 0 shows all.")]
CHANGING = ("CREATE", "DROP", "INSERT", "UPDATE", "DELETE")  # the statements that a file may contain


@contextmanager
def _printing(limit: int = 0) -> Iterator[Printer]:
    """Provides the printer of results; prints an error and exits with code 1."""
    from eddyline.errors import Error
    from eddyline.shell.printing import Printer
    from eddyline.spark.run.disk import unforeseen

    printer = Printer.plain(limit)
    try:
        yield printer
    except (Error, OSError) as e:
        printer.error(unforeseen(e) if isinstance(e, OSError) else e)
        raise typer.Exit(1) from None


@contextmanager
def _reading(checkpoint: Path, limit: int = 0) -> Iterator[tuple[Printer, PipelineCatalog]]:
    """Provides a printer, and the catalog of the pipeline."""
    with _printing(limit) as printer:
        from eddyline.spark.run.checkpoint import catalog_of

        yield printer, catalog_of(checkpoint)


@contextmanager
def _changing(checkpoint: Path) -> Iterator[PipelineCatalog]:
    """Provides the catalog; prints afterwards how many queries were registered or dropped."""
    with _reading(checkpoint) as (printer, catalog):
        before, version = len(catalog.registry.names), catalog.version
        yield catalog
        if catalog.version > version:
            now = len(catalog.registry.names)
            printer.line(f"{now - before:+,}: {_count(now)} now{_when(catalog)}")


@app.command()
def add(
    checkpoint: Checkpoint,
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A file of CREATE and DROP statements; - is the input.")
    ] = None,
    family: Annotated[str | None, typer.Option(help="The family that --from has queries of.")] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="A .parquet, .csv or .json file with one query in each row."),
    ] = None,
) -> None:
    """Adds queries: from statements, or to a family from a table of its constants and a column `query`."""
    if file is not None and family is None and source is None:
        with _changing(checkpoint) as catalog:
            _add_statements(catalog, file)
    elif file is None and family is not None and source is not None:
        with _changing(checkpoint) as catalog:
            _add_rows(catalog, family, source)
    else:
        raise typer.BadParameter("Give a FILE of statements, or --family and --from.")


def _add_statements(catalog: PipelineCatalog, file: str) -> None:
    """Runs the statements of a file, or of the input, as one commit: all of them, or none if one fails."""
    from eddyline.errors import Error, ParseError
    from eddyline.shell.interpreter import moved
    from eddyline.spark.run.checkpoint import script_text
    from eddyline.sql.cursor import statements

    text = sys.stdin.read() if file == "-" else script_text(file)
    with catalog.commit(on_error="undo"):
        for statement in statements(text):
            try:
                if statement.text.split(maxsplit=1)[0].upper() not in CHANGING:
                    raise ParseError(
                        "Only statements that change something can be added.",
                        hint=f"They begin with {', '.join(CHANGING)}. `eddyline query list` shows what there is.",
                    )
                catalog.execute(statement.text)
            except Error as e:
                e.hint = " ".join(filter(None, (e.hint, "No statement of the file was applied.")))
                raise moved(e, statement.text, text, statement.tokens[0].start) from None


def _add_rows(catalog: PipelineCatalog, family: str, file: Path) -> None:
    """Registers one query of a family for each row of a file."""
    from eddyline import types as t
    from eddyline.shell.commands import read
    from eddyline.sql.bound import Field

    params = catalog.registry.named(family).bound.params
    catalog.register(family, read([Field("query", t.STRING), *params], file))


@app.command()
def drop(
    checkpoint: Checkpoint,
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Queries; - reads names from the input.")],
    family: Annotated[str | None, typer.Option(help="The family they belong to, if that should be checked.")] = None,
) -> None:
    """Drops queries by name, all of them or none."""
    wanted = [line.strip() for line in sys.stdin if line.strip()] if names == ["-"] else names
    with _changing(checkpoint) as catalog, catalog.commit(on_error="undo"):
        for owner, queries in _by_family(catalog, wanted, family).items():
            catalog.drop(owner, queries)


def _by_family(catalog: PipelineCatalog, names: Sequence[str], family: str | None) -> dict[str, list[str]]:
    """The names by family; raises if one does not exist."""
    if family is not None:
        return {catalog.registry.named(family).name: list(names)}
    names_by_family: dict[str, list[str]] = {}
    for name in names:
        names_by_family.setdefault(catalog.registry.query(name)[0].name, []).append(name)
    return names_by_family


@app.command("list")
def list_(
    checkpoint: Checkpoint,
    family: Annotated[str | None, typer.Option(help="Only queries of this family, with their constants.")] = None,
    like: Annotated[str | None, typer.Option(metavar="PATTERN", help="Only names like this: % is any text.")] = None,
    limit: Limit = 40,
) -> None:
    """Lists the registered queries."""
    with _reading(checkpoint, limit) as (printer, catalog):
        import pyarrow.compute as pc

        from eddyline.spark.catalog.exporting import constants

        table = catalog.execute("SHOW QUERIES") if family is None else constants(catalog.registry.named(family))
        if like is not None:
            table = table.filter(pc.match_like(table.column("query"), like))
        _table(printer, table, "query")


@app.command()
def quarantined(checkpoint: Checkpoint, limit: Limit = 40) -> None:
    """Lists the queries that failed, with their errors."""
    with _reading(checkpoint, limit) as (printer, catalog):
        import numpy as np
        import pyarrow as pa

        rows = []
        for number, errors in catalog.quarantined.items():
            family = catalog.registry.number(number)
            names = family.queries.rows().name_of(np.array(list(errors))).to_pylist()
            for name, error in zip(names, errors.values(), strict=True):
                rows.append({"query": name, "family": family.name, "error": error})
        schema = pa.schema([(name, pa.string()) for name in ("query", "family", "error")])
        table = pa.Table.from_pylist(rows, schema)
        _table(printer, table, "query")


@app.command()
def explain(
    checkpoint: Checkpoint,
    name: Annotated[str, typer.Argument(help="A query, or a family.")],
) -> None:
    """Shows the plan of a query, what its streams have had, its last change, and why it does not fire."""
    with _printing() as printer:
        from eddyline.commands.explain_query import lines
        from eddyline.spark.catalog.explaining import explained
        from eddyline.spark.run.checkpoint import folder_of

        for line in lines(explained(folder_of(checkpoint), name)):
            printer.line(line)


@app.command()
def resume(
    checkpoint: Checkpoint,
    name: Annotated[str, typer.Argument(help="A query, or a family for all its queries in quarantine.")],
) -> None:
    """Registers a query anew after quarantine."""
    with _reading(checkpoint) as (printer, catalog):
        count = catalog.resume(name)
        printer.line(f"{_count(count)} will begin anew{_when(catalog)}")


def late(
    checkpoint: Checkpoint,
    stream: Annotated[str | None, typer.Argument(help="A stream or table; all are counted without it.")] = None,
    limit: Limit = 40,
) -> None:
    """Shows the rows that a pipeline has set apart: late ones, and those that could not be read."""
    with _reading(checkpoint, limit) as (printer, catalog):
        import pyarrow as pa

        from eddyline.errors import CatalogError, did_you_mean
        from eddyline.spark.catalog.asking import dead_letters

        own, known = catalog.log.path.parent, [r.name for r in (*catalog.catalog.streams, *catalog.catalog.tables)]
        if stream is not None:
            if stream.lower() not in [k.lower() for k in known]:
                raise CatalogError(f"There is no stream or table {stream!r}.", hint=did_you_mean(stream, known))
            rows = dead_letters(own, stream)
            _table(printer, pa.table({}) if rows is None else rows)
            return
        counts = []
        for name in known:
            rows = dead_letters(own, name)
            for reason in rows.column("reason").value_counts().to_pylist() if rows is not None else ():
                counts.append({"stream": name, "reason": reason["values"], "rows": reason["counts"]})
        schema = pa.schema([("stream", pa.string()), ("reason", pa.string()), ("rows", pa.int64())])
        _table(printer, pa.Table.from_pylist(counts, schema))


def _when(catalog: PipelineCatalog) -> str:
    return f", from the next micro-batch on (commit {catalog.version})."


def _table(printer: Printer, rows: pa.Table, what: Literal["row", "query"] = "row") -> None:
    if rows.num_rows:
        printer.table(rows)
    printer.line(_count(rows.num_rows, what), "dim")


def _count(count: int, what: Literal["row", "query"] = "query") -> str:
    from eddyline.shell.printing import plural

    return plural(count, what, "queries" if what == "query" else "rows")
