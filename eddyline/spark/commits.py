"""The catalog's commits: an append-only log of what was declared, added and dropped, beside the checkpoint.

A commit is a file of actions, numbered from 1 and never changed. Actions are physical: a query is a row of constants of
a numbered family, so that a million of them are read as columns. Writers take the lock, read what is new, check their
statements against it and append; readers need no lock. Which commit takes effect in which micro-batch stands in Spark's
own offset log (`control.py`).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import numpy as np
import pyarrow as pa

from eddyline.errors import StateError
from eddyline.spark import blocks
from eddyline.state.delta import Ints

FORMAT = 1


@dataclass(frozen=True)
class Define:
    """A stream, table, view or sink."""

    sql: str


@dataclass(frozen=True)
class Undefine:
    kind: Literal["stream", "table", "view", "sink"]
    name: str


@dataclass(frozen=True)
class DefineFunction:
    name: str
    takes: tuple[str, ...]
    gives: str
    body: bytes  # pickled


@dataclass(frozen=True)
class NewFamily:
    number: int
    name: str
    kind: Literal["declared", "implicit", "view"]
    sql: str


@dataclass(frozen=True)
class RemoveFamily:
    number: int


@dataclass(frozen=True)
class AddQueries:
    """Rows of a family's query table; ids go on where the family's last ones ended."""

    family: int
    names: pa.Array
    params: tuple[pa.Array, ...]


@dataclass(frozen=True)
class DropQueries:
    family: int
    ids: Ints


@dataclass(frozen=True)
class ChangeTable:
    """Rows of a table without a source: positions of those that go, then those that come."""

    table: str
    gone: Ints
    new: tuple[pa.Array, ...]


@dataclass(frozen=True)
class ScriptRun:
    """A statement of the pipeline's script that has been carried out, by the digest of its text."""

    digest: str


Action = (
    Define | Undefine | DefineFunction | NewFamily | RemoveFamily | AddQueries | DropQueries | ChangeTable | ScriptRun
)
_PLAIN = {c.__name__: c for c in (Define, Undefine, NewFamily, RemoveFamily, ScriptRun)}


def _encode(action: Action) -> bytes:
    kind = type(action).__name__
    match action:
        case AddQueries():
            columns = {"query": action.names} | {f"p{i}": p for i, p in enumerate(action.params)}
            return blocks.encode({"action": kind, "family": action.family}, pa.table(columns))
        case DropQueries():
            return blocks.encode({"action": kind, "family": action.family}, pa.table({"id": action.ids}))
        case ChangeTable():
            header = {"action": kind, "table": action.table, "gone": action.gone.tolist()}
            return blocks.encode(header, pa.table({f"c{i}": c for i, c in enumerate(action.new)}))
        case DefineFunction():
            header = {"action": kind, "name": action.name, "takes": list(action.takes), "gives": action.gives}
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
        case "DropQueries":
            return DropQueries(header["family"], np.array(columns[0].to_numpy(), np.int64))
        case "ChangeTable":
            return ChangeTable(header["table"], np.array(header["gone"], np.int64), tuple(columns))
        case "DefineFunction":
            return DefineFunction(header["name"], tuple(header["takes"]), header["gives"], columns[0][0].as_py())
        case _:
            return _PLAIN[kind](**header)


class CommitLog:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._latest = 0

    def latest(self) -> int:
        """The number of the last commit; looks only at what came since it was last asked."""
        if not self._latest and self.path.is_dir():
            self._latest = max((int(f.stem) for f in self.path.glob("*.arrow")), default=0)
        while self._file(self._latest + 1).exists():
            self._latest += 1
        return self._latest

    def read(self, number: int) -> list[Action]:
        try:
            header, *actions = blocks.split(self._file(number).read_bytes())
            found = json.loads(header)["format"]
        except FileNotFoundError:
            raise StateError(f"Commit {number} of the catalog is missing in {str(self.path)!r}.") from None
        except (ValueError, KeyError, OSError) as e:
            raise StateError(f"Commit {number} of the catalog in {str(self.path)!r} is damaged: {e}.") from None
        if found != FORMAT:
            raise StateError(
                f"Commit {number} of the catalog has format {found}, this version reads {FORMAT}.",
                hint="Use the version of Eddyline that wrote it.",
            )
        return [_decode(a) for a in actions]

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One writer at a time, over all processes."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("w") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            yield

    def append(self, actions: Sequence[Action]) -> int:
        """Writes the next commit, whole or not at all. The lock must be held."""
        number = self.latest() + 1
        beside = self.path / f".{uuid4().hex}"
        header: dict[str, Any] = {"format": FORMAT, "number": number}
        with beside.open("wb") as f:
            f.write(blocks.join([json.dumps(header).encode(), *(_encode(a) for a in actions)]))
            f.flush()
            os.fsync(f.fileno())
        try:
            os.link(beside, self._file(number))
        finally:
            beside.unlink()
        return self.latest()

    def _file(self, number: int) -> Path:
        return self.path / f"{number:012}.arrow"
