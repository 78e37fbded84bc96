"""Settings of a run and of a micro-batch, the same in every process."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from eddyline.delivery.durable import Durability, fsync_folder, make_folder
from eddyline.errors import StateError
from eddyline.spark.run.disk import writing
from eddyline.spark.run.private import open_private

if TYPE_CHECKING:
    from eddyline.spark.catalog.commits import CommitLog
    from eddyline.spark.catalog.trust import Approvals


@dataclass(frozen=True)
class Settings:
    checkpoint: str
    buckets: int
    clock_policy: Literal["min", "max"]
    base: str  # relative paths of sinks begin here
    on_bad_rows: Literal["set apart", "stop"]
    on_error: Literal["quarantine", "null"]  # for queries without this option
    identity: str = ""  # of the checkpoint; distinguishes it from earlier ones in the same folder
    durability: Literal["fsync", "none"] = "fsync"  # whether files are synced before they are published
    dead_letter_limit: int | None = None  # bytes of a dead-letter table; the oldest rows are removed
    key: bytes = field(default=b"", repr=False)  # the key of function approvals; empty: the user's own

    @property
    def own(self) -> Path:
        """The folder of Eddyline's files in Spark's checkpoint."""
        return Path(self.checkpoint) / "eddyline"

    def log(self) -> CommitLog:
        from eddyline.spark.catalog.commits import CommitLog

        return CommitLog(self.own / "catalog")

    def approvals(self) -> Approvals:
        from eddyline.spark.catalog.trust import Approvals

        return Approvals(self.own, self.identity, self.key)

    def clocks_file(self, batch: int) -> Path:
        return self.own / "clocks" / f"{batch:09}.json"


def pipeline_file(checkpoint: Path) -> Path:
    """The file with the properties that the first run of a checkpoint fixed."""
    return checkpoint / "eddyline" / "pipeline.json"


def _properties(checkpoint: Path) -> dict[str, Any]:
    """The properties of a checkpoint; empty if it does not exist yet or they cannot be read."""
    try:
        return dict(json.loads(pipeline_file(checkpoint).read_text()))
    except (OSError, ValueError, TypeError):
        return {}


def identity_of(checkpoint: Path) -> str:
    """The identity of a checkpoint; empty if it has none or does not exist yet."""
    return str(_properties(checkpoint).get("identity", ""))


def fix_sources(settings: Settings, names: Sequence[str]) -> None:
    """Records the sources; raises if they differ from those of the first micro-batch, which Spark's plan fixes."""
    folder = Path(settings.checkpoint)
    saved = json.loads(pipeline_file(folder).read_text())
    known = saved.get("sources", list(names))
    if known != list(names) and has_begun(folder):
        raise StateError(
            f"The checkpoint {settings.checkpoint!r} has the sources {_listed(known)}, not {_listed(names)}.",
            hint="Declare the same streams and tables in the same order, or begin another checkpoint.",
        )
    if known != list(names):
        shutil.rmtree(folder / "sources", ignore_errors=True)  # Spark's logs of sources that were never read
    write_whole(pipeline_file(folder), json.dumps(saved | {"sources": list(names)}))


def sources_of(checkpoint: Path) -> list[str]:
    """The streams and tables, in lower case, that had sources when the checkpoint was last started."""
    return [str(name) for name in _properties(checkpoint).get("sources", ())]


def has_begun(checkpoint: Path) -> bool:
    """Whether Spark has planned a micro-batch: from then on, sources and script statements are fixed."""
    return any(f.name.isdigit() for f in (checkpoint / "offsets").glob("*"))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(n for n in names if n) or "none"


def write_whole(file: Path, text: str, durability: Durability = "fsync") -> None:
    """Writes a file atomically, also across a power failure, readable only by its owner."""
    # Several threads and processes may write the same file: each has a file of its own until it is whole.
    temporary = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_ident()}")
    with writing(f"The file {str(file)!r}"):
        if not file.parent.is_dir():
            make_folder(file.parent)
        try:
            with os.fdopen(open_private(temporary, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as f:
                f.write(text)
                f.flush()
                if durability == "fsync":
                    os.fsync(f.fileno())
            os.replace(temporary, file)
            if durability == "fsync":
                fsync_folder(file.parent)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


@dataclass(frozen=True)
class Moment:
    """The parameters of a micro-batch, the same for all its partitions."""

    batch: int
    version: int  # of the catalog
    now: int  # wall clock, milliseconds
    clocks: dict[str, Any]  # by stream: its clock before the micro-batch
    amended: int = 0  # how often a later commit replaced the planned one
