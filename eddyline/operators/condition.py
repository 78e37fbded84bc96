"""A condition over columns and parameters, split into clauses that an index can answer and clauses to evaluate.

Clauses (`plan/normal_form.py`) whose atoms all compare an attribute with the query's own constants are
*ranged*: for many queries at once they are ranges of values, which a grouped filter indexes. The others are only
evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline import types as t
from eddyline.arrays import Ints, Mask
from eddyline.index.filters.clauses import Conditions, ValueRanges
from eddyline.operators.atoms import accepted_ranges
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.plan.atoms import Atom, atom, is_constant
from eddyline.plan.expressions import calls_functions, params_of
from eddyline.plan.normal_form import Clause, clauses
from eddyline.sql.bound import Call, Expr
from eddyline.state.query_table import QueryRows


@dataclass(frozen=True)
class RangedClause:
    atoms: tuple[tuple[int, Atom], ...]  # with the position of the attribute
    constants: tuple[Expr, ...]  # these depend on the query alone


class Condition:
    """`attributes` are the expressions compared; `checks` all clauses as expressions, those without functions first."""

    def __init__(self, condition: Expr | None) -> None:
        self.attributes: list[Expr] = []
        self.ranged: list[RangedClause] = []
        self.others = 0  # clauses that are not ranged
        parts = clauses(condition)
        for clause in parts:
            self._add(clause)
        self.checks = sorted((_as_expr(c) for c in parts), key=calls_functions)
        self.calls_functions = any(calls_functions(c) for c in self.checks)

    @classmethod
    def of_atoms(cls, atoms: Iterable[Atom]) -> Condition:
        """A conjunction of atoms, which is only indexed and never evaluated."""
        condition = cls(None)
        condition.ranged = [RangedClause(((condition._attribute(a.attribute), a),), ()) for a in atoms]
        return condition

    def _add(self, clause: Clause) -> None:
        atoms = [(expr, atom(expr)) for expr in clause]
        # a function may be redefined, so an index must not contain its results
        if any(calls_functions(expr) or (a is None and not is_constant(expr)) for expr, a in atoms):
            self.others += 1
            return
        placed = tuple((self._attribute(a.attribute), a) for _, a in atoms if a is not None)
        self.ranged.append(RangedClause(placed, tuple(expr for expr, a in atoms if a is None)))

    def _attribute(self, expr: Expr) -> int:
        if expr not in self.attributes:
            self.attributes.append(expr)
        return self.attributes.index(expr)

    def of_queries(self, queries: QueryRows, positions: Ints, functions: Functions) -> Conditions:
        """The ranges that the queries at these positions accept; query slots are in the order of the positions."""
        n = len(positions)
        partial = np.full(n, self.others > 0)
        required = np.full(n, len(self.ranged), np.int64)
        single: list[list[ValueRanges]] = [[] for _ in self.attributes]
        alternatives: list[list[ValueRanges]] = [[] for _ in self.attributes]
        ids = queries.ids_at(positions)

        def values(expr: Expr) -> pa.Array:
            return evaluate(expr, (), queries.params_at(params_of(expr), positions), n, functions, ids)

        for i, clause in enumerate(self.ranged):
            anyway = np.zeros(n, np.bool_)  # the clause holds for these queries for every row
            for constant in clause.constants:
                anyway |= values(constant).fill_null(False).to_numpy(zero_copy_only=False)
            required -= anyway
            of_clause = []
            for attribute, a in clause.atoms:
                accepted, partly = accepted_ranges(a, values, n)
                partial |= partly & ~anyway
                of_clause += [(attribute, _of_clause(r, i, anyway)) for r in accepted]
            one_each = len(of_clause) == 1 and all(a.op != "in_list" for _, a in clause.atoms)
            for attribute, ranges in of_clause:
                (single if one_each else alternatives)[attribute].append(ranges)
        merged = tuple(merged_ranges(parts) if parts else None for parts in alternatives)
        return Conditions(n, tuple(tuple(s) for s in single), merged, required, partial)


def _as_expr(clause: Clause) -> Expr:
    return clause[0] if len(clause) == 1 else Call("or", clause, t.BOOLEAN)


def _of_clause(ranges: ValueRanges, clause: int, anyway: Mask) -> ValueRanges:
    """The ranges of a clause without those of the queries for which it holds anyway."""
    if anyway.any():
        kept = np.nonzero(~anyway[ranges.owner])[0]
        taken = (c.take(pa.array(kept)) if isinstance(c, pa.Array) else c[kept] for c in ranges)
        ranges = ValueRanges._make(taken)
    return ranges._replace(clause=np.full(len(ranges.owner), clause, np.int64))


def merged_ranges(parts: Sequence[ValueRanges]) -> ValueRanges:
    columns = zip(*parts, strict=True)
    return ValueRanges(*(pa.concat_arrays(c) if isinstance(c[0], pa.Array) else np.concatenate(c) for c in columns))
