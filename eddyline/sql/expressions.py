"""The expression binder: turns sqlglot trees of scalar expressions into typed, bound expressions.

The rules for each kind of expression are in `leaves.py`, `conditions.py` and `calls.py`, on top of `operands.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from sqlglot import exp

from eddyline.sql import calls, conditions, leaves
from eddyline.sql.catalog import Catalog
from eddyline.sql.dialect import is_aggregate, name_of
from eddyline.sql.operands import BindRule, Operand, OperandBinder
from eddyline.sql.scope import Constants, Scope, fail
from eddyline.sql.unsupported import EXPRESSIONS, refuse_other_args, refuse_over

RULES: Mapping[type, BindRule] = {**leaves.RULES, **conditions.RULES, **calls.RULES}
_MAX_DEPTH = 100  # levels of an expression; every later stage recurses this deep without running out of stack


class ExpressionBinder(OperandBinder):
    """Binds expressions in one scope. `override` may bind a tree instead of its rule (group keys and aggregates)."""

    def __init__(
        self,
        catalog: Catalog,
        scope: Scope,
        constants: Constants,
        override: Callable[[exp.Expr], Operand | None] | None = None,
    ) -> None:
        super().__init__(catalog, scope, constants)
        self.override = override
        self.depth = 0

    def operand(self, tree: exp.Expr) -> Operand:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            message = f"The expression is nested too deeply: more than {_MAX_DEPTH} levels."
            fail(tree, message, "Split it in subqueries.")
        operand = self._bind_by_rule(tree)
        self.depth -= 1
        return operand

    def _bind_by_rule(self, tree: exp.Expr) -> Operand:
        rule = RULES.get(type(tree))
        if rule is not None:
            refuse_other_args(tree, rule.reads)
        operand = self.override(tree) if self.override is not None else None
        if operand is not None:
            return operand
        if is_aggregate(tree):
            fail(tree, f"{name_of(tree)} is not allowed here.", "Aggregates go into SELECT or HAVING.")
        if rule is None:
            self._refuse(tree)
        return rule.bind(self, tree)

    def _refuse(self, tree: exp.Expr) -> NoReturn:
        if isinstance(tree, exp.Window):
            refuse_over(tree)
        for unsupported in type(tree).__mro__:
            if unsupported in EXPRESSIONS:
                what, hint = EXPRESSIONS[unsupported]
                fail(tree, f"{what} is not supported.", hint)
        if isinstance(tree, exp.Func):
            calls.no_function(tree, name_of(tree), self.catalog)
        fail(tree, f"{_words(type(tree).__name__)} is not supported here.")


def _words(camel: str) -> str:
    return "".join(" " + c.lower() if c.isupper() and i else c for i, c in enumerate(camel))
