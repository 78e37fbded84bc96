"""Equivalence classes of expressions, and rewriting of an expression to other columns of equal value.

`Equalities` holds disjoint classes of expressions over the columns of one node. The members of a class are equal, in
the sense of `=` and GROUP BY, in every row that can reach a result: the selection or join that a class comes from
drops all other rows above. Columns have no names here, so that expressions compare equal by position.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

from eddyline import types as t
from eddyline.plan.expressions import calls_functions, columns_of, conjuncts, move_columns, with_columns
from eddyline.sql.bound import Call, Column, Expr, walk

MOST_FORMS = 16  # equal forms of one expression that are tried


@dataclass(frozen=True, slots=True)
class Equalities:
    classes: tuple[tuple[Expr, ...], ...] = ()

    def having(self, condition: Expr | None) -> Equalities:
        """These equalities and those that a condition demands."""
        classes = self.classes
        for a, b in equalities(condition):
            one = next((c for c in classes if a in c), (a,))
            other = next((c for c in classes if b in c), (b,))
            classes = (*(c for c in classes if c not in (one, other)), distinct(one + other))
        return Equalities(classes)

    def within(self, start: int, stop: int) -> Equalities:
        """The equalities among the columns of one input of a join, which are columns `start` to `stop` of the join."""
        inside = [[m for m in c if _inside(m, start, stop)] for c in self.classes]
        moved = [tuple(move_columns(m, lambda i: i - start) for m in c) for c in inside]
        return Equalities(tuple(c for c in moved if len(c) > 1))

    def below(self, exprs: Sequence[Expr]) -> Equalities:
        """The equalities among the first columns, with each column replaced by the expression that computes it."""
        inside = [[m for m in c if _inside(m, 0, len(exprs))] for c in self.classes]
        return Equalities(tuple(distinct(inlined(m, exprs) for m in c) for c in inside if len(c) > 1))

    def forms(self, expr: Expr, start: int, stop: int) -> list[Expr]:
        """Equal forms of an expression that use only the columns from `start` to `stop`."""
        forms = [expr, *(m for c in self.classes if expr in c for m in c)]
        if isinstance(expr, Call) and respects_equality(expr):
            choices = product(*(self.forms(a, start, stop) for a in expr.args))
            forms += [replace(expr, args=args) for args in islice(choices, MOST_FORMS)]
        return list(distinct(f for f in forms if _inside(f, start, stop)))[:MOST_FORMS]


def equalities(condition: Expr | None) -> list[tuple[Expr, Expr]]:
    """The pairs of expressions that a condition demands to be equal, if both respect equality."""
    return [
        (bare(part.args[0]), bare(part.args[1]))
        for part in conjuncts(condition)
        if isinstance(part, Call) and part.function in ("eq", "same") and respects_equality(part)
    ]


def respects_equality(expr: Expr) -> bool:
    """Whether equal columns always give equal values. Not if a float is printed (-0.0 equals 0.0 but prints
    differently), and not if a user's function is called (its results may differ from call to call)."""
    prints = any(
        isinstance(e, Call) and e.function == "cast" and e.type == t.STRING and t.is_float(e.args[0].type)
        for e in walk(expr)
    )
    return not prints and not calls_functions(expr)


def bare(expr: Expr) -> Expr:
    """The same expression over columns without names."""
    return with_columns(expr, lambda column: replace(column, name=""))


def inlined(expr: Expr, exprs: Sequence[Expr]) -> Expr:
    """An expression with each column replaced by the expression that computes it."""
    return with_columns(expr, lambda column: exprs[column.index])


def outward(expr: Expr, exprs: Sequence[Expr]) -> Expr | None:
    """The reverse of `inlined`: an expression over the columns that `exprs` compute; None if there is none."""
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
