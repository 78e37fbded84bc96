"""`eddyline checkpoint …`: its arguments and options. The implementation is in `checkpoints` and in `spark`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eddyline.commands.query import Checkpoint, _printing

app = typer.Typer(help="Looks at, checks, copies and moves the checkpoint of a pipeline.", no_args_is_help=True)

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Remove rows from sinks without asking.")]


@app.command()
def info(
    checkpoint: Checkpoint,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Shows what is in a checkpoint: catalog, queries, clocks, micro-batches, sinks and sizes."""
    from eddyline.commands import checkpoints

    with _printing() as printer:
        checkpoints.info(printer, checkpoint, "json" if as_json else "table")


@app.command()
def verify(checkpoint: Checkpoint) -> None:
    """Checks that a checkpoint is whole and its sinks fit; names what is wrong, and then ends with code 1."""
    from eddyline.commands import checkpoints

    with _printing() as printer:
        if checkpoints.verify(printer, checkpoint):
            raise typer.Exit(1)


@app.command()
def backup(
    checkpoint: Checkpoint, target: Annotated[Path, typer.Argument(metavar="BACKUP", help="A new folder.")]
) -> None:
    """Copies the checkpoint of a pipeline that is stopped."""
    from eddyline.commands import checkpoints

    with _printing() as printer:
        checkpoints.back_up(printer, checkpoint, target)


@app.command()
def restore(
    folder: Annotated[Path, typer.Argument(metavar="BACKUP", help="What `eddyline checkpoint backup` has written.")],
    checkpoint: Checkpoint,
    yes: Yes = False,
) -> None:
    """Puts a backup in the place of a checkpoint, and removes from file sinks the rows that came after it."""
    from eddyline.commands import checkpoints

    with _printing() as printer:
        checkpoints.restore(printer, folder, checkpoint, yes)


@app.command()
def rewind(checkpoint: Checkpoint, yes: Yes = False) -> None:
    """Removes from file sinks the rows of runs that the checkpoint does not know, after it was restored by hand."""
    from eddyline.commands import checkpoints

    with _printing() as printer:
        checkpoints.rewind(printer, checkpoint, yes)


@app.command()
def move(
    checkpoint: Checkpoint, target: Annotated[Path, typer.Argument(metavar="TARGET", help="A new folder.")]
) -> None:
    """Moves the checkpoint of a pipeline that is stopped."""
    from eddyline.commands import checkpoints

    with _printing() as printer:
        checkpoints.move(printer, checkpoint, target)


@app.command()
def export(
    checkpoint: Checkpoint, target: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder.")]
) -> None:
    """Writes all that is registered as SQL and parquet, for a new checkpoint to take over."""
    from eddyline.commands import checkpoints

    with _printing() as printer:
        checkpoints.export(printer, checkpoint, target)


@app.command("import")
def import_(
    checkpoint: Checkpoint,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What `eddyline checkpoint export` has written.")],
    script: Annotated[
        Path | None,
        typer.Option(help="Begin a new checkpoint with this file of statements.", exists=True, dir_okay=False),
    ] = None,
) -> None:
    """Registers the queries and table rows of an export; its families must be declared. All or nothing."""
    from eddyline.commands import checkpoints

    with _printing() as printer:
        checkpoints.take_over(printer, checkpoint, folder, script)
