"""Selection: keeps the changes whose row satisfies the condition.

Clauses that call functions come after the others, in the order of tickets and cost (`checks.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eddyline.operators.base import Operator, Step, columns_for
from eddyline.operators.checks import Checks, Pairs
from eddyline.operators.describe import describe_checks
from eddyline.operators.evaluate import holds
from eddyline.operators.matcher import Matcher
from eddyline.operators.query_index import QueryIndex
from eddyline.plan import physical
from eddyline.plan.expressions import all_of, calls_functions, columns_of, conjuncts, params_of
from eddyline.routing.eddy import Eddy
from eddyline.state.delta import Delta


class Filter(Operator):
    """A condition with parameters requires an attached child; one without is shared by all queries."""

    def __init__(self, node: physical.Filter, children: Sequence[Operator]) -> None:
        super().__init__(node, children)
        self.matcher = Matcher(node.condition, (), self.types) if params_of(node.condition) else None
        parts = conjuncts(node.condition)
        self.condition = all_of(p for p in parts if not calls_functions(p))  # evaluated as a whole
        self.checks = Checks([p for p in parts if calls_functions(p)], Eddy())

    def pull(self, step: Step) -> Delta:
        delta = self.children[0].pull(step)
        if not len(delta):
            return delta
        if self.matcher is not None:
            return self.matcher.filter(step, delta)
        if self.condition is not None:
            columns = columns_for(delta, columns_of(self.condition))
            delta = delta.take(holds(self.condition, columns, (), len(delta), step.functions))
        if self.checks.clauses and len(delta):
            position = None if delta.query is None else step.queries.positions(delta.query)
            pairs = self.checks.holding(step, Pairs(delta, np.arange(len(delta)), position))
            delta = delta if len(pairs) == len(delta) else delta.take(pairs.change)
        return delta

    def indexes(self) -> Sequence[QueryIndex]:
        return () if self.matcher is None else (self.matcher.index,)

    def details(self) -> list[str]:
        return describe_checks(self.checks)
