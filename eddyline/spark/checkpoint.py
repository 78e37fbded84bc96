"""What a checkpoint says of the pipeline that it belongs to; the first run fixes it. Nothing here needs Spark."""

from __future__ import annotations

import fcntl
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TextIO
from uuid import uuid4

from eddyline.errors import StateError
from eddyline.spark.commits import CommitLog
from eddyline.spark.mirror import Mirror
from eddyline.spark.places import local_path
from eddyline.spark.settings import pipeline_file, write_whole

FORMAT = 1


@dataclass(frozen=True)
class Fixed:
    buckets: int
    clock: Literal["min", "max"]
    identity: str = field(default_factory=lambda: uuid4().hex)  # tells it from others that were in the same folder


def folder_of(checkpoint: str | Path) -> Path:
    return local_path(checkpoint, "checkpoint").absolute()


def fixed(folder: Path) -> Fixed | None:
    """What was fixed when the checkpoint was begun; None if it is yet to begin."""
    file = pipeline_file(folder)
    if not file.exists():
        if (folder / "offsets").exists():
            raise StateError(f"{str(folder)!r} is the checkpoint of another streaming query.", hint="Choose another.")
        return None
    try:
        found = json.loads(file.read_text())
        if found["format"] != FORMAT:
            raise StateError(
                f"The checkpoint {str(folder)!r} has format {found['format']}, this version reads {FORMAT}.",
                hint="Use the version of Eddyline that wrote it.",
            )
        return Fixed(found["buckets"], found["clock"], found.get("identity", ""))
    except (ValueError, KeyError, TypeError):
        raise StateError(f"{str(file)!r} is damaged.", hint="Restore the whole checkpoint.") from None


def begin(folder: Path, new: Fixed) -> None:
    write_whole(pipeline_file(folder), json.dumps({"format": FORMAT} | asdict(new)))


class Alone:
    """One process at a time runs a pipeline: two would remove each other's files.

    The lock belongs to the process and ends with it. Within one process Spark itself refuses a second run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: TextIO | None = None

    def __enter__(self) -> None:
        lock = self.folder / "eddyline" / "run.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._file or lock.open("w")
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.__exit__()
            raise StateError(
                f"Another run is at work on the checkpoint {str(self.folder)!r}.",
                hint="Stop it first. To change its queries while it runs: eddyline query.",
            ) from None

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def check_catalog(folder: Path, log: CommitLog) -> None:
    """Raises if the last micro-batch had a commit in force that the catalog's log no longer has."""
    from eddyline.spark.control import offset_in

    batches = [int(f.name) for f in (folder / "offsets").glob("*") if f.name.isdigit()]
    if batches:
        commit = offset_in((folder / "offsets" / str(max(batches))).read_text())["commit"]
        if commit > log.latest():
            log.read(commit)  # says which file is missing


def mirror_of(checkpoint: str | Path) -> Mirror:
    """The catalog of a pipeline as it stands, to be looked at and changed whether the pipeline runs or not."""
    folder = folder_of(checkpoint)
    if fixed(folder) is None:
        kind = "is not the checkpoint of a pipeline" if folder.exists() else "does not exist"
        raise StateError(f"{str(folder)!r} {kind}.", hint="`eddyline run` begins one: give the same --checkpoint.")
    mirror = Mirror(CommitLog(folder / "eddyline" / "catalog"))
    mirror.catch_up()
    return mirror
