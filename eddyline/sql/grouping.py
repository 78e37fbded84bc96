"""GROUP BY, aggregates and HAVING: the second half of a block, whose outputs see keys and aggregates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sqlglot import exp

from eddyline import types as t
from eddyline.errors import Error
from eddyline.sql.bound import Aggregate, Column, Expr
from eddyline.sql.dialect import name_of
from eddyline.sql.expressions import ExpressionBinder
from eddyline.sql.operands import Loose
from eddyline.sql.scope import Scope, fail
from eddyline.sql.unsupported import only


class Grouping:
    """The second half of a grouping block: outputs see keys and aggregates instead of source columns."""

    def __init__(self, inner: ExpressionBinder, group: exp.Expr | None, items: Sequence[tuple[str, exp.Expr]]) -> None:
        self.inner = inner
        self._items = items
        self._aliases: Literal["hidden", "seen"] = "hidden"
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
        self.outer = ExpressionBinder(inner.catalog, Scope([]), inner.constants, self._special)

    def _key_tree(self, e: exp.Expr, items: Sequence[tuple[str, exp.Expr]]) -> exp.Expr:
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
        """The condition of HAVING, which may name columns of the SELECT list, as in Spark."""
        self._aliases = "seen"
        try:
            return self.outer.condition(tree, "HAVING")
        finally:
            self._aliases = "hidden"

    def _selected(self, tree: exp.Column) -> Loose | None:
        """What a name in HAVING stands for in the SELECT list."""
        named = [e for name, e in self._items if name.lower() == tree.name.lower()]
        if self._aliases == "hidden" or tree.table or len(named) != 1 or named[0] == tree:
            return None
        self._aliases = "hidden"  # its own names are those of sources
        try:
            return self.outer.loose(named[0])
        finally:
            self._aliases = "seen"

    def _special(self, tree: exp.Expr) -> Loose | None:
        normal = self._normal(tree)
        if normal in self._key_trees:
            i = self._key_trees.index(normal)
            return Column(i, self.keys[i].type, tree.name or f"key{i}")
        if type(tree) in AGGREGATES:
            return self._aggregate(tree)
        if isinstance(tree, exp.Column):
            selected = self._selected(tree)
            if selected is not None:
                return selected
            self.inner.loose(tree)  # a name that does not exist is the first thing to say
            fail(
                tree,
                f"{tree.name!r} is neither a group key nor inside an aggregate.",
                "Add it to GROUP BY, or aggregate it.",
            )
        return None

    def _normal(self, tree: exp.Expr) -> exp.Expr:
        """The tree by which a group key or an aggregate is recognised again: columns by position, not by name."""
        while isinstance(tree, exp.Paren):
            tree = tree.this
        tree = tree.copy()
        for column in list(tree.find_all(exp.Column)):
            try:
                found = self.inner.scope.resolve(column)
            except Error:
                continue  # it is told where it is bound
            column.set("this", exp.to_identifier(f"#{found.index}", quoted=True))
            column.set("table", None)
        return tree

    def _aggregate(self, tree: exp.Expr) -> Column:
        kind, written = AGGREGATES[type(tree)], name_of(tree)
        only(tree, {"this", "expressions", "big_int"})
        normal = self._normal(tree)
        if normal in self._trees:
            index = self._trees.index(normal)
            return Column(len(self.keys) + index, self.aggregates[index].type, kind)
        argument = tree.this
        if isinstance(argument, exp.Distinct):
            fail(tree, f"{written}(DISTINCT …) is not supported.", "Aggregate over a subquery with SELECT DISTINCT.")
        if isinstance(argument, exp.Expr) and has_aggregate(argument):
            fail(tree, "An aggregate cannot contain another.", "Aggregate over a subquery.")
        if tree.expressions:
            fail(tree, f"{written} takes one argument.")
        if isinstance(argument, exp.Star):
            only(argument, set())
        if kind == "count" and (argument is None or isinstance(argument, exp.Star)):
            aggregate = Aggregate("count", None, t.BIGINT)
        else:
            if argument is None or isinstance(argument, exp.Star):
                fail(tree, f"{written} needs a column.")
            loose = self.inner.loose(argument)
            if kind in ("sum", "avg"):
                if not (t.is_numeric(loose.type) or loose.type == t.NULL):
                    fail(tree, f"{written} needs numbers, but this is {t.name_of(loose.type)}.")
                wide = t.DOUBLE if kind == "avg" or t.is_float(loose.type) else t.BIGINT
                loose = self.inner.converted(loose, wide, argument)
            elif loose.type == t.NULL:
                loose = self.inner.converted(loose, t.STRING, argument)
            result = t.BIGINT if kind == "count" else loose.type
            aggregate = Aggregate(kind, self.inner.settle(loose), result)
        self.aggregates.append(aggregate)
        self._trees.append(normal)
        return Column(len(self.keys) + len(self.aggregates) - 1, aggregate.type, kind)


def typed(binder: ExpressionBinder, tree: exp.Expr) -> Expr:
    """An output or key: never of type NULL, so that every column has a type."""
    loose = binder.loose(tree)
    return binder.settle(binder.converted(loose, t.STRING, tree) if loose.type == t.NULL else loose)


def has_aggregate(tree: exp.Expr) -> bool:
    return any(type(n) in AGGREGATES for n in tree.walk())


AGGREGATES: Mapping[type, Any] = {exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max"}
