"""The implementation of `eddyline checkpoint …` and its output. Spark is not started."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa
import typer

from eddyline.errors import StateError
from eddyline.shell.printing import Printer
from eddyline.shell.session import plural
from eddyline.spark.catalog import exporting
from eddyline.spark.output.epochs import committed
from eddyline.spark.run import backups
from eddyline.spark.run.checkpoint import Alone, folder_of
from eddyline.spark.run.inspecting import facts
from eddyline.spark.run.rewinding import SinkRewind, plan_rewind
from eddyline.spark.run.rewinding import rewind as rewind_sinks
from eddyline.spark.run.verifying import problems


def info(printer: Printer, checkpoint: Path, form: Literal["table", "json"]) -> None:
    rows = list(facts(folder_of(checkpoint)))
    if form == "json":
        print(json.dumps({f.what: f.value for f in rows}, indent=1))
        return
    printer.table(pa.table({"what": [f.what for f in rows], "value": [f.value for f in rows]}))


def verify(printer: Printer, checkpoint: Path) -> int:
    """Prints the problems; returns their number."""
    count = 0
    for problem in problems(folder_of(checkpoint)):
        printer.line(problem, "red")
        count += 1
    printer.line("The checkpoint is whole." if not count else plural(count, "problem"), "" if not count else "bold red")
    return count


def back_up(printer: Printer, checkpoint: Path, target: Path) -> None:
    backup = backups.back_up(folder_of(checkpoint), target.absolute())
    files = plural(len(backup.files), "file")
    printer.line(f"{files}, {backup.bytes:,} bytes, up to micro-batch {backup.committed}: {target}")


def restore(printer: Printer, folder: Path, checkpoint: Path, yes: bool) -> None:
    target = folder_of(checkpoint)
    if target.exists():
        with Alone(target):  # raises if a run is active on it
            pass
    unpacked = backups.unpack(folder.absolute(), target)
    try:
        _consent(printer, plan_rewind(unpacked), yes)
        before = backups.put_in_place(unpacked, target)
    except BaseException:
        shutil.rmtree(unpacked, ignore_errors=True)
        raise
    rewind_sinks(target, plan_rewind(target))
    if before is not None:
        printer.line(f"What was there before is in {before}; remove it if nobody needs it.")
    printer.line(f"Restored. The next run goes on from micro-batch {committed(target) + 1}.")


def rewind(printer: Printer, checkpoint: Path, yes: bool) -> None:
    folder = folder_of(checkpoint)
    wanted = plan_rewind(folder)
    if not wanted:
        printer.line("The rows of all file sinks are of this checkpoint's history: nothing to remove.")
        return
    _consent(printer, wanted, yes)
    rewind_sinks(folder, wanted)
    printer.line(f"Removed. The next run goes on from micro-batch {committed(folder) + 1}.")


def _consent(printer: Printer, wanted: Sequence[SinkRewind], yes: bool) -> None:
    """Prints what will be removed from sinks, and asks for confirmation."""
    for w in wanted:
        files = plural(len(w.rewind.files), "file")
        rows = f"{files} with rows of micro-batches from {w.rewind.first} on" if w.rewind.files else "no rows"
        printer.line(f"sink {w.sink.name}, {w.rewind.place}: {rows} will be removed")
    if wanted and not yes and not typer.confirm("Remove them?"):
        raise StateError("Nothing was changed.", hint="--yes removes rows without asking.")


def move(printer: Printer, checkpoint: Path, target: Path) -> None:
    backups.move(folder_of(checkpoint), folder_of(target))
    printer.line(f"Moved. The next run goes on with --checkpoint {target}.")


def export(printer: Printer, checkpoint: Path, target: Path) -> None:
    families = exporting.export(folder_of(checkpoint), target)
    count = sum(f.queries for f in families)
    printer.line(f"{count:,} queries in {len(families):,} families: {target}")
    printer.line(f"Edit {target / 'pipeline.sql'}, and begin a new checkpoint with it:")
    printer.line(f"eddyline checkpoint import {target} --script FILE --checkpoint NEW_CHECKPOINT")


def take_over(printer: Printer, checkpoint: Path, folder: Path, script: Path | None) -> None:
    count = exporting.take_over(folder_of(checkpoint), folder, script)
    printer.line(f"{count:,} queries taken over, from the next micro-batch on.")
