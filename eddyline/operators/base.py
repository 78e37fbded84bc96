"""The base class of operators: an operator computes the changes of its output in one step.

A step is the arrival of a batch, a change of a table, or the passing of time. An operator pulls the changes of its
children, then computes its own. It is *attached* if its changes are per query; otherwise the whole family shares them.
A `replay` step gives newly registered queries their initial answer (tables, and groups that always exist); operators
that are not attached answer it without touching their state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.operators.evaluate import Functions
from eddyline.operators.room import Room
from eddyline.plan.physical import PhysicalNode
from eddyline.state.delta import Delta, empty
from eddyline.state.pages import Saved
from eddyline.state.query_table import QueryRows
from eddyline.state.store.stored_table import StoredTable
from eddyline.state.store.stream_log import StreamLog

if TYPE_CHECKING:
    from eddyline.operators.attach import Attach
    from eddyline.operators.deferred import Deferred
    from eddyline.operators.joins.candidates import Candidates
    from eddyline.operators.pool import FamilyMatching
    from eddyline.operators.query_index import QueryIndex
    from eddyline.operators.twin_classes import SentRows


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
    pooled: FamilyMatching | None = None  # the matching of the tuples with the family, if a pool does it
    routed: Mapping[tuple[int, int], Candidates | None] = field(default_factory=dict)  # by join and input (`joins/`)


class Operator:
    """Runs one node of a physical plan; `types` are the column types of its output."""

    def __init__(self, node: PhysicalNode, children: Sequence[Operator]) -> None:
        self.node = node
        self.children = tuple(children)
        self.types = node.types
        self.attached = node.attached
        self.deferrable = node.deferrable

    def pull(self, step: Step) -> Delta:
        """The changes of the output in this step."""
        raise TypeError(f"{type(self).__name__} does not say what it computes")

    def defer(self, step: Step) -> Delta | Deferred:
        """As `pull`; the changes are computed later where the node is deferrable."""
        return self.pull(step)

    def pool_filter(self) -> Attach | None:
        """The filter that a pool may match instead, together with those of other families."""
        return None

    def forget(self, queries: Ints) -> None:
        """Removes the state of dropped queries, here and below."""
        for child in self.children:
            child.forget(queries)

    def expire(self, step: Step) -> None:
        """Removes rows that no window needs at the clock `step.now`, here and below; they change no later answer."""
        for child in self.children:
            child.expire(step)

    def note(self) -> str:
        """A remark for EXPLAIN ANALYZE."""
        return "per query" if self.attached else "shared"

    def details(self) -> list[str]:
        """Further lines for EXPLAIN ANALYZE."""
        return []

    def indexes(self) -> Sequence[QueryIndex]:
        """The indexes of queries that it searches, not those of operators below."""
        return ()

    def sent(self, queries: Ints) -> SentRows | None:
        """The rows that it has sent to these queries, at least those that have not ended; None if it keeps none."""
        return None

    def size(self) -> int:
        """The number of rows in its state, without those of shared stores."""
        return 0

    def shared_stores(self) -> Sequence[StreamLog | StoredTable]:
        """The logs and tables that it reads and that other families may read too."""
        return ()

    def nbytes(self) -> int:
        """The bytes of its own state; logs and tables that families share are not counted."""
        return 0

    def save(self) -> dict[str, Saved]:
        return {}

    def load(self, saved: dict[str, pa.Table], functions: Functions) -> None:
        """Restores the state that `save` returned, in a new operator."""

    @property
    def restores_exactly(self) -> bool:
        """Whether it goes on, after `save`, like an operator that has loaded what it saved: the same changes, in the
        same order, and the same saved state.

        Another operator is replaced by a restored one when a host saves it whose steps must be repeatable."""
        return type(self).save is Operator.save

    def none(self) -> Delta:
        return empty(self.types, attached=self.attached)

    def walk(self) -> list[Operator]:
        """This operator and all below it, in a fixed order."""
        return [self, *(o for c in self.children for o in c.walk())]


def columns_for(delta: Delta, used: set[int]) -> list[pa.Array | None]:
    """The columns an expression needs, one value per change; the others are left out."""
    where = None if delta.rows is None else pa.array(delta.rows)
    return [None if i not in used else c if where is None else c.take(where) for i, c in enumerate(delta.columns)]
