"""Sinks that were dropped while rows for them were staged.

A dropped sink must not stop the pipeline. Rows computed before the drop are still delivered; if that fails, they are
kept in the checkpoint, in `undelivered/SINK`. If a micro-batch is amended so that a drop takes effect in it, the files
that earlier attempts committed to the dropped sink are removed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from pyspark.errors import PySparkException

from eddyline.delivery.names import folder_name
from eddyline.engine.definitions import Definitions, Nothing
from eddyline.errors import Error, StateError
from eddyline.spark.catalog.following import Follower
from eddyline.spark.output.outputs import Staged, remove_files
from eddyline.spark.output.places import place_of
from eddyline.spark.output.sinks import kind_of
from eddyline.spark.run.settings import Settings
from eddyline.spark.run.spark_errors import as_error
from eddyline.sql.catalog import Sink


def retract(settings: Settings, batch: int, commit: int, sinks: Iterable[Sink]) -> None:
    """Removes the files of a micro-batch from sinks that existed at a commit and are not among the current `sinks`."""
    before = Definitions(Nothing())
    with suppress(Error):  # an unreadable catalog must not stop the pipeline here
        Follower(settings.log(), before).define(commit)
    current = {s.sql for s in sinks}
    for sink in (s for s in before.catalog.sinks if s.sql not in current):
        with suppress(OSError):  # an unusable folder may be the reason for the drop
            remove_files(place_of(sink, settings), batch)


def keep_undelivered(settings: Settings, sink: Sink, staged: Sequence[Staged], batch: int) -> Path:
    """Copies the readable files that were staged for a sink; returns their folder."""
    place = settings.own / "undelivered" / folder_name(sink.name)
    for s in staged:
        folder = place / s.folder if s.folder else place
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):
            shutil.copyfile(s.file, folder / s.name(batch, kind_of(sink).suffix))
            Path(s.file).unlink(missing_ok=True)
    return place


def delivery_error(sink: Sink, batch: int, cause: Exception) -> StateError:
    """The error that stops a run when delivery to a sink fails."""
    return StateError(
        f"Micro-batch {batch} could not be delivered to the sink {sink.name!r}: {_one_line(cause)}",
        hint="Mend that and start again: nothing is lost. Or give the sink up (DROP SINK"
        f" {sink.name}; by `eddyline query add`) and start again: the drop takes effect in this micro-batch.",
    )


def _one_line(cause: Exception) -> str:
    """An error in one line."""
    if isinstance(cause, Error):
        return cause.message
    if isinstance(cause, PySparkException):
        return as_error(cause).message
    return f"{type(cause).__name__}: {(str(cause).splitlines() or [''])[0]}"
