"""Pulls a negation above a join: (A − B) ⋈ C = (A ⋈ C) − (B ⋈ C). (Document 3, section 5.4.2.)

By multiplicity: a row (a, c) is in the result (A(a) − B(a)) · C(c) = A(a) · C(c) − B(a) · C(c) times. Columns of C that
nothing above uses can be dropped before rows are counted, because the same factor then multiplies both sides; columns
of A and B cannot. The document's own form, (A ⋈ C) − B, is not equivalent: with two copies of a value in A, one in B
and three in C, it has 5 rows instead of 3.

The joins no longer process retractions, but there are two of them, and C is read twice. So the rule is for plans that
the cost model finds cheaper, and does not apply where C or the condition would be evaluated twice with effects that
users see (calls, overflows), or where counting would make rows of C equal that are told apart now (0.0 and -0.0).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

from eddyline import types as t
from eddyline.plan import nodes
from eddyline.plan.equalities import inlined, respects_equality
from eddyline.plan.expressions import all_of, columns_of, conjuncts, move_columns, params_of
from eddyline.plan.nodes import GroupBy, Join, Negation, Node, Project, all_expressions
from eddyline.plan.selections import is_silent
from eddyline.sql.bound import Column, Expr, Output


def pull_up_negation(node: Node) -> Node:
    if not (isinstance(node, Project | GroupBy) and isinstance(node.input, Join)):
        return node
    join = node.input
    for position, child in enumerate(join.inputs):
        below = child.input if isinstance(child, Project) else child
        if isinstance(below, Negation):
            pulled = _pulled(node, join, position, below)
            if pulled is not None:
                return pulled
    return node


def _pulled(node: Project | GroupBy, join: Join, position: int, negation: Negation) -> Node | None:
    child, others = join.inputs[position], [i for n, i in enumerate(join.inputs) if n != position]
    computed = [o.expr for o in child.outputs] if isinstance(child, Project) else list[Expr](_columns(negation))
    start = sum(len(i.fields) for i in join.inputs[:position])
    stop = start + len(child.fields)
    kept = sorted({c for e in nodes.expressions(node) for c in columns_of(e) if not start <= c < stop})
    evaluated = [*nodes.expressions(join), *computed, *(e for i in others for e in all_expressions(i))]
    if not all(map(is_silent, evaluated)) or not all(map(respects_equality, [*nodes.expressions(join), *computed])):
        return None
    if any(t.is_float(join.fields[c].type) for c in kept):
        return None
    sides = [_side(join, position, side, computed, kept) for side in negation.inputs]
    above = list[Expr](_columns(join))
    above[start:stop] = computed  # over the columns of the negation, which come first
    for n, c in enumerate(kept, start=len(negation.fields)):
        above[c] = replace(_columns(join)[c], index=n)
    return _over(node, Negation(*sides), above)


def _side(join: Join, position: int, side: Node, computed: list[Expr], kept: list[int]) -> Project:
    """The join with one side of the negation in its place: all columns of the side, and of the others those kept."""
    flat = _flattened(side)
    before, after = join.inputs[:position], join.inputs[position + 1 :]
    inputs = (*before, *flat.inputs, *after)
    start = sum(len(i.fields) for i in before)
    width, replaced = sum(len(i.fields) for i in flat.inputs), len(join.inputs[position].fields)
    own = [move_columns(e, lambda c: c + start) for e in flat.columns]
    at = [c if c < start else c - replaced + width for c in range(len(join.fields))]
    exprs: list[Expr] = [replace(column, index=at[n]) for n, column in enumerate(_columns(join))]
    exprs[start : start + replaced] = [inlined(e, own) for e in computed]
    moved = [move_columns(e, lambda c: c + start) for e in flat.conditions]
    condition = all_of([*moved, *(inlined(part, exprs) for part in conjuncts(join.condition))])
    outputs = [Output(f.name, e) for f, e in zip(side.fields, own, strict=True)]
    outputs += [Output(join.fields[c].name, exprs[c]) for c in kept]
    return Project(Join(inputs, condition), tuple(outputs))


@dataclass(frozen=True)
class _Flat:
    """A node as the join of `inputs` under `conditions`, and its columns as expressions over theirs."""

    inputs: tuple[Node, ...]
    conditions: list[Expr]
    columns: list[Expr]


def _flattened(node: Node) -> _Flat:
    """Projections move above the new join, and a join becomes part of it, so that its inputs stay bare streams."""
    if isinstance(node, Project):
        below = _flattened(node.input)
        if all(is_silent(o.expr) and not params_of(o.expr) for o in node.outputs):
            return _Flat(below.inputs, below.conditions, [inlined(o.expr, below.columns) for o in node.outputs])
    if isinstance(node, Join) and all(map(is_silent, nodes.expressions(node))):
        return _Flat(node.inputs, conjuncts(node.condition), list(_columns(node)))
    return _Flat((node,), [], list(_columns(node)))


def _over(node: Project | GroupBy, below: Node, exprs: list[Expr]) -> Node:
    """The node over another input, in which these expressions compute the columns of the former one."""
    if isinstance(node, Project):
        return Project(below, tuple(replace(o, expr=inlined(o.expr, exprs)) for o in node.outputs))
    aggregates = (
        replace(a, argument=None if a.argument is None else inlined(a.argument, exprs)) for a in node.aggregates
    )
    return GroupBy(below, tuple(inlined(k, exprs) for k in node.keys), tuple(aggregates))


def _columns(node: Node) -> list[Column]:
    """All columns of a node; those of a join with the name of their input's relation."""
    if not isinstance(node, Join):
        return [Column(n, f.type, f.name) for n, f in enumerate(node.fields)]
    starts = accumulate((len(i.fields) for i in node.inputs), initial=0)
    return [
        Column(start + n, f.type, f"{alias}.{f.name}" if alias else f.name)
        for start, i in zip(starts, node.inputs, strict=False)
        for alias in [_alias(i)]
        for n, f in enumerate(i.fields)
    ]


def _alias(node: Node) -> str:
    while isinstance(node, nodes.Select):
        node = node.input
    return node.source.alias if isinstance(node, nodes.Stream | nodes.Table) else ""
