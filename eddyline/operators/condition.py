"""A condition over columns and parameters, taken apart: what an index can answer, and what is left to evaluate.

Of its clauses (`plan/normal_form.py`) those whose atoms all compare an attribute with the query's own constants are
*ranged*: for many queries at once they are the terms of a grouped filter. The others are only evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline import types as t
from eddyline.families.queries import QueryRows
from eddyline.index.grouped_filter import Ranges, Terms
from eddyline.operators.atoms import Atom, Flags, Ints, Piece, atom, is_constant, pieces
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.plan.expressions import params_of
from eddyline.plan.normal_form import Clause, clauses
from eddyline.sql.bound import Call, Expr, walk


@dataclass(frozen=True)
class RangedClause:
    atoms: tuple[tuple[int, Atom], ...]  # with the number of the attribute
    constants: tuple[Expr, ...]  # true or not for a query as a whole


class Condition:
    """`attributes` are the expressions compared; `checks` all clauses as expressions, those without functions first."""

    def __init__(self, condition: Expr | None) -> None:
        self.attributes: list[Expr] = []
        self.ranged: list[RangedClause] = []
        self.others = 0  # clauses that are not ranged
        found = clauses(condition)
        for clause in found:
            self._take_in(clause)
        self.checks = sorted((_as_expr(c) for c in found), key=calls_functions)
        self.calls_functions = any(calls_functions(c) for c in self.checks)

    def _take_in(self, clause: Clause) -> None:
        atoms = [(expr, atom(expr)) for expr in clause]
        if any(a is None and not is_constant(expr) for expr, a in atoms):
            self.others += 1
            return
        placed = tuple((self._attribute(a.attribute), a) for _, a in atoms if a is not None)
        self.ranged.append(RangedClause(placed, tuple(expr for expr, a in atoms if a is None)))

    def _attribute(self, expr: Expr) -> int:
        if expr not in self.attributes:
            self.attributes.append(expr)
        return self.attributes.index(expr)

    def terms(self, queries: QueryRows, positions: Ints, functions: Functions) -> Terms:
        """What the queries at some positions accept; they are numbered as the positions are."""
        n = len(positions)
        partial = np.full(n, self.others > 0)
        required = np.full(n, len(self.ranged), np.int64)
        parts: list[list[tuple[int, Piece]]] = [[] for _ in self.attributes]
        ids = queries.ids_at(positions)

        def values(expr: Expr) -> pa.Array:
            return evaluate(expr, (), queries.params_at(params_of(expr), positions), n, functions, ids)

        for number, clause in enumerate(self.ranged):
            holds_anyway = np.zeros(n, np.bool_)
            for constant in clause.constants:
                holds_anyway |= values(constant).fill_null(False).to_numpy(zero_copy_only=False)
            required -= holds_anyway
            for attribute, a in clause.atoms:
                found, partly = pieces(a, values, n)
                partial |= partly & ~holds_anyway
                parts[attribute] += [(number, _without(p, holds_anyway)) for p in found]
        ranges = tuple(_ranges(p, e.type == t.STRING) for p, e in zip(parts, self.attributes, strict=True))
        return Terms(n, ranges, required, partial)


def calls_functions(expr: Expr) -> bool:
    """Whether evaluating it calls a function of the user's."""
    return any(isinstance(e, Call) and e.function.startswith("udf:") for e in walk(expr))


def _as_expr(clause: Clause) -> Expr:
    return clause[0] if len(clause) == 1 else Call("or", clause, t.BOOLEAN)


def _without(piece: Piece, gone: Flags) -> Piece:
    if not gone.any():
        return piece
    kept = np.nonzero(~gone[piece.which])[0]
    some = [x.take(pa.array(kept)) if isinstance(x, pa.Array) else x[kept] for x in _columns(piece)]
    return Piece(*some)


def _columns(piece: Piece) -> list[Ints | pa.Array | Flags]:
    return [piece.which, piece.start, piece.stop, piece.no_start, piece.no_stop, piece.null]


def _ranges(parts: Sequence[tuple[int, Piece]], text: bool) -> Ranges:
    clause = np.concatenate([np.full(len(p.which), c, np.int32) for c, p in parts])
    which, start, stop, no_start, no_stop, null = (_joined(c) for c in zip(*(_columns(p) for _, p in parts), strict=True))
    return Ranges(which.astype(np.int32), clause, start, stop, no_start, no_stop, null)


def _joined(parts: Sequence[Ints | pa.Array | Flags]) -> Ints | pa.Array | Flags:
    return pa.concat_arrays(parts) if isinstance(parts[0], pa.Array) else np.concatenate(parts)
