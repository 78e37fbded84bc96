"""Guesses of how many rows a condition keeps, from distinct counts; without them, those of System R.

An equality keeps 1 of d rows, where d is the larger distinct count of its two sides. (P. G. Selinger et al.: Access
path selection in a relational database management system. SIGMOD 1979, section 4.)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from eddyline.plan.expressions import columns_of
from eddyline.sql.bound import Call, Column, Expr

EQUAL_TO_CONSTANT = 1 / 10
RANGE = 1 / 3
OTHER = 1 / 2
Counts = Sequence[float | None]  # distinct counts by column; None: unknown


def selectivity(condition: Expr, distinct: Counts, rows: Sequence[float]) -> float:
    """The fraction of rows that a condition keeps. `rows`: by column, the expected size of the input that it is of."""
    if not isinstance(condition, Call):
        return OTHER
    match condition.function:
        case "and":
            return prod(selectivity(a, distinct, rows) for a in condition.args)
        case "or":
            return 1 - prod(1 - selectivity(a, distinct, rows) for a in condition.args)
        case "not":
            return 1 - selectivity(condition.args[0], distinct, rows)
        case "eq" | "same":
            return _equality(condition.args, distinct, rows)
        case "in":
            return min(OTHER, (len(condition.args) - 1) * _equality(condition.args[:2], distinct, rows))
        case "lt" | "le" | "gt" | "ge":
            return RANGE
        case "is_null" | "like":
            return EQUAL_TO_CONSTANT
        case _:
            return OTHER


def _equality(sides: Sequence[Expr], distinct: Counts, rows: Sequence[float]) -> float:
    counts = [distinct_count(side, distinct) for side in sides if columns_of(side)]
    if len(counts) < 2:
        return EQUAL_TO_CONSTANT if not counts or counts[0] is None else 1 / max(1.0, counts[0])
    sizes = [min(rows[i] for i in columns_of(side)) for side in sides]
    return 1 / max(1.0, *(n if d is None else d for d, n in zip(counts, sizes, strict=True)))


def distinct_count(expr: Expr, distinct: Counts) -> float | None:
    """How many values an expression has at most; None: unknown."""
    if isinstance(expr, Column):
        return distinct[expr.index]
    known = [d for d in (distinct[i] for i in sorted(columns_of(expr))) if d is not None]
    return prod(known) if len(known) == len(columns_of(expr)) else None
