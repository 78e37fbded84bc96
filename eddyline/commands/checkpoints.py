"""What `eddyline checkpoint …` does, and how it tells it. Nothing of Spark is started."""

from __future__ import annotations

from pathlib import Path

import typer

from eddyline.errors import StateError
from eddyline.shell.printing import Printer
from eddyline.shell.session import plural
from eddyline.spark.checkpoint import folder_of
from eddyline.spark.epochs import committed
from eddyline.spark.rewinding import plan_rewind
from eddyline.spark.rewinding import rewind as rewind_sinks


def rewind(printer: Printer, checkpoint: Path, yes: bool) -> None:
    folder = folder_of(checkpoint)
    wanted = plan_rewind(folder)
    if not wanted:
        printer.line("The rows of all file sinks are of this checkpoint's history: nothing to remove.")
        return
    for w in wanted:
        files = plural(len(w.rewind.files), "file")
        rows = f"{files} of micro-batches from {w.rewind.first} on" if w.rewind.files else "no rows"
        printer.line(f"sink {w.sink.name}, {w.rewind.place}: {rows} will be removed")
    if not yes and not typer.confirm("Remove them?"):
        raise StateError("Nothing was removed.", hint="--yes removes without asking.")
    rewind_sinks(folder, wanted)
    printer.line(f"Removed. The next run goes on from micro-batch {committed(folder) + 1}.")
