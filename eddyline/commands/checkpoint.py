"""`eddyline checkpoint …`: shows, verifies, copies, moves, exports and imports the checkpoint of a pipeline.

Spark is not started. Commands import what they need when they run, so that `eddyline --help` answers at once.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eddyline.commands.query import Checkpoint, _printing

if TYPE_CHECKING:
    from eddyline.shell.printing import Printer
    from eddyline.spark.run.sink_rewinds import SinkRewind

app = typer.Typer(help="Looks at, checks, copies and moves the checkpoint of a pipeline.", no_args_is_help=True)

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Remove rows from sinks without asking.")]


@app.command()
def info(
    checkpoint: Checkpoint,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Shows what is in a checkpoint: catalog, queries, clocks, micro-batches, sinks and sizes."""
    with _printing() as printer:
        import pyarrow as pa

        from eddyline.spark.run.checkpoint import folder_of
        from eddyline.spark.run.inspecting import facts

        values = {f.what: f.value for f in facts(folder_of(checkpoint))}
        if as_json:
            print(json.dumps(values, indent=1))
        else:
            printer.table(pa.table({"what": list(values), "value": list(values.values())}))


@app.command()
def verify(checkpoint: Checkpoint) -> None:
    """Checks that a checkpoint is whole and its sinks fit; names what is wrong, and then ends with code 1."""
    with _printing() as printer:
        from eddyline.shell.printing import plural
        from eddyline.spark.run.checkpoint import folder_of
        from eddyline.spark.run.verifying import problems

        count = 0
        for problem in problems(folder_of(checkpoint)):
            printer.line(problem, "red")
            count += 1
        if count:
            printer.line(plural(count, "problem"), "bold red")
            raise typer.Exit(1)
        printer.line("The checkpoint is whole.")


@app.command()
def backup(
    checkpoint: Checkpoint, target: Annotated[Path, typer.Argument(metavar="BACKUP", help="A new folder.")]
) -> None:
    """Copies the checkpoint of a pipeline that is stopped."""
    with _printing() as printer:
        from eddyline.shell.printing import plural
        from eddyline.spark.run.backups import back_up
        from eddyline.spark.run.checkpoint import folder_of

        copy = back_up(folder_of(checkpoint), target.absolute())
        files = plural(len(copy.files), "file")
        printer.line(f"{files}, {copy.bytes:,} bytes, up to micro-batch {copy.committed}: {target}")


@app.command()
def restore(
    folder: Annotated[Path, typer.Argument(metavar="BACKUP", help="What `eddyline checkpoint backup` has written.")],
    checkpoint: Checkpoint,
    yes: Yes = False,
) -> None:
    """Puts a backup in the place of a checkpoint, and removes from file sinks the rows that came after it."""
    with _printing() as printer:
        from eddyline.spark.output.epochs import committed
        from eddyline.spark.run import backups, sink_rewinds
        from eddyline.spark.run.checkpoint import Alone, folder_of

        target = folder_of(checkpoint)
        if target.exists():
            with Alone(target):  # raises if a run is active on it
                pass
        unpacked = backups.unpack(folder.absolute(), target)
        try:
            _consent(printer, sink_rewinds.plan_rewind(unpacked), yes)
            before = backups.put_in_place(unpacked, target)
        except BaseException:
            shutil.rmtree(unpacked, ignore_errors=True)
            raise
        sink_rewinds.rewind(target, sink_rewinds.plan_rewind(target))
        if before is not None:
            printer.line(f"What was there before is in {before}; remove it if nobody needs it.")
        printer.line(f"Restored. The next run goes on from micro-batch {committed(target) + 1}.")


@app.command()
def rewind(checkpoint: Checkpoint, yes: Yes = False) -> None:
    """Removes from file sinks the rows of runs that the checkpoint does not know, after it was restored by hand."""
    with _printing() as printer:
        from eddyline.spark.output.epochs import committed
        from eddyline.spark.run import sink_rewinds
        from eddyline.spark.run.checkpoint import folder_of

        folder = folder_of(checkpoint)
        rewinds = sink_rewinds.plan_rewind(folder)
        if not rewinds:
            printer.line("The rows of all file sinks are of this checkpoint's history: nothing to remove.")
            return
        _consent(printer, rewinds, yes)
        sink_rewinds.rewind(folder, rewinds)
        printer.line(f"Removed. The next run goes on from micro-batch {committed(folder) + 1}.")


def _consent(printer: Printer, rewinds: Sequence[SinkRewind], yes: bool) -> None:
    """Prints what will be removed from sinks, and asks for confirmation."""
    from eddyline.errors import StateError
    from eddyline.shell.printing import plural

    for w in rewinds:
        files = plural(len(w.rewind.files), "file")
        rows = f"{files} with rows of micro-batches from {w.rewind.first} on" if w.rewind.files else "no rows"
        printer.line(f"sink {w.sink.name}, {w.rewind.place}: {rows} will be removed")
    if rewinds and not yes and not typer.confirm("Remove them?"):
        raise StateError("Nothing was changed.", hint="--yes removes rows without asking.")


@app.command()
def move(
    checkpoint: Checkpoint, target: Annotated[Path, typer.Argument(metavar="TARGET", help="A new folder.")]
) -> None:
    """Moves the checkpoint of a pipeline that is stopped."""
    with _printing() as printer:
        from eddyline.spark.run import backups
        from eddyline.spark.run.checkpoint import folder_of

        backups.move(folder_of(checkpoint), folder_of(target))
        printer.line(f"Moved. The next run goes on with --checkpoint {target}.")


@app.command()
def export(
    checkpoint: Checkpoint, target: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder.")]
) -> None:
    """Writes all that is registered as SQL and parquet, for a new checkpoint to take over."""
    with _printing() as printer:
        from eddyline.spark.catalog import exporting
        from eddyline.spark.run.checkpoint import folder_of

        families = exporting.export(folder_of(checkpoint), target)
        printer.line(f"{sum(f.queries for f in families):,} queries in {len(families):,} families: {target}")
        printer.line(f"Edit {target / 'pipeline.sql'}, and begin a new checkpoint with it:")
        printer.line(f"eddyline checkpoint import {target} --script FILE --checkpoint NEW_CHECKPOINT")


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
    with _printing() as printer:
        from eddyline.spark.catalog import exporting
        from eddyline.spark.run.checkpoint import folder_of

        count = exporting.take_over(folder_of(checkpoint), folder, script)
        printer.line(f"{count:,} queries taken over, from the next micro-batch on.")
