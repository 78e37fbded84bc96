"""The properties of a pipeline that its first run fixes in the checkpoint, and the lock of a run. Needs no Spark."""

from __future__ import annotations

import fcntl
import json
import os
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar, Literal
from uuid import uuid4

from eddyline.errors import DataError, StateError
from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.catalog.externals import Rules
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.input.offsets import check_logs, last_batch, read_offset
from eddyline.spark.output.places import local_path
from eddyline.spark.run.disk import writing
from eddyline.spark.run.private import make_private, open_private
from eddyline.spark.run.settings import pipeline_file, write_whole

FORMAT = 1


@dataclass(frozen=True)
class Fixed:
    buckets: int
    clock: Literal["min", "max"]
    identity: str = field(default_factory=lambda: uuid4().hex)  # differs from earlier checkpoints in the same folder


def folder_of(checkpoint: str | Path) -> Path:
    return local_path(checkpoint, "checkpoint").absolute()


def fixed(folder: Path) -> Fixed | None:
    """The properties that the first run fixed; None if there was no run yet."""
    file = pipeline_file(folder)
    if folder.exists() and not folder.is_dir():
        raise StateError(f"The checkpoint {str(folder)!r} is no folder.", hint="Choose another.")
    if not file.exists():
        if (folder / "offsets").exists():
            raise StateError(f"{str(folder)!r} is the checkpoint of another streaming query.", hint="Choose another.")
        return None
    try:
        saved = json.loads(file.read_text())
        if saved["format"] != FORMAT:
            raise StateError(
                f"The checkpoint {str(folder)!r} has format {saved['format']}, this version reads {FORMAT}.",
                hint="Use the version of Eddyline that wrote it.",
            )
        return Fixed(saved["buckets"], saved["clock"], saved.get("identity", ""))
    except (ValueError, KeyError, TypeError):
        raise StateError(f"{str(file)!r} is damaged.", hint="Restore the whole checkpoint.") from None


def require_fixed(folder: Path) -> Fixed:
    """The properties that the first run fixed; raises if the folder is not the checkpoint of a pipeline."""
    known = fixed(folder)
    if known is None:
        kind = "is not the checkpoint of a pipeline" if folder.exists() else "does not exist"
        raise StateError(f"{str(folder)!r} {kind}.", hint="`eddyline run` begins one: give the same --checkpoint.")
    return known


def make_own(folder: Path) -> None:
    """Creates the checkpoint, if it does not exist, and Eddyline's folder in it, accessible only to the owner.

    An existing checkpoint keeps its mode.
    """
    with writing(f"The checkpoint {str(folder)!r}"):
        if not folder.exists():
            make_private(folder)
        make_private(folder / "eddyline")


def begin(folder: Path, new: Fixed) -> None:
    make_own(folder)
    write_whole(pipeline_file(folder), json.dumps({"format": FORMAT} | asdict(new)))


def script_text(script: str | Path) -> str:
    try:
        return Path(script).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError(f"The script {str(script)!r} is not text in UTF-8.") from None
    except OSError as e:
        raise DataError(f"The script {str(script)!r} cannot be read: {e.strerror}.") from None


class Alone:
    """The lock of a checkpoint: two runs at once would remove each other's files.

    The lock belongs to the process and ends with it; within the process, `runs` says whether its holder is active.
    """

    _in_process: ClassVar[dict[Path, Callable[[], bool]]] = {}

    def __init__(self, folder: Path, runs: Callable[[], bool] = lambda: False) -> None:
        self.folder = folder
        self.runs = runs
        self._lock: int | None = None  # a file descriptor

    def __enter__(self) -> None:
        lock = self.folder / "eddyline" / "run.lock"
        taken = self._in_process.get(self.folder, lambda: False)()
        try:
            make_own(self.folder)
            if self._lock is None and not taken:
                self._lock = open_private(lock, os.O_RDWR)
        except OSError as e:
            raise StateError(f"The checkpoint {str(self.folder)!r} cannot be written: {e.strerror}.") from None
        try:
            if self._lock is not None:
                fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.__exit__()
            taken = True
        if taken:
            raise StateError(
                f"Another run is at work on the checkpoint {str(self.folder)!r}.",
                hint="Stop it first. To change its queries while it runs: eddyline query.",
            )
        self._in_process[self.folder] = self.runs

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def is_running(folder: Path) -> bool:
    """Whether a run is active on a checkpoint. The lock is tested, not taken."""
    if folder in Alone._in_process:  # in this process: closing the file would release the lock
        return Alone._in_process[folder]()
    try:
        lock = os.open(folder / "eddyline" / "run.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        request = struct.pack("hhqqi", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(lock, fcntl.F_GETLK, request)
        return bool(struct.unpack("hhqqi", answer)[0] != fcntl.F_UNLCK)
    finally:
        os.close(lock)


def check_catalog(folder: Path, log: CommitLog) -> None:
    """Raises if Spark's logs are damaged, or the commit of the last micro-batch is missing."""
    check_logs(folder)
    last = last_batch(folder / "offsets")
    if last is not None:
        commit = read_offset(folder, last)["commit"]
        if commit > log.latest():
            log.read(commit)  # raises with the name of the missing file


def catalog_of(checkpoint: str | Path, rules: Rules | None = None) -> PipelineCatalog:
    """The current catalog of a pipeline, which can be read and changed whether or not the pipeline runs.

    `rules` restrict declarations; by default they are the rules for authors other than the operator.
    """
    folder = folder_of(checkpoint)
    require_fixed(folder)
    own = folder / "eddyline"
    catalog = PipelineCatalog(CommitLog(own / "catalog"), rules or Rules("others", own=own))
    catalog.catch_up()
    return catalog
