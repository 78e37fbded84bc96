"""Rewinds sinks to the position of their checkpoint, after a backup was restored or a copy of it wrote to them.

Spark replays what it planned and did not commit, so the rows after the last committed micro-batch are removed. In a
folder with rows of a run that the checkpoint does not know, rows are removed from that run's first micro-batch on if it
is earlier. Rows that were sent elsewhere cannot be removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from eddyline.delivery.marks import KEPT_EPOCHS, last_batch, read_mark
from eddyline.delivery.rewinding import Rewind, rewind_files, rewind_mark, rewind_of
from eddyline.errors import StateError
from eddyline.spark.output.epochs import committed, foreign_from, planned, run_starts
from eddyline.spark.output.places import file_path
from eddyline.spark.run.checkpoint import Alone, catalog_of
from eddyline.sql.catalog import Sink


@dataclass(frozen=True)
class SinkRewind:
    sink: Sink
    rewind: Rewind


def file_sinks(checkpoint: Path) -> Iterator[tuple[Sink, Path]]:
    """The file sinks of a checkpoint's catalog, with their folders; relative paths begin where the last run began."""
    starts = run_starts(checkpoint)
    base = starts[-1].base if starts else str(Path.cwd())
    for sink in catalog_of(checkpoint).catalog.sinks:
        place = file_path(sink, base)
        if place is not None:
            yield sink, place


def plan_rewind(checkpoint: Path) -> list[SinkRewind]:
    """The rewinds of all sinks that have rows unknown to the checkpoint."""
    rewinds = []
    for sink, place in file_sinks(checkpoint):
        mark = read_mark(place)
        foreign = foreign_from(mark, checkpoint)
        last = last_batch(place)
        if mark is not None and len(mark.epochs) == KEPT_EPOCHS and foreign == mark.epochs[0].first:
            raise StateError(
                f"Too many runs wrote to {str(place)!r} since: from where on its rows differ is not known.",
                hint=f"Give the sink {sink.name!r} another path.",
            )
        if foreign is not None or (last is not None and last > planned(checkpoint)):
            first = min(committed(checkpoint) + 1, foreign if foreign is not None else committed(checkpoint) + 1)
            rewinds.append(SinkRewind(sink, rewind_of(place, first)))
    return rewinds


def rewind(checkpoint: Path, rewinds: list[SinkRewind]) -> None:
    """Executes planned rewinds; no run may be active on the checkpoint."""
    known = {s.epoch.id for s in run_starts(checkpoint)}
    with Alone(checkpoint):
        rewind_files(rewind_of(checkpoint / "eddyline" / "dead_letter", committed(checkpoint) + 1))
        for w in rewinds:
            rewind_files(w.rewind)
            rewind_mark(w.rewind, known)
