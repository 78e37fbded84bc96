"""Pushes a negation below the joins of both its sides with the same inputs: (A ⋈ C) − (B ⋈ C) = (A − B) ⋈ C.

The reverse of `pull_up_negation`, for plans that the cost model finds cheaper: one join instead of two. Both sides must
be the same but for one input. Of that input, all columns that a side uses must be among its output columns: then rows
that are equal above come from equal rows of A and B, and the matches in C multiply both counts. Columns of C may be
dropped by the projection.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from eddyline import types as t
from eddyline.plan import nodes
from eddyline.plan.equalities import bare, respects_equality
from eddyline.plan.expressions import all_of, columns_of, conjuncts, move_columns
from eddyline.plan.nodes import Join, Negation, Node, Project, all_expressions
from eddyline.plan.selections import is_silent
from eddyline.sql.bound import Column, Expr, Output


def push_down_negation(node: Node) -> Node:
    if not isinstance(node, Negation):
        return node
    left, right = _side(node.left), _side(node.right)
    if left is None or right is None or len(left.join.inputs) != len(right.join.inputs):
        return node
    for position in range(len(left.join.inputs)):
        if _same_others(left.join, right.join, position):
            pushed = _pushed(left, right, position)
            if pushed is not None:
                return pushed
    return node


@dataclass(frozen=True)
class _Side:
    outputs: tuple[Output, ...]
    join: Join

    def span(self, position: int) -> range:
        start = sum(len(i.fields) for i in self.join.inputs[:position])
        return range(start, start + len(self.join.inputs[position].fields))

    @property
    def expressions(self) -> list[Expr]:
        return [*nodes.expressions(self.join), *(o.expr for o in self.outputs)]


def _side(node: Node) -> _Side | None:
    if not (isinstance(node, Project) and isinstance(node.input, Join)):
        return None
    side = _Side(node.outputs, node.input)
    silent = all(map(is_silent, [*side.expressions, *(e for i in node.input.inputs for e in all_expressions(i))]))
    return side if silent and all(map(respects_equality, side.expressions)) else None


def _pushed(left: _Side, right: _Side, position: int) -> Node | None:
    """The join over the negation, with the pairs of columns of A and B that one output column has."""
    pairs = list(dict.fromkeys(_pairs(left, right, position)))
    moved = [_moved(side, position, [p[n] for p in pairs]) for n, side in enumerate((left, right))]
    if not pairs or moved[0] is None or moved[1] is None:
        return None
    (condition, outputs), (other_condition, other_outputs) = moved[0], moved[1]
    if _bare(conjuncts(condition)) != _bare(conjuncts(other_condition)) or _bare(outputs) != _bare(other_outputs):
        return None
    span = left.span(position)
    floats = (t.is_float(left.join.fields[c].type) for o in left.outputs for c in columns_of(o.expr) if c not in span)
    if any(floats):  # the negation makes 0.0 and -0.0 equal; below, it does not see these columns
        return None
    names = [next(o.name for o in left.outputs if _column(o.expr) == a) for a, _ in pairs]
    sides = [_projected(side, position, [p[n] for p in pairs], names) for n, side in enumerate((left, right))]
    inputs = list(left.join.inputs)
    inputs[position] = Negation(*sides)
    join = Join(tuple(inputs), condition)
    return Project(join, tuple(replace(o, expr=e) for o, e in zip(left.outputs, outputs, strict=True)))


def _pairs(left: _Side, right: _Side, position: int) -> list[tuple[int, int]]:
    columns = ((_column(a.expr), _column(b.expr)) for a, b in zip(left.outputs, right.outputs, strict=True))
    spans = left.span(position), right.span(position)
    return [(a, b) for a, b in columns if a is not None and b is not None and a in spans[0] and b in spans[1]]


def _moved(side: _Side, position: int, own: list[int]) -> tuple[Expr | None, list[Expr]] | None:
    """The condition and the outputs over the new join, where the columns `own` are the whole input at `position`; None
    if they use others of it."""
    span = side.span(position)
    if any(c in span and c not in own for e in side.expressions for c in columns_of(e)):
        return None

    def to(c: int) -> int:
        if c in span:
            return span.start + own.index(c)
        return c if c < span.start else c - len(span) + len(own)

    condition = all_of(move_columns(part, to) for part in conjuncts(side.join.condition))
    return condition, [move_columns(o.expr, to) for o in side.outputs]


def _projected(side: _Side, position: int, own: list[int], names: list[str]) -> Project:
    child, start = side.join.inputs[position], side.span(position).start
    columns = (Column(c - start, child.fields[c - start].type, child.fields[c - start].name) for c in own)
    return Project(child, tuple(Output(name, column) for name, column in zip(names, columns, strict=True)))


def _same_others(left: Join, right: Join, position: int) -> bool:
    pairs = zip(left.inputs, right.inputs, strict=True)
    return all(n == position or _anonymous(a) == _anonymous(b) for n, (a, b) in enumerate(pairs))


def _anonymous(node: Node) -> object:
    """What a node computes, without the names of relations and columns: a tree that can be compared."""
    match node:
        case nodes.Stream():
            own: object = replace(node.source, alias="", fields=())
        case nodes.Table():
            own = replace(node.source, alias="", fields=())
        case nodes.GroupBy():
            own = tuple(a.function for a in node.aggregates), len(node.keys)
        case _:
            own = ()
    expressions = _bare(nodes.expressions(node))
    return type(node), own, expressions, tuple(map(_anonymous, node.inputs))


def _column(expr: Expr) -> int | None:
    return expr.index if isinstance(expr, Column) else None


def _bare(exprs: list[Expr]) -> tuple[Expr, ...]:
    return tuple(map(bare, exprs))
