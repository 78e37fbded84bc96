"""Eliminates duplicates before a join instead of after it: δ(π(A ⋈ C)) = δ(π(A)) ⋈ δ(π(C)). (Document 3, 5.4.2.)

Every output column must come from one input, every input must have one, and the join conditions must be expressions
over output columns: then each pair of different rows of the inputs makes one output row. A column that the projection
drops may be used in an equality with a kept one, which determines it. The join then processes each value once, but
keeps its inputs itself instead of reading the logs of streams: the rule is for plans that the cost model finds cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import add
from typing import TypeGuard

from eddyline.plan.equalities import bare, inlined, outward, respects_equality
from eddyline.plan.expressions import all_of, columns_of, conjuncts, move_columns, params_of, text
from eddyline.plan.nodes import Distinct, Join, Node, Project
from eddyline.plan.selections import is_silent
from eddyline.sql.bound import Call, Column, Expr, Output


def push_down_duplicate_elimination(node: Node) -> Node:
    if not (isinstance(node, Distinct) and isinstance(node.input, Project) and isinstance(node.input.input, Join)):
        return node
    join, outputs, conditions = node.input.input, node.input.outputs, conjuncts(node.input.input.condition)
    inputs_of = partial(_inputs_of, join)
    evaluated = [*(o.expr for o in outputs), *conditions]
    if any(params_of(o.expr) for o in outputs) or not all(is_silent(e) and respects_equality(e) for e in evaluated):
        return node
    kept = _with_determined([o.expr for o in outputs], [c for c in conditions if _is_equality(c)], inputs_of)
    sides = [inputs_of(e) for e in kept]
    if any(len(side) != 1 for side in sides) or set.union(*sides) != set(range(len(join.inputs))):
        return node
    above = [outward(bare(part), [bare(e) for e in kept]) for part in conditions]
    if None in above:
        return node
    order = sorted(range(len(kept)), key=lambda n: (min(sides[n]), n))  # of columns in the new join
    columns = [Column(order.index(n), e.type, text(e)) for n, e in enumerate(kept)]
    names = [*(o.name for o in outputs), *(text(e) for e in kept[len(outputs) :])]
    inputs = []
    for i, child in enumerate(join.inputs):
        start = sum(len(x.fields) for x in join.inputs[:i])
        own = [Output(names[n], move_columns(kept[n], partial(add, -start))) for n in order if sides[n] == {i}]
        inputs.append(Distinct(Project(child, tuple(own))))
    condition = all_of(inlined(part, columns) for part in above if part is not None)
    return Project(Join(tuple(inputs), condition), tuple(replace(o, expr=columns[n]) for n, o in enumerate(outputs)))


def _with_determined(
    kept: Sequence[Expr], equalities: Sequence[Call], inputs_of: Callable[[Expr], set[int]]
) -> list[Expr]:
    """The kept expressions, and those over one input that equalities with them determine."""
    known = list(kept)
    for _ in equalities:  # one may be determined by another
        for given, other in (sides for e in equalities for sides in (e.args, e.args[::-1])):
            determined = _is_known(given, known) and not _is_known(other, known) and not params_of(other)
            if determined and len(inputs_of(other)) == 1:
                known.append(other)
    return known


def _is_known(expr: Expr, known: Sequence[Expr]) -> bool:
    return bool(columns_of(expr)) and outward(bare(expr), [bare(e) for e in known]) is not None


def _is_equality(condition: Expr) -> TypeGuard[Call]:
    """Whether one side of a condition determines the other: of `a <=> b` too, where NULL equals NULL."""
    return isinstance(condition, Call) and condition.function in ("eq", "same")


def _inputs_of(join: Join, expr: Expr) -> set[int]:
    of_column = [n for n, i in enumerate(join.inputs) for _ in i.fields]
    return {of_column[c] for c in columns_of(expr)}
