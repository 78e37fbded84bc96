"""Evaluates the clauses of a condition for pairs (change, query), one clause after the other, in the eddy's order.

A clause that calls functions is evaluated once for rows that agree in its inputs: of joined rows, once for each tuple
that it reads; for stored tuples, not again in later steps (`remembered_calls.py`). Its measured cost and the share of
pairs that it rejects decide its place, as for any other clause.

Where a host attributes failures to queries, the order must not decide who fails. A failed call or an overflow leaves a
clause undecided, and the pair goes on to the others: if one of them rejects it, there is no failure; if all of them
hold, the query fails. So a query fails exactly if a row would be in its answer but for a clause without a value.
(Document 1, sections 2.1, 4 and 5.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints, Mask
from eddyline.operators.base import Step
from eddyline.operators.evaluate import Failure, Functions, holds
from eddyline.operators.remembered_calls import RememberedCalls
from eddyline.plan.expressions import calls_functions, columns_of, params_of
from eddyline.routing.eddy import Eddy
from eddyline.sql.bound import Expr
from eddyline.state.delta import Delta


class Tuples(Protocol):
    """The tuples that changes were joined from."""

    def identity(self, used: AbstractSet[int]) -> Ints:
        """By change, a number for its values in some columns: changes with equal numbers have equal values there."""

    def arrivals(self, used: AbstractSet[int]) -> Ints | None:
        """By change, the arrival number of the one stored tuple that some columns belong to; None: there is none."""


@dataclass(frozen=True)
class Pairs:
    """Changes by their positions in a delta, each with the position of a query; None: all queries share them."""

    delta: Delta
    change: Ints
    position: Ints | None
    tuples: Tuples | None = None

    def __len__(self) -> int:
        return len(self.change)

    def take(self, which: Ints | Mask) -> Pairs:
        return replace(
            self, change=self.change[which], position=None if self.position is None else self.position[which]
        )


class Checks:
    """`clauses` must all hold. `eddy` has an account for each, by its position."""

    def __init__(self, clauses: Sequence[Expr], eddy: Eddy) -> None:
        self.clauses = tuple(clauses)
        self.eddy = eddy
        self._calls = [calls_functions(c) for c in clauses]
        self._columns = [columns_of(c) for c in clauses]
        self._params = [params_of(c) for c in clauses]
        self._remembered = {
            i: RememberedCalls(c) for i, c in enumerate(clauses) if self._calls[i] and not self._params[i]
        }

    def order(self) -> list[int]:
        """The order in which clauses are evaluated."""
        return self.eddy.order(range(len(self.clauses)))

    def holding(self, step: Step, pairs: Pairs, in_window: Callable[[Pairs], Mask] | None = None) -> Pairs:
        """The pairs that satisfy all clauses; `in_window` tells which of them have an instant in their window."""
        undecided: dict[int, Mask] = {}  # by clause that failed for some pair
        for i in self.order():
            if not len(pairs):
                break
            begun = time.perf_counter()
            kept, failed = self._holds(i, step, pairs)
            seconds = time.perf_counter() - begun
            if failed is not None:
                undecided[i] = failed
                kept = kept | failed
            held = int(np.count_nonzero(kept))
            self.eddy.learn(i, len(pairs), len(pairs), held)
            self.eddy.learn_cost(i, seconds / len(pairs))
            self.eddy.entered(i, len(pairs))
            if held < len(pairs):
                pairs, undecided = pairs.take(kept), {j: mask[kept] for j, mask in undecided.items()}
        return self._reported(step, pairs, undecided, in_window) if undecided else pairs

    def _holds(self, i: int, step: Step, pairs: Pairs) -> tuple[Mask, Mask | None]:
        """Where a clause holds, and where its evaluation failed; None: nowhere."""
        if i in self._remembered and pairs.tuples is not None:
            arrivals = pairs.tuples.arrivals(self._columns[i])
            if arrivals is not None:
                return self._recalled(i, step, pairs, arrivals[pairs.change])
        evaluated, which = self._distinct(i, step, pairs)
        if step.functions.failures is None:
            mask = self._evaluated(i, step, evaluated, step.functions)
            return (mask if which is None else mask[which]), None
        functions = replace(step.functions, failures=[])
        mask = self._evaluated(i, step, evaluated, functions)
        failed: Mask | None = None
        if functions.failures:
            failed = np.zeros(len(evaluated), np.bool_)
            failed[np.concatenate([f.rows for f in functions.failures])] = True
        if which is None:
            return mask, failed
        return mask[which], None if failed is None else failed[which]

    def _recalled(self, i: int, step: Step, pairs: Pairs, arrivals: Ints) -> tuple[Mask, Mask | None]:
        """As `_holds`, for a clause over one stored tuple each."""
        distinct, first, which = np.unique(arrivals, return_index=True, return_inverse=True)

        def evaluate(places: Ints) -> tuple[Mask, Mask]:
            functions = replace(step.functions, failures=[])
            mask = self._evaluated(i, step, pairs.take(first[places]), functions)
            failed = np.zeros(len(places), np.bool_)
            for failure in functions.failures or ():
                failed[failure.rows] = True
            return mask, failed

        held, failed = self._remembered[i].holds(distinct, step.functions.bodies, evaluate)
        return held[which], failed[which] if step.functions.failures is not None and failed.any() else None

    def _distinct(self, i: int, step: Step, pairs: Pairs) -> tuple[Pairs, Ints | None]:
        """The pairs for which a clause has to be evaluated, and for each pair its place among them; None: all pairs."""
        by_query = pairs.position is not None and len(self._params[i]) > 0
        if not self._calls[i] and (by_query or pairs.position is None):
            return pairs, None
        if pairs.tuples is not None:
            number = pairs.tuples.identity(self._columns[i])[pairs.change]
        elif by_query or pairs.position is None:
            return pairs, None
        else:
            number = pairs.change
        if by_query:
            assert pairs.position is not None
            number = number * max(1, len(step.queries)) + pairs.position
        _, first, which = np.unique(number, return_index=True, return_inverse=True)
        return (pairs, None) if len(first) == len(pairs) else (pairs.take(first), which)

    def _evaluated(self, i: int, step: Step, pairs: Pairs, functions: Functions) -> Mask:
        clause, delta = self.clauses[i], pairs.delta
        rows = pairs.change if delta.rows is None else delta.rows[pairs.change]
        whole = pairs.position is None and delta.rows is None and len(rows) == len(delta)
        where = None if whole else pa.array(rows)
        columns = [
            None if n not in self._columns[i] else c if where is None else c.take(where)
            for n, c in enumerate(delta.columns)
        ]
        if pairs.position is None or not self._params[i]:
            mask: Mask = holds(clause, columns, (), len(pairs), functions)
            return mask
        params = step.queries.params_at(self._params[i], pairs.position)
        ids = step.queries.ids_at(pairs.position)
        mask = holds(clause, columns, params, len(pairs), functions, ids)
        return mask

    def _reported(
        self, step: Step, pairs: Pairs, undecided: dict[int, Mask], in_window: Callable[[Pairs], Mask] | None
    ) -> Pairs:
        """The pairs whose clauses all have a value. Reports the failures of the others, in the order of the clauses."""
        assert step.functions.failures is not None
        failed = np.any(list(undecided.values()), axis=0)
        for i, mask in sorted(undecided.items()):
            mine = pairs.take(mask)
            if in_window is not None and len(mine):
                mine = mine.take(in_window(mine))
            if not len(mine):
                continue
            # Evaluated again for these pairs alone, so that the message does not depend on the order either.
            again = Functions(step.functions.bodies, {}, [])
            self._evaluated(i, step, self._distinct(i, step, mine)[0], again)
            messages = [f.message for f in again.failures or ()] or ["A function failed for some rows."]
            ids = None if mine.position is None else np.unique(step.queries.ids_at(mine.position))
            step.functions.failures += [Failure(m, ids, mine.change) for m in messages]
        return pairs.take(~failed)
