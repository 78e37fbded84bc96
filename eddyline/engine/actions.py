"""Actions: the changes of the catalog. A session makes them, definitions apply them, a pipeline's log stores them.

Actions are physical: a query is a row of constants in the table of a numbered family, so that a million queries are a
few columns. `Definitions.apply` is the only place that interprets them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.plan.rules import Generation
from eddyline.sql.catalog import KINDS, RelationKind, Sink, Stream, Table, View
from eddyline.sql.scope import InLists

if TYPE_CHECKING:
    from eddyline.engine.family import Family

Result = TypeVar("Result")
Relation = Stream | Table | View | Sink
FamilyKind = Literal["declared", "implicit", "view"]


@dataclass(frozen=True)
class Define:
    """Defines a stream, table, view or sink by its statement. `relation` is the bound relation, in the process that
    bound the statement."""

    sql: str
    relation: Relation | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Undefine:
    kind: RelationKind
    name: str


@dataclass(frozen=True)
class DefineFunction:
    """A user's function. `body` is the function itself in-process, and its pickle in a pipeline."""

    name: str
    takes: tuple[str, ...]
    gives: str
    body: Any
    kind: str = "scalar"  # or arrow, pandas


@dataclass(frozen=True)
class NewFamily:
    """Creates a family by its statement. `family` is the family itself, in the process that built it."""

    number: int
    name: str
    kind: FamilyKind
    sql: str
    in_lists: InLists = "items"  # parameters of a long IN list: one per item (the default of old commits), or one list
    rules: Generation = 1  # the rewrite rules of its plan; old commits do not say which
    family: Family | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class RemoveFamily:
    number: int


class AddQuery(NamedTuple):
    """Adds one query; its id is the family's next one. Its values have the types of the parameters."""

    family: int
    name: str
    values: Sequence[Any]


@dataclass(frozen=True)
class AddQueries:
    """Adds rows to a family's query table; their ids are the family's next ones."""

    family: int
    names: pa.Array
    params: tuple[pa.Array, ...]


@dataclass(frozen=True)
class LoadQueries:
    """All queries of a family, in a snapshot."""

    family: int
    next_id: int
    ids: Ints
    names: pa.Array
    params: tuple[pa.Array, ...]


class DropQuery(NamedTuple):
    family: int
    id: int
    name: str


@dataclass(frozen=True)
class DropQueries:
    family: int
    ids: Ints


@dataclass(frozen=True)
class ChangeTable:
    """Changes a table without a source: positions of the deleted rows, then the inserted rows."""

    table: str
    gone: Ints
    new: tuple[pa.Array, ...]


@dataclass(frozen=True)
class FixCells:
    """The cell width of a family that is split by range; its first queries determine it, and it never changes."""

    family: int
    width: float


@dataclass(frozen=True)
class SplitQueries:
    """A family is split by queries: a bucket has those whose id modulo the number of buckets is its number."""

    family: int


@dataclass(frozen=True)
class Quarantine:
    """Queries that failed: they keep their names and get no changes until they are resumed."""

    family: int
    ids: tuple[int, ...]
    error: str


@dataclass(frozen=True)
class NextFamily:
    """The number of the next family, in a snapshot."""

    number: int


@dataclass(frozen=True)
class ScriptRun:
    """A statement of the pipeline's script that has been applied, by the digest of its text."""

    digest: str


Split = FixCells | SplitQueries


def apply_whole(actions: Sequence[Action], apply: Callable[[Action], Result]) -> list[Result]:
    """Applies the actions of one statement: all, or none if one fails. Returns what `apply` returns for each."""
    results: list[Result] = []
    for i, action in enumerate(actions):
        try:
            results.append(apply(action))
        except BaseException:
            for undo in _undoing(actions[:i]):
                apply(undo)
            raise
    return results


def _undoing(actions: Sequence[Action]) -> list[Action]:
    """The actions that undo the first actions of a statement, for when a later one fails."""
    undo: list[Action] = []
    for action in actions:
        if isinstance(action, NewFamily):
            undo.append(RemoveFamily(action.number))
        elif isinstance(action, Define) and action.relation is not None:
            undo.append(Undefine(KINDS[type(action.relation)], action.relation.name))
    return undo[::-1]


RelationAction = Define | Undefine | DefineFunction | ChangeTable
FamilyAction = NewFamily | RemoveFamily | Split | NextFamily
QueryAction = AddQuery | AddQueries | LoadQueries | DropQuery | DropQueries | Quarantine
Action = RelationAction | FamilyAction | QueryAction | ScriptRun
