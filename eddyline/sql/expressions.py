"""Scalar expressions: sqlglot trees to typed, bound expressions.

The kinds of expressions are in `leaves.py`, `conditions.py` and `calls.py`, what they share in `operands.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from sqlglot import exp

from eddyline.sql import calls, conditions, leaves
from eddyline.sql.catalog import Catalog
from eddyline.sql.dialect import is_aggregate, name_of
from eddyline.sql.operands import Kind, Loose, Operands
from eddyline.sql.scope import Constants, Scope, fail
from eddyline.sql.unsupported import EXPRESSIONS, only, refuse_over

KINDS: Mapping[type, Kind] = {**leaves.KINDS, **conditions.KINDS, **calls.KINDS}
_DEEPEST = 100  # levels of an expression: what every later stage can walk without running out of stack


class ExpressionBinder(Operands):
    """Binds expressions in one scope. `special` may answer for a whole tree (group keys and aggregates)."""

    def __init__(
        self,
        catalog: Catalog,
        scope: Scope,
        constants: Constants,
        special: Callable[[exp.Expr], Loose | None] | None = None,
    ) -> None:
        super().__init__(catalog, scope, constants)
        self.special = special
        self.depth = 0

    def loose(self, tree: exp.Expr) -> Loose:
        self.depth += 1
        if self.depth > _DEEPEST:
            fail(tree, f"The expression is nested too deeply: more than {_DEEPEST} levels.", "Split it in subqueries.")
        found = self._loose(tree)
        self.depth -= 1
        return found

    def _loose(self, tree: exp.Expr) -> Loose:
        kind = KINDS.get(type(tree))
        if kind is not None:
            only(tree, kind.reads)
        found = self.special(tree) if self.special is not None else None
        if found is not None:
            return found
        if is_aggregate(tree):
            fail(tree, f"{name_of(tree)} is not allowed here.", "Aggregates go into SELECT or HAVING.")
        if kind is None:
            self._refuse(tree)
        return kind.bind(self, tree)

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
