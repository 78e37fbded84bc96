"""What an operator is: something that can be asked for the changes of its output in one step.

A step is the arrival of a batch, a change of a table, or the passing of time. An operator asks its children, then does
its own part; it is *attached* if its changes belong to single queries, and common to the whole family otherwise.
A `replay` step shows newly registered queries what stands already (tables, and groups that always exist); operators
that are not attached answer it without touching their state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from eddyline.operators.evaluate import Functions
from eddyline.operators.room import Room
from eddyline.sql.bound import Expr
from eddyline.state.delta import Delta, Ints, empty
from eddyline.state.query_table import QueryRows


@dataclass(frozen=True)
class Step:
    """One step of a family. `before` and `now` are its clock before and after; names are in lower case."""

    kind: Literal["arrivals", "replay"]
    before: int
    now: int
    queries: QueryRows
    functions: Functions
    streams: Mapping[str, Delta] = field(default_factory=dict)
    tables: Mapping[str, Delta] = field(default_factory=dict)
    threads: int = 1
    room: Room = field(default_factory=Room)


@dataclass(frozen=True)
class PendingWindow:
    """A time window whose size depends on the query: applied when the changes are attached to queries."""

    time: int  # position of the event-time column
    size: Expr


class Operator:
    """`types` are the column types of the output; `pending` the windows not yet applied to it."""

    types: tuple[pa.DataType, ...]
    attached: bool
    takes_back: bool
    reads_streams: bool
    pending: tuple[PendingWindow, ...] = ()

    def __init__(self, children: Sequence[Operator]) -> None:
        self.children = tuple(children)
        self.takes_back = any(c.takes_back for c in children)
        self.reads_streams = any(c.reads_streams for c in children)

    def pull(self, step: Step) -> Delta:
        """The changes of the output in this step."""
        raise TypeError(f"{type(self).__name__} does not say what it computes")

    def forget(self, queries: Ints) -> None:
        """Lets go of what belongs to dropped queries, here and below."""
        for child in self.children:
            child.forget(queries)

    def note(self) -> str:
        """A remark for EXPLAIN ANALYZE."""
        return "by query" if self.attached else "common"

    def details(self) -> list[str]:
        """Further lines for EXPLAIN ANALYZE."""
        return []

    def size(self) -> int:
        """How many rows of state it holds."""
        return 0

    def save(self) -> dict[str, pa.Table]:
        return {}

    def load(self, saved: dict[str, pa.Table], functions: Functions) -> None:
        """Takes up the state that `save` gave."""

    def none(self) -> Delta:
        return empty(self.types, attached=self.attached)

    def walk(self) -> list[Operator]:
        """This operator and all below it, in a fixed order."""
        return [self, *(o for c in self.children for o in c.walk())]


def columns_for(delta: Delta, used: set[int]) -> list[pa.Array | None]:
    """The columns an expression needs, one value per change; the others are left out."""
    where = None if delta.rows is None else pa.array(delta.rows)
    return [None if i not in used else c if where is None else c.take(where) for i, c in enumerate(delta.columns)]
