"""The mark of a sink's folder: its checkpoint, the runs that wrote there, and the last complete micro-batch.

It is the file `.eddyline` in the folder of a file sink. Its name hides it from readers of `*.json` and of whole
folders. Only the pipeline that owns the folder writes it. Readers use `complete`: all files of that micro-batch and of
those before it are committed, in all folders of the sink.

Every run has an epoch, a random id. The mark lists the last epochs that wrote here, each with the first micro-batch it
could write. A copied checkpoint, or one restored from a backup, lacks the epochs of later runs: if the mark lists one
of them, the rows from its first micro-batch on were written by a run that the checkpoint does not know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eddyline.delivery.durable import HIDDEN, Durability, replace_file
from eddyline.delivery.sinks import FILE_SINKS
from eddyline.delivery.sinks.file_sink import FileSink
from eddyline.delivery.sinks.sink_kind import FORMAT
from eddyline.errors import StateError

MARK = ".eddyline"
OLD_MARK = "_eddyline.json"  # its name in versions before 0.2, which `*.json` matches
STAGED = "_staged"  # the folder of files that are not committed yet
KEPT_EPOCHS = 64  # limits the size of a mark, which is read in every micro-batch
PART = re.compile(r"part-(\d{9})-(.+)\.(\w+)")


@dataclass(frozen=True)
class Epoch:
    """One run of a pipeline."""

    id: str
    first: int  # the first micro-batch that it may write


@dataclass(frozen=True)
class Mark:
    sink: str
    checkpoint: str  # its path when it last wrote here
    identity: str  # of the checkpoint
    epochs: tuple[Epoch, ...] = ()  # the last epochs that wrote here, in order
    complete: int = -1  # the last micro-batch whose files are all committed
    rewinds: tuple[int, ...] = ()  # for each rewind, the last micro-batch whose rows were kept
    format: int = FORMAT

    @property
    def epoch(self) -> str:
        """The id of the last run that wrote here; empty if its version had no epochs."""
        return self.epochs[-1].id if self.epochs else ""


def read_mark(folder: Path) -> Mark | None:
    """The mark of a folder; None if it has none."""
    for name in (MARK, OLD_MARK):
        try:
            fields = json.loads((folder / name).read_text(encoding="utf-8"))
            return _mark(fields)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (ValueError, KeyError, TypeError):
            raise StateError(f"{str(folder / name)!r} is damaged.", hint="Restore it, or use another path.") from None
    return None


def _mark(fields: Any) -> Mark:
    epochs = tuple(Epoch(e["id"], e["first"]) for e in fields.get("epochs", []))
    return Mark(
        fields["sink"],
        fields["checkpoint"],
        fields["identity"],
        epochs,
        fields.get("complete", -1),
        tuple(fields.get("rewinds", [])),
        fields["format"],
    )


def write_mark(folder: Path, mark: Mark, durability: Durability) -> None:
    replace_file(folder / MARK, json.dumps(asdict(mark)), durability)
    (folder / OLD_MARK).unlink(missing_ok=True)


@dataclass(frozen=True, order=True)
class PartFile:
    """A file of rows of the micro-batch in its name; a compacted file also has rows of earlier ones."""

    batch: int
    rest: str  # the rest of its name, unique within the micro-batch
    path: Path

    @property
    def kind(self) -> FileSink:
        return FILE_SINKS[self.path.suffix[1:]]


def folders_of(place: Path) -> list[Path]:
    """The folders of a sink that may contain rows: its own, and one for each family or query."""
    if not place.is_dir():
        return []
    below = [f for f in place.iterdir() if f.name[0] != HIDDEN and f.name != STAGED and f.is_dir()]
    return [place, *sorted(below)]


def parts_of(folder: Path) -> list[PartFile]:
    """The files of rows in one folder, in the order of their micro-batches."""
    return sorted(_parts(folder))


def _parts(folder: Path) -> Iterator[PartFile]:
    for file in folder.iterdir() if folder.is_dir() else ():
        match = PART.fullmatch(file.name)
        if match is not None and match[3] in FILE_SINKS:
            yield PartFile(int(match[1]), match[2], file)


def last_batch(place: Path) -> int | None:
    """The last micro-batch with rows in a sink; None if there are none."""
    return max((p.batch for f in folders_of(place) for p in _parts(f)), default=None)
