"""Logical plan nodes: frozen, typed, and checked when built. They say what is computed; physical nodes say how.

Columns are positions in the input; a join concatenates the columns of its inputs. `label` in `patterns.py` derives the
update pattern of a node's output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from eddyline import types as t
from eddyline.sql.bound import Aggregate, Column, Expr, Field, Output, StreamSource, TableSource, Window, walk


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream through its window."""

    source: StreamSource
    inputs: ClassVar[tuple[Node, ...]] = ()

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.source.fields

    @property
    def window(self) -> Window:
        return self.source.window


@dataclass(frozen=True, slots=True)
class Table:
    source: TableSource
    inputs: ClassVar[tuple[Node, ...]] = ()

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.source.fields


@dataclass(frozen=True, slots=True)
class _Unary:
    """A node with one input; unless it says otherwise, its output has the columns of the input."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


@dataclass(frozen=True, slots=True)
class Select(_Unary):
    condition: Expr

    def __post_init__(self) -> None:
        _check([self.condition], self.input.fields)


@dataclass(frozen=True, slots=True)
class Project(_Unary):
    outputs: tuple[Output, ...]

    def __post_init__(self) -> None:
        _check([o.expr for o in self.outputs], self.input.fields)

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(o.name, o.expr.type) for o in self.outputs)


@dataclass(frozen=True, slots=True)
class Distinct(_Unary):
    """Every row once."""


@dataclass(frozen=True, slots=True)
class GroupBy(_Unary):
    """Groups by `keys`; without keys there is exactly one group, even over no rows. Output: keys, then aggregates."""

    keys: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]

    def __post_init__(self) -> None:
        _check(expressions(self), self.input.fields)

    @property
    def fields(self) -> tuple[Field, ...]:
        keys = tuple(Field(e.name if isinstance(e, Column) else f"key{i}", e.type) for i, e in enumerate(self.keys))
        return keys + tuple(Field(a.function, a.type) for a in self.aggregates)


@dataclass(frozen=True, slots=True)
class Join:
    """A join of any arity on any condition; `condition` is None for a cross product."""

    inputs: tuple[Node, ...]
    condition: Expr | None

    def __post_init__(self) -> None:
        assert len(self.inputs) >= 2, "a join has at least two inputs"
        _check(expressions(self), self.fields)

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(f for i in self.inputs for f in i.fields)


@dataclass(frozen=True, slots=True)
class TableJoin:
    """A join with a table: retroactive (a change revises earlier results) or not (it affects later arrivals only)."""

    input: Node
    table: Table
    condition: Expr | None

    def __post_init__(self) -> None:
        _check(expressions(self), self.fields)

    @property
    def kind(self) -> Literal["retroactive", "non-retroactive"]:
        return "retroactive" if self.table.source.retroactive else "non-retroactive"

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input, self.table)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields + self.table.fields


@dataclass(frozen=True, slots=True)
class Union:
    inputs: tuple[Node, ...]

    def __post_init__(self) -> None:
        _same_types(self.inputs)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.inputs[0].fields


@dataclass(frozen=True, slots=True)
class _SetOperation:
    left: Node
    right: Node

    def __post_init__(self) -> None:
        _same_types(self.inputs)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.left.fields


@dataclass(frozen=True, slots=True)
class Intersect(_SetOperation):
    """Bag intersection: the smaller multiplicity."""


@dataclass(frozen=True, slots=True)
class Negation(_SetOperation):
    """Bag difference: the multiplicity on the left less that on the right, if positive (document 3, equation 1)."""


Node = Stream | Table | Select | Project | Join | TableJoin | Union | Intersect | Negation | Distinct | GroupBy


def expressions(node: Node) -> list[Expr]:
    """The expressions of a node itself, not of its inputs."""
    match node:
        case Stream():
            return [] if node.window.size is None else [node.window.size]
        case Select():
            return [node.condition]
        case Join() | TableJoin():
            return [] if node.condition is None else [node.condition]
        case Project():
            return [o.expr for o in node.outputs]
        case GroupBy():
            return [*node.keys, *(a.argument for a in node.aggregates if a.argument is not None)]
        case Table() | Union() | Intersect() | Negation() | Distinct():
            return []


def all_expressions(node: Node) -> list[Expr]:
    """The expressions of a node and of everything below it."""
    return expressions(node) + [e for i in node.inputs for e in all_expressions(i)]


def _check(exprs: Sequence[Expr], fields: tuple[Field, ...]) -> None:
    for e in (e for expr in exprs for e in walk(expr) if isinstance(e, Column)):
        assert e.index < len(fields), f"column {e.index} of {len(fields)}"
        assert fields[e.index].type == e.type, f"{e.name} is {fields[e.index].type}, not {e.type}"


def _same_types(inputs: tuple[Node, ...]) -> None:
    first = [f.type for f in inputs[0].fields]
    for other in inputs[1:]:
        types = [f.type for f in other.fields]
        assert types == first, f"{[t.name_of(x) for x in types]} beside {[t.name_of(x) for x in first]}"
