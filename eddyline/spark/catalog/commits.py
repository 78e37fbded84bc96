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
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import numpy as np
import pyarrow as pa

from eddyline.delivery.durable import fsync_folder, make_folder
from eddyline.engine.actions import (
    Action,
    AddQueries,
    AddQuery,
    ChangeTable,
    Define,
    DefineFunction,
    DropQueries,
    DropQuery,
    FixCells,
    LoadQueries,
    NewFamily,
    NextFamily,
    Quarantine,
    RemoveFamily,
    ScriptRun,
    SplitQueries,
    Undefine,
)
from eddyline.errors import StateError
from eddyline.spark.run.disk import writing
from eddyline.spark.run.private import locked, make_private, open_private
from eddyline.spark.worker import blocks

FORMAT = 1
_RESTORE = "Restore the whole checkpoint."


_PLAIN = {
    c.__name__: c
    for c in (Define, Undefine, NewFamily, RemoveFamily, FixCells, SplitQueries, Quarantine, NextFamily, ScriptRun)
}


def _encode(action: Action) -> bytes:
    kind = type(action).__name__
    match action:
        case AddQueries():
            columns = {"query": action.names} | {f"p{i}": p for i, p in enumerate(action.params)}
            return blocks.encode({"action": kind, "family": action.family}, pa.table(columns))
        case LoadQueries():
            columns = {"id": pa.array(action.ids), "query": action.names}
            columns |= {f"p{i}": p for i, p in enumerate(action.params)}
            header = {"action": kind, "family": action.family, "next_id": action.next_id}
            return blocks.encode(header, pa.table(columns))
        case DropQueries():
            return blocks.encode({"action": kind, "family": action.family}, pa.table({"id": action.ids}))
        case ChangeTable():
            header = {"action": kind, "table": action.table, "gone": action.gone.tolist()}
            return blocks.encode(header, pa.table({f"c{i}": c for i, c in enumerate(action.new)}))
        case Define():
            return blocks.encode({"action": kind, "sql": action.sql})
        case NewFamily():
            header = {"action": kind, "number": action.number, "name": action.name, "kind": action.kind}
            return blocks.encode(header | {"sql": action.sql, "in_lists": action.in_lists})
        case AddQuery() | DropQuery():
            raise TypeError(f"{kind} is written as columns")
        case DefineFunction():
            header = {"action": kind, "name": action.name, "takes": list(action.takes), "gives": action.gives}
            header |= {"kind": action.kind} if action.kind != "scalar" else {}
            return blocks.encode(header, pa.table({"body": pa.array([action.body], pa.large_binary())}))
        case _:
            return blocks.encode({"action": kind, **asdict(action)})


def _decode(block: bytes) -> Action:
    header, table = blocks.decode(block)
    columns = [c.combine_chunks() for c in table.columns]
    kind = header.pop("action")
    match kind:
        case "AddQueries":
            return AddQueries(header["family"], columns[0], tuple(columns[1:]))
        case "LoadQueries":
            ids = np.array(columns[0].to_numpy(), np.int64)
            return LoadQueries(header["family"], header["next_id"], ids, columns[1], tuple(columns[2:]))
        case "Quarantine":
            return Quarantine(header["family"], tuple(header["ids"]), header["error"])
        case "DropQueries":
            return DropQueries(header["family"], np.array(columns[0].to_numpy(), np.int64))
        case "ChangeTable":
            return ChangeTable(header["table"], np.array(header["gone"], np.int64), tuple(columns))
        case "DefineFunction":
            body, takes = columns[0][0].as_py(), tuple(header["takes"])
            return DefineFunction(header["name"], takes, header["gives"], body, header.get("kind", "scalar"))
        case _:
            return _PLAIN[kind](**header)


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

    def append(self, actions: Sequence[Action]) -> int:
        """Writes the next commit atomically. The lock must be held."""
        number = self.latest() + 1
        self._write(self._file(number), number, actions)
        return self.latest()

    def write_snapshot(self, number: int, actions: Sequence[Action]) -> int:
        """Returns its size in bytes. The lock must be held."""
        return self._write(self._file(number, "snapshot"), number, actions)

    def trim(self, needed: int) -> None:
        """Removes commits and snapshots that only versions before `needed` need."""
        base = self.snapshot_before(needed)
        for kind, last in (("commit", base), ("snapshot", base - 1)):
            for number in self._numbers(kind):
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
            header, *actions = blocks.split(file.read_bytes())
            fields = json.loads(header)
            format_ = fields["format"]
            if format_ == FORMAT and fields.get("digest", "") not in ("", blocks.digest(*actions)):
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
        return [_decode(a) for a in actions]

    def _write(self, file: Path, number: int, actions: Sequence[Action]) -> int:
        temporary = self.path / f".{uuid4().hex}"
        bodies = [_encode(a) for a in actions]
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
