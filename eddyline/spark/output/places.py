"""Places: the folders of checkpoints and sinks, and the check that each sink has its own.

A file sink marks its folder (`delivery/marks.py`) with its format, its pipeline and the runs that wrote there.
Committing a micro-batch removes the files of earlier attempts, so two pipelines in one folder would remove each other's
rows: a pipeline that finds the mark of another is refused. A copied checkpoint, or one restored from a backup, would
write rows that the folder already has: it is refused too.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

from eddyline.delivery.durable import fsync_folder, make_folder
from eddyline.delivery.marks import KEPT_EPOCHS, Epoch, Mark, last_batch, read_mark, write_mark
from eddyline.delivery.names import folder_name
from eddyline.delivery.sinks.file_sink import FileSink
from eddyline.delivery.sinks.sink_kind import FORMAT
from eddyline.errors import CatalogError, StateError
from eddyline.spark.output.epochs import committed, foreign_from, planned
from eddyline.spark.output.sinks import kind_of
from eddyline.spark.run.settings import Settings
from eddyline.sql.catalog import Sink

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")


def local_path(text: str | Path, what: str) -> Path:
    """A path of this machine's file system, from a path or a file: address."""
    address = str(text)
    if not is_local(address):
        raise StateError(
            f"The {what} {address!r} is not on a file system.",
            hint="Mount it where the driver and all executors see it, and give that path.",
        )
    return Path("/" + address[len("file:") :].lstrip("/") if scheme_of(address) else address)


def scheme_of(path: str) -> str:
    """The scheme of an address, in lower case; empty for a plain path."""
    scheme = _SCHEME.match(path)
    return "" if scheme is None else scheme[1].lower()


def is_local(path: str) -> bool:
    """Whether an address is a path of this machine's file system."""
    return scheme_of(path) in ("", "file")


def place_of(sink: Sink, settings: Settings) -> Path:
    """The folder of a sink's files: its own path, or a folder of the checkpoint if the rows are sent elsewhere."""
    return file_path(sink, settings.base) or settings.own / "sinks" / folder_name(sink.name)


def file_path(sink: Sink, base: str) -> Path | None:
    """The folder of a file sink; None if the rows are sent elsewhere. Relative paths begin at `base`."""
    path = sink.external.options.get("path")
    if path is None or not isinstance(kind_of(sink), FileSink):
        return None
    return Path(base) / local_path(path, f"path of sink {sink.name!r}")


def require_usable_path(sink: Sink, pipeline: Path, base: str = "") -> None:
    """Raises if the folder of a file sink is not writable or belongs to another pipeline.

    Without `base`, which only a run knows, relative paths are not checked.
    """
    place = file_path(sink, base)
    if place is None or not place.is_absolute():
        return
    existing = next(p for p in (place, *place.parents) if p.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise CatalogError(
            f"The sink {sink.name!r} cannot write to {str(place)!r}.", hint="Give it a path that can be written."
        )
    mark, mine = read_mark(place), json.loads(pipeline.read_text()) if pipeline.exists() else {}
    if mark is not None and "identity" in mine:
        _require_same(sink, place, mark, mine["identity"])


def claim(sink: Sink, settings: Settings, epoch: Epoch) -> None:
    """Marks the folder of a file sink as written by this run; raises if it has rows of a run that the checkpoint does
    not know, or if it cannot be written."""
    place, checkpoint = file_path(sink, settings.base), Path(settings.checkpoint)
    if place is None:
        return
    try:
        last = last_batch(place)
        if last is None:
            mark = _mark_without_rows(place, settings.identity, checkpoint)
        else:
            mark = read_mark(place)
            if mark is not None:
                _require_same(sink, place, mark, settings.identity)
            _require_own_history(sink, place, mark, last, checkpoint)
        before = mark or Mark(sink.name, "", settings.identity)
        epochs = before.epochs if before.epoch == epoch.id else (*before.epochs, epoch)[-KEPT_EPOCHS:]
        complete = max(before.complete, committed(checkpoint))
        mine = replace(before, sink=sink.name, checkpoint=settings.checkpoint, epochs=epochs, complete=complete)
        make_folder(place)
        write_mark(place, mine, "fsync")
        fsync_folder(place)
    except OSError as e:
        raise StateError(
            f"The sink {sink.name!r} cannot write to {str(place)!r}: {e.strerror}.", hint="Mend that, or its path."
        ) from None


def require_claimed(sink: Sink, settings: Settings, epoch: Epoch) -> Mark:
    """The mark of a sink's folder; raises unless this run was the last to claim it."""
    place = place_of(sink, settings)
    mark = read_mark(place)
    if mark is None:
        raise StateError(f"The mark of {str(place)!r} is gone.", hint="Start the pipeline again.")
    if mark.epoch != epoch.id:
        raise StateError(
            f"Another run writes to the folder {str(place)!r} of sink {sink.name!r}, with the checkpoint "
            f"{mark.checkpoint!r}: one of the two checkpoints is a copy of the other.",
            hint="Let only one of them run, or give their sinks paths of their own.",
        )
    return mark


def _mark_without_rows(place: Path, identity: str, checkpoint: Path) -> Mark | None:
    """The mark of a folder without rows, as far as it is valid; the mark of another pipeline is ignored."""
    try:
        mark = read_mark(place)
    except StateError:
        return None
    if mark is None or (mark.identity, mark.format) != (identity, FORMAT):
        return None
    return mark if foreign_from(mark, checkpoint) is None else replace(mark, epochs=(), complete=-1)


def _require_own_history(sink: Sink, place: Path, mark: Mark | None, last: int, checkpoint: Path) -> None:
    foreign = foreign_from(mark, checkpoint)
    if foreign is None and last <= planned(checkpoint):
        return
    first = planned(checkpoint) + 1 if foreign is None else foreign
    raise StateError(
        f"The folder {str(place)!r} of sink {sink.name!r} has rows of a run that the checkpoint {str(checkpoint)!r} "
        f"does not know, from micro-batch {first} on: the checkpoint was restored from a backup, or is a copy.",
        hint=f"`eddyline checkpoint rewind --checkpoint {checkpoint}` removes those rows, and the next run goes on "
        "exactly. Or go on with the checkpoint that wrote them, or use another path.",
    )


def _require_same(sink: Sink, place: Path, mark: Mark, identity: str) -> None:
    has = f"The folder {str(place)!r} of sink {sink.name!r} has rows"
    if mark.format != FORMAT:
        raise StateError(
            f"{has} of format {mark.format}, this version writes {FORMAT}.",
            hint="Use the version of Eddyline that wrote them, or another path.",
        )
    if mark.identity != identity and last_batch(place) is not None:
        raise StateError(
            f"{has} of another run, with the checkpoint {mark.checkpoint!r}.",
            hint="Go on with that checkpoint, or use another path, or remove the folder if nobody needs its rows.",
        )
