"""Binding of blocks that group: GROUP BY, aggregates and HAVING.

Keys and aggregate arguments see the source columns; outputs and HAVING see the keys followed by the aggregates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa
from sqlglot import exp

from eddyline import types as t
from eddyline.aggregates import AGGREGATES
from eddyline.aggregates.description import AggregateFunction
from eddyline.errors import Error
from eddyline.sql.bound import Aggregate, Column, Expr
from eddyline.sql.dialect import is_aggregate, name_of
from eddyline.sql.expressions import ExpressionBinder
from eddyline.sql.operands import Operand
from eddyline.sql.scope import Scope, fail
from eddyline.sql.unsupported import refuse_other_args


class Grouping:
    """Binds the keys, aggregates, outputs and HAVING condition of one block; `inner` sees the source columns."""

    def __init__(self, inner: ExpressionBinder, group: exp.Expr | None, items: Sequence[tuple[str, exp.Expr]]) -> None:
        self.inner = inner
        self._items = items
        self._aliases: Literal["hidden", "visible"] = "hidden"  # whether names may refer to the SELECT list
        self.aggregates: list[Aggregate] = []
        self._trees: list[exp.Expr] = []
        self._key_trees: list[exp.Expr] = []
        keys: list[Expr] = []
        if group is not None:
            for arg in ("rollup", "cube", "grouping_sets", "all", "totals"):
                if group.args.get(arg):
                    fail(group, f"GROUP BY {arg.upper().replace('_', ' ')} is not supported.")
            for e in group.expressions:
                tree = self._key_tree(e, items)
                if has_aggregate(tree):
                    fail(e, "A group key cannot contain an aggregate.")
                keys.append(typed(inner, tree))
                self._key_trees.append(self._normal(tree))
        self.keys = tuple(keys)
        self.outer = ExpressionBinder(inner.catalog, Scope([]), inner.constants, self._key_or_aggregate)

    def _key_tree(self, e: exp.Expr, items: Sequence[tuple[str, exp.Expr]]) -> exp.Expr:
        """The expression of a group key; a position or an alias refers to the SELECT list."""
        number = e.this if isinstance(e, exp.Neg) else e
        if isinstance(number, exp.Literal) and not number.args.get("is_string"):
            text = str(number.this)
            if e is not number or not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= len(items):
                shown = text if len(text) < 20 else text[:17] + "..."
                fail(e, f"GROUP BY {shown} is not a position in the list of {len(items)} columns.")
            return items[int(text) - 1][1]
        if isinstance(e, exp.Column) and not e.table:
            in_scope = any(c.name.lower() == e.name.lower() for c in self.inner.scope.columns)
            for name, tree in items:
                if not in_scope and name.lower() == e.name.lower():
                    return tree
        return e

    def bind(self, tree: exp.Expr) -> Expr:
        return typed(self.outer, tree)

    def condition(self, tree: exp.Expr) -> Expr:
        """Binds the condition of HAVING, which may name columns of the SELECT list, as in Spark."""
        self._aliases = "visible"
        try:
            return self.outer.condition(tree, "HAVING")
        finally:
            self._aliases = "hidden"

    def _selected(self, tree: exp.Column) -> Operand | None:
        """The column of the SELECT list that a name in HAVING refers to; None if there is none."""
        named = [e for name, e in self._items if name.lower() == tree.name.lower()]
        if self._aliases == "hidden" or tree.table or len(named) != 1 or named[0] == tree:
            return None
        self._aliases = "hidden"  # inside the SELECT list, names refer to sources
        try:
            return self.outer.operand(named[0])
        finally:
            self._aliases = "visible"

    def _key_or_aggregate(self, tree: exp.Expr) -> Operand | None:
        normal = self._normal(tree)
        if normal in self._key_trees:
            i = self._key_trees.index(normal)
            return Column(i, self.keys[i].type, tree.name or f"key{i}")
        if is_aggregate(tree):
            return self._aggregate(tree)
        if isinstance(tree, exp.Column):
            selected = self._selected(tree)
            if selected is not None:
                return selected
            self.inner.operand(tree)  # an unknown name is reported first
            fail(
                tree,
                f"{tree.name!r} is neither a group key nor inside an aggregate.",
                "Add it to GROUP BY, or aggregate it.",
            )
        return None

    def _normal(self, tree: exp.Expr) -> exp.Expr:
        """A tree that is equal for equal group keys and aggregates: columns by position, not by name."""
        while isinstance(tree, exp.Paren):
            tree = tree.this
        tree = tree.copy()
        for column in list(tree.find_all(exp.Column)):
            try:
                resolved = self.inner.scope.resolve(column)
            except Error:
                continue  # binding the expression reports it
            column.set("this", exp.to_identifier(f"#{resolved.index}", quoted=True))
            column.set("table", None)
        return tree

    def _aggregate(self, tree: exp.Expr) -> Column:
        written = name_of(tree)
        name = written.lower()
        normal = self._normal(tree)
        if normal not in self._trees:
            argument, type_ = self._argument(tree, AGGREGATES[name], written)
            self.aggregates.append(Aggregate(name, argument, type_))
            self._trees.append(normal)
        index = self._trees.index(normal)
        return Column(len(self.keys) + index, self.aggregates[index].type, name)

    def _argument(self, tree: exp.Expr, function: AggregateFunction, written: str) -> tuple[Expr | None, pa.DataType]:
        """The argument of an aggregate, converted to the type it works on, and the type of the result."""
        given = tree.expressions
        if any(isinstance(e, exp.Distinct) for e in given):
            fail(tree, f"{written}(DISTINCT …) is not supported.", "Aggregate over a subquery with SELECT DISTINCT.")
        if any(has_aggregate(e) for e in given):
            fail(tree, "An aggregate cannot contain another.", "Aggregate over a subquery.")
        if len(given) > 1:
            fail(tree, f"{written} takes one argument.")
        if not given or isinstance(given[0], exp.Star):
            for star in given:
                refuse_other_args(star, set())
            if function.star is None:
                fail(tree, f"{written} needs a column." if given else f"{written} lacks an argument.")
            return None, function.star
        operand = self.inner.operand(given[0])
        types = function.types(operand.type)
        if types is None:
            fail(tree, f"{written} takes a {function.takes}, but this is {t.name_of(operand.type)}.")
        wanted, result = (t.STRING if x == t.NULL else x for x in types)
        return self.inner.expr(self.inner.converted(operand, wanted, given[0])), result


def typed(binder: ExpressionBinder, tree: exp.Expr) -> Expr:
    """Binds an output or key. NULL becomes a STRING, so that every column has a type."""
    operand = binder.operand(tree)
    return binder.expr(binder.converted(operand, t.STRING, tree) if operand.type == t.NULL else operand)


def has_aggregate(tree: exp.Expr) -> bool:
    return any(is_aggregate(n) for n in tree.walk())
