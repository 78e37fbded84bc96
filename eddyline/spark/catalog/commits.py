"""The commit log of a pipeline's catalog: an append-only log of actions in the checkpoint.

A commit is a file of actions, numbered from 1 and never changed. A writer takes the lock, reads new commits, checks its
statements against them and appends; readers need no lock. Spark's own offset log records which commit takes effect in
which micro-batch (`input/control.py`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args
from uuid import uuid4

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.delivery.durable import fsync_folder, make_folder
from eddyline.engine import actions
from eddyline.engine.actions import Action
from eddyline.errors import StateError
from eddyline.spark.run.disk import writing
from eddyline.spark.run.private import locked, make_private, open_private
from eddyline.spark.worker import blocks

FORMAT = 1
_RESTORE = "Restore the whole checkpoint."
_KINDS: dict[str, Any] = {kind.__name__: kind for kind in get_args(Action)}


def _encode(action: Action) -> bytes:
    """An action as a block: its arrays are the columns, its other fields are in the header."""
    header: dict[str, Any] = {"action": type(action).__name__}
    columns: dict[str, Any] = {}
    match action:
        case actions.AddQueries():
            header["family"] = action.family
            columns = {"query": action.names} | _numbered("p", action.params)
        case actions.LoadQueries():
            header |= {"family": action.family, "next_id": action.next_id}
            columns = {"id": action.ids, "query": action.names} | _numbered("p", action.params)
        case actions.DropQueries():
            header["family"] = action.family
            columns = {"id": action.ids}
        case actions.ChangeTable():
            header |= {"table": action.table, "gone": action.gone.tolist()}
            columns = _numbered("c", action.new)
        case actions.DefineFunction():
            header |= {"name": action.name, "takes": list(action.takes), "gives": action.gives}
            header |= {"kind": action.kind} if action.kind != "scalar" else {}
            columns = {"body": pa.array([action.body], pa.large_binary())}
        case actions.AddQuery() | actions.DropQuery():
            raise TypeError(f"{header['action']} is written as columns")
        case _:  # without the objects that only the process that made them has
            header |= {f.name: getattr(action, f.name) for f in fields(action) if f.compare}
    return blocks.encode(header, pa.table(columns))


def _numbered(prefix: str, columns: Sequence[pa.Array]) -> dict[str, pa.Array]:
    return {f"{prefix}{i}": column for i, column in enumerate(columns)}


def _decode(block: bytes) -> Action:
    header, table = blocks.decode(block)
    columns = [c.combine_chunks() for c in table.columns]
    kind = header.pop("action")
    match kind:
        case "AddQueries":
            header |= {"names": columns[0], "params": tuple(columns[1:])}
        case "LoadQueries":
            header |= {"ids": _ids(columns[0]), "names": columns[1], "params": tuple(columns[2:])}
        case "DropQueries":
            header["ids"] = _ids(columns[0])
        case "Quarantine":
            header["ids"] = tuple(header["ids"])
        case "ChangeTable":
            header |= {"gone": np.array(header["gone"], np.int64), "new": tuple(columns)}
        case "DefineFunction":
            header |= {"takes": tuple(header["takes"]), "body": columns[0][0].as_py()}
    action: Action = _KINDS[kind](**header)
    return action


def _ids(column: pa.Array) -> Ints:
    return np.array(column.to_numpy(), np.int64)


class CommitLog:
    """Files `NUMBER.commit`; `NUMBER.snapshot` has the combined effect of all commits up to that number."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._latest = 0

    def latest(self) -> int:
        """The number of the last commit. Lists only commits since the previous call, unless those were trimmed."""
        if not self._latest or not self.has(self._latest):
            self._latest = max([*self._numbers("commit"), *self._numbers("snapshot")], default=0)
        while self._file(self._latest + 1).exists():
            self._latest += 1
        return self._latest

    def read(self, number: int) -> list[Action]:
        return self._read(self._file(number))

    def snapshot_before(self, version: int) -> int:
        """The number of the last snapshot at or before a version; 0 if there is none."""
        return max((n for n in self._numbers("snapshot") if n <= version), default=0)

    def read_snapshot(self, number: int) -> list[Action]:
        return self._read(self._file(number, "snapshot"))

    def every(self) -> Iterator[Action]:
        """The actions of all files, in arbitrary order."""
        for kind in ("snapshot", "commit"):
            for number in self._numbers(kind):
                yield from self._read(self._file(number, kind))

    @contextmanager
    def lock(self, busy: Literal["wait", "skip"] = "wait") -> Iterator[bool]:
        """The lock of writers, across processes; with "skip", yields False at once if another process holds it."""
        with writing(self._what()):
            if not self.path.is_dir():
                make_folder(self.path)
                make_private(self.path)
            lock = open_private(self.path / "lock", os.O_RDWR)
        with locked(lock, self.path / "lock", busy) as held:
            yield held

    def append(self, commit: Sequence[Action]) -> int:
        """Writes the next commit atomically. The lock must be held."""
        number = self.latest() + 1
        self._write(self._file(number), number, commit)
        return self.latest()

    def write_snapshot(self, number: int, snapshot: Sequence[Action]) -> int:
        """Returns its size in bytes. The lock must be held."""
        return self._write(self._file(number, "snapshot"), number, snapshot)

    def trim(self, needed: int) -> None:
        """Removes commits and snapshots that only versions before `needed` need.

        The oldest are removed first: if the commit after a snapshot is there, all later ones are, even if this call is
        interrupted.
        """
        base = self.snapshot_before(needed)
        for kind, last in (("commit", base), ("snapshot", base - 1)):
            for number in sorted(self._numbers(kind)):
                if number <= last:
                    self._file(number, kind).unlink(missing_ok=True)

    def clear(self) -> None:
        """Removes everything. The lock must be held."""
        for kind in ("commit", "snapshot"):
            for number in self._numbers(kind):
                self._file(number, kind).unlink()
        self._latest = 0

    def size(self, number: int) -> int:
        return self._file(number).stat().st_size

    def has(self, number: int) -> bool:
        return self._file(number).exists()

    def _file(self, number: int, kind: str = "commit") -> Path:
        return self.path / f"{number:012}.{kind}"

    def _numbers(self, kind: str) -> list[int]:
        return [int(f.stem) for f in self.path.glob(f"*.{kind}")] if self.path.is_dir() else []

    def _read(self, file: Path) -> list[Action]:
        try:
            header, *encoded = blocks.split(file.read_bytes())
            about = json.loads(header)
            format_ = about["format"]
            if format_ == FORMAT and about.get("digest", "") not in ("", blocks.digest(*encoded)):
                raise ValueError("it does not hold what was written")
        except FileNotFoundError:
            raise StateError(f"The catalog's file {str(file)!r} is missing.", hint=_RESTORE) from None
        except (ValueError, KeyError, TypeError, OSError) as e:
            raise StateError(f"The catalog's file {str(file)!r} is damaged: {e}.", hint=_RESTORE) from None
        if format_ != FORMAT:
            raise StateError(
                f"The catalog's {file.suffix[1:]} {int(file.stem)} has format {format_}, this version reads {FORMAT}.",
                hint="Use the version of Eddyline that wrote it.",
            )
        return [_decode(block) for block in encoded]

    def _write(self, file: Path, number: int, commit: Sequence[Action]) -> int:
        temporary = self.path / f".{uuid4().hex}"
        bodies = [_encode(action) for action in commit]
        header: dict[str, Any] = {"format": FORMAT, "number": number, "digest": blocks.digest(*bodies)}
        with writing(self._what()):
            try:
                with os.fdopen(open_private(temporary, os.O_WRONLY), "wb") as f:
                    size = f.write(blocks.join([json.dumps(header).encode(), *bodies]))
                    f.flush()
                    os.fsync(f.fileno())
                os.link(temporary, file)  # fails if it exists
            finally:
                temporary.unlink(missing_ok=True)
            fsync_folder(self.path)
        return size

    def _what(self) -> str:
        return f"The catalog {str(self.path)!r}"
