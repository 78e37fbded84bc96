"""Sinks that were dropped while rows for them were on their way.

A dropped sink must not stop the pipeline. Rows computed before the drop are still delivered; where that fails,
they are kept beside the checkpoint, in `undelivered/SINK`. When a micro-batch is amended so that a drop takes effect in
it, files that earlier attempts at it have left in the dropped sink are removed.
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
from eddyline.spark.output.places import FILES, place_of
from eddyline.spark.run.failures import told
from eddyline.spark.run.settings import Settings
from eddyline.sql.catalog import Sink


def retract(settings: Settings, batch: int, commit: int, sinks: Iterable[Sink]) -> None:
    """Removes the files of a micro-batch from sinks that were there at a commit and are not among those of now."""
    before = Definitions(Nothing())
    with suppress(Error):  # a catalog that cannot be read must not keep the pipeline from getting past it
        Follower(settings.log(), before).define(commit)
    stays = {s.sql for s in sinks}
    for sink in (s for s in before.catalog.sinks if s.sql not in stays):
        with suppress(OSError):  # it may be dropped for that very reason
            remove_files(place_of(sink, settings), batch)


def keep_undelivered(settings: Settings, sink: Sink, staged: Sequence[Staged], batch: int) -> Path:
    """Copies what was staged for a sink, as far as it can be read, and returns where to."""
    place = settings.own / "undelivered" / folder_name(sink.name)
    suffix = sink.external.format.lower() if sink.external.format.lower() in FILES else "parquet"
    for s in staged:
        folder = place / s.folder if s.folder else place
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):
            shutil.copyfile(s.file, folder / f"part-{batch:09}-{s.writer:05}-{s.part:03}.{suffix}")
            Path(s.file).unlink(missing_ok=True)
    return place


def delivery_error(sink: Sink, batch: int, cause: Exception) -> StateError:
    """What stops a run whose sink cannot be delivered to."""
    return StateError(
        f"Micro-batch {batch} could not be delivered to the sink {sink.name!r}: {_said(cause)}",
        hint="Mend that and start again: nothing is lost. Or give the sink up (DROP SINK"
        f" {sink.name}; by `eddyline query add`) and start again: the drop takes effect in this micro-batch.",
    )


def _said(cause: Exception) -> str:
    """An error in one line."""
    if isinstance(cause, Error):
        return cause.message
    if isinstance(cause, PySparkException):
        return told(cause).message
    return f"{type(cause).__name__}: {(str(cause).splitlines() or [''])[0]}"
