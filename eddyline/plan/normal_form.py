"""Conjunctive normal form of a condition: a conjunction of clauses, each a disjunction of atoms.

NOT is pushed down to the atoms, where it inverts comparisons; IN becomes one clause, NOT IN one clause per item. The
rewriting is exact for where a condition is *true*, because NULL counts as false at every atom. A condition whose normal
form would be too large stays one atom. (Document 1, section 3.2.7.)
"""

from __future__ import annotations

from itertools import product

from eddyline import types as t
from eddyline.sql.bound import Call, Expr

MOST_CLAUSES = 64
MOST_ATOMS = 256  # in all clauses together

Clause = tuple[Expr, ...]
_NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def clauses(condition: Expr | None) -> tuple[Clause, ...]:
    """The clauses of a condition; none for a condition that is always true."""
    return () if condition is None else _clauses(condition, negated=False)


def _clauses(expr: Expr, *, negated: bool) -> tuple[Clause, ...]:
    if not isinstance(expr, Call):
        return ((_atom(expr, negated=negated),),)
    match expr.function:
        case "not":
            return _clauses(expr.args[0], negated=not negated)
        case "and" | "or":
            parts = [_clauses(a, negated=negated) for a in expr.args]
            if (expr.function == "and") != negated:
                return _limited(tuple(c for p in parts for c in p), expr, negated=negated)
            size = 1
            for p in parts:
                size *= len(p)
            if size > MOST_CLAUSES:
                return ((_atom(expr, negated=negated),),)
            crossed = tuple(tuple(dict.fromkeys(a for c in choice for a in c)) for choice in product(*parts))
            return _limited(crossed, expr, negated=negated)
        case "in":
            subject, *items = expr.args
            atoms = tuple(dict.fromkeys(Call("ne" if negated else "eq", (subject, i), t.BOOLEAN) for i in items))
            return _limited(tuple((a,) for a in atoms) if negated else (atoms,), expr, negated=negated)
    return ((_atom(expr, negated=negated),),)


def _limited(result: tuple[Clause, ...], expr: Expr, *, negated: bool) -> tuple[Clause, ...]:
    small = len(result) <= MOST_CLAUSES and sum(len(c) for c in result) <= MOST_ATOMS
    return result if small else ((_atom(expr, negated=negated),),)


def _atom(expr: Expr, *, negated: bool) -> Expr:
    if not negated:
        return expr
    if isinstance(expr, Call) and expr.function in _NEGATED:
        return Call(_NEGATED[expr.function], expr.args, t.BOOLEAN)
    return Call("not", (expr,), t.BOOLEAN)
