"""Which expressions are equal in every row that counts, and how one expression is said by another's columns.

`Equalities` holds disjoint classes of expressions over the columns of one node. The members of a class are equal, as
`=` and GROUP BY mean it, in every row of the node that some query may still see: a row that breaks a class is dropped
above, by the selection or join that the class comes from. Columns are bare: without names, so that equal is equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

from eddyline import types as t
from eddyline.plan.expressions import calls_functions, columns_of, conjuncts, move_columns
from eddyline.sql.bound import Call, Column, Expr, walk

MOST_FORMS = 16  # ways to say one expression; more are not looked for


@dataclass(frozen=True, slots=True)
class Equalities:
    classes: tuple[tuple[Expr, ...], ...] = ()

    def having(self, condition: Expr | None) -> Equalities:
        """Those of a condition too."""
        classes = self.classes
        for a, b in equalities(condition):
            one = next((c for c in classes if a in c), (a,))
            other = next((c for c in classes if b in c), (b,))
            classes = (*(c for c in classes if c not in (one, other)), distinct(one + other))
        return Equalities(classes)

    def within(self, start: int, stop: int) -> Equalities:
        """Those among the columns of one input of a join, which stand from `start` to `stop`."""
        inside = [[m for m in c if _inside(m, start, stop)] for c in self.classes]
        moved = [tuple(move_columns(m, lambda i: i - start) for m in c) for c in inside]
        return Equalities(tuple(c for c in moved if len(c) > 1))

    def below(self, exprs: Sequence[Expr]) -> Equalities:
        """Those that concern the first columns, each said by the expression that makes it."""
        inside = [[m for m in c if _inside(m, 0, len(exprs))] for c in self.classes]
        return Equalities(tuple(distinct(inlined(m, exprs) for m in c) for c in inside if len(c) > 1))

    def forms(self, expr: Expr, start: int, stop: int) -> list[Expr]:
        """Ways to say an expression by the columns from `start` to `stop` alone."""
        found = [expr, *(m for c in self.classes if expr in c for m in c)]
        if isinstance(expr, Call) and respects_equality(expr):
            choices = product(*(self.forms(a, start, stop) for a in expr.args))
            found += [replace(expr, args=args) for args in islice(choices, MOST_FORMS)]
        return list(distinct(f for f in found if _inside(f, start, stop)))[:MOST_FORMS]


def equalities(condition: Expr | None) -> list[tuple[Expr, Expr]]:
    """The pairs that a condition demands to be equal, where no two equal rows can differ about it."""
    found = []
    for part in conjuncts(condition):
        if isinstance(part, Call) and part.function in ("eq", "same") and respects_equality(part):
            found.append((bare(part.args[0]), bare(part.args[1])))
    return found


def respects_equality(expr: Expr) -> bool:
    """Whether equal columns give equal values: -0.0 equals 0.0 but does not print alike, and what a user's function
    gives may differ from call to call."""
    prints = any(
        isinstance(e, Call) and e.function == "cast" and e.type == t.STRING and t.is_float(e.args[0].type)
        for e in walk(expr)
    )
    return not prints and not calls_functions(expr)


def bare(expr: Expr) -> Expr:
    """The same expression over columns without names."""
    if isinstance(expr, Column):
        return replace(expr, name="")
    return replace(expr, args=tuple(bare(a) for a in expr.args)) if isinstance(expr, Call) else expr


def inlined(expr: Expr, exprs: Sequence[Expr]) -> Expr:
    """An expression over columns, with each column replaced by the expression that makes it."""
    if isinstance(expr, Column):
        return exprs[expr.index]
    return replace(expr, args=tuple(inlined(a, exprs) for a in expr.args)) if isinstance(expr, Call) else expr


def outward(expr: Expr, exprs: Sequence[Expr]) -> Expr | None:
    """The reverse of `inlined`: an expression said by columns that `exprs` make, or None if they do not tell it."""
    for i, e in enumerate(exprs):
        if e == expr:
            return Column(i, e.type, "")
    if isinstance(expr, Column):
        return None
    if not isinstance(expr, Call):
        return expr
    args = [outward(a, exprs) for a in expr.args]
    return replace(expr, args=tuple(a for a in args if a is not None)) if None not in args else None


def distinct(exprs: Iterable[Expr]) -> tuple[Expr, ...]:
    """Without repeats, in order of first appearance."""
    return tuple(dict.fromkeys(exprs))


def _inside(expr: Expr, start: int, stop: int) -> bool:
    return all(start <= i < stop for i in columns_of(expr))
