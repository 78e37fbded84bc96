"""`eddyline query …` and `eddyline late`: their arguments and options. The implementation is in `catalog`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from eddyline.shell.printing import Printer

app = typer.Typer(help="Adds, drops and lists the queries of a pipeline, while it runs or not.", no_args_is_help=True)

Checkpoint = Annotated[Path, typer.Option("--checkpoint", metavar="DIR", help="The checkpoint of the pipeline.")]
Limit = Annotated[int, typer.Option(min=0, help="Rows to show; 0 shows all.")]


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
    from eddyline.commands import catalog

    with _printing() as printer:
        if file is not None and family is None and source is None:
            catalog.add_statements(printer, checkpoint, file)
        elif file is None and family is not None and source is not None:
            catalog.add_rows(printer, checkpoint, family, source)
        else:
            raise typer.BadParameter("Give a FILE of statements, or --family and --from.")


@app.command()
def drop(
    checkpoint: Checkpoint,
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Queries; - reads names from the input.")],
    family: Annotated[str | None, typer.Option(help="The family they belong to, if that should be checked.")] = None,
) -> None:
    """Drops queries by name, all of them or none."""
    from eddyline.commands import catalog

    with _printing() as printer:
        catalog.drop(printer, checkpoint, names, family)


@app.command("list")
def list_(
    checkpoint: Checkpoint,
    family: Annotated[str | None, typer.Option(help="Only queries of this family, with their constants.")] = None,
    like: Annotated[str | None, typer.Option(metavar="PATTERN", help="Only names like this: % is any text.")] = None,
    limit: Limit = 40,
) -> None:
    """Lists the queries that stand."""
    from eddyline.commands import catalog

    with _printing(limit) as printer:
        catalog.show(printer, checkpoint, family, like)


@app.command()
def quarantined(checkpoint: Checkpoint, limit: Limit = 40) -> None:
    """Lists the queries that went wrong, and how."""
    from eddyline.commands import catalog

    with _printing(limit) as printer:
        catalog.show_quarantined(printer, checkpoint)


@app.command()
def explain(
    checkpoint: Checkpoint,
    name: Annotated[str, typer.Argument(help="A query, or a family.")],
) -> None:
    """Shows the plan of a query, what its streams have had, its last change, and why it does not fire."""
    from eddyline.commands import catalog

    with _printing() as printer:
        catalog.explain(printer, checkpoint, name)


@app.command()
def resume(
    checkpoint: Checkpoint,
    name: Annotated[str, typer.Argument(help="A query, or a family for all its queries in quarantine.")],
) -> None:
    """Lets a query begin anew after quarantine."""
    from eddyline.commands import catalog

    with _printing() as printer:
        catalog.resume(printer, checkpoint, name)


def late(
    checkpoint: Checkpoint,
    stream: Annotated[str | None, typer.Argument(help="A stream or table; all are counted without it.")] = None,
    limit: Limit = 40,
) -> None:
    """Shows the rows that a pipeline has set apart: late ones, and those that could not be read."""
    from eddyline.commands import catalog

    with _printing(limit) as printer:
        catalog.show_late(printer, checkpoint, stream)
