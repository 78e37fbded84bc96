"""The names an expression can refer to: columns of its sources and parameters; and the constants lifted from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

import pyarrow as pa
from sqlglot import exp

from eddyline.errors import BindError, did_you_mean
from eddyline.sql.bound import Column, Constant, Expr, Field, Param
from eddyline.sql.constant_lists import ConstantList
from eddyline.sql.constants import PendingConstant


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to compute a lifted parameter from the literal that starts at `origin` in the text."""

    origin: int | None
    make: Callable[[str], Any] | None


@dataclass(frozen=True, slots=True)
class ListRecipe:
    """How to compute a lifted list: each item's recipe, and its value if it has no literal."""

    items: tuple[tuple[Recipe, Any], ...]
    type: pa.DataType  # of the items


InLists = Literal["whole", "items"]  # a long IN list is one parameter, or (in old checkpoints) one parameter per item


@dataclass
class Constants:
    """The constants of one text: lifted into parameters, or kept as constants of the shape."""

    policy: Literal["lift", "keep"]
    in_lists: InLists = "whole"
    declared: Sequence[Field] = ()
    params: list[Field] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    recipes: list[Recipe | ListRecipe] = field(default_factory=list)

    def add(self, c: PendingConstant) -> Expr:
        """A parameter or a constant for `c`; NULL is always a constant."""
        if self.policy == "keep" or c.value is None:
            return Constant(c.value, c.type)
        return self._lift(c.value, c.type, Recipe(c.origin, c.make))

    def add_list(self, items: ConstantList, recipe: ListRecipe | None) -> Expr:
        if self.policy == "keep":
            return Constant(items, items.type)
        return self._lift(items, items.type, recipe or Recipe(None, None))

    def _lift(self, value: Any, type_: pa.DataType, recipe: Recipe | ListRecipe) -> Param:
        index = len(self.params)
        self.params.append(Field(f"p{index}", type_))
        self.values.append(value)
        self.recipes.append(recipe)
        return Param(index, type_, f"p{index}")

    def named(self, name: str) -> Param | None:
        for i, f in enumerate(self.declared):
            if f.name.lower() == name.lower():
                return Param(i, f.type, f.name)
        return None


def span_of(tree: exp.Expr) -> tuple[int, int] | None:
    """The span of a tree in the text: from the first to the last token whose position sqlglot kept."""
    spans = [(n.meta["start"], n.meta["end"]) for n in tree.walk() if "start" in n.meta]
    return (min(s for s, _ in spans), max(e for _, e in spans) + 1) if spans else None


def fail(tree: exp.Expr, message: str, hint: str | None = None) -> NoReturn:
    raise BindError(message, hint=hint, span=span_of(tree))


@dataclass(frozen=True, slots=True)
class ScopeColumn:
    source: str
    name: str
    type: pa.DataType


class Scope:
    """The columns an expression may name."""

    def __init__(self, columns: Sequence[ScopeColumn]) -> None:
        self.columns = columns

    def resolve(self, tree: exp.Column) -> Column:
        name, source = tree.name, tree.table
        matches = [
            i
            for i, c in enumerate(self.columns)
            if c.name.lower() == name.lower() and (not source or c.source.lower() == source.lower())
        ]
        if len(matches) == 1:
            c = self.columns[matches[0]]
            one_source = len({x.source for x in self.columns}) == 1
            return Column(matches[0], c.type, c.name if one_source else f"{c.source}.{c.name}")
        if len(matches) > 1:
            qualified = ", ".join(sorted({f"{self.columns[i].source}.{name}" for i in matches}))
            fail(tree, f"Column {name!r} is ambiguous.", f"Say which: {qualified}.")
        sources = {c.source.lower() for c in self.columns}
        if source and source.lower() not in sources:
            hint = did_you_mean(source, {c.source for c in self.columns})
            fail(tree, f"There is no source {source!r} in FROM.", hint)
        if not self.columns:
            fail(tree, f"There is no column {name!r}: no column can be used here.", "Quote texts with '…'.")
        in_source = f" in {source!r}" if source else ""
        known = [c.name for c in self.columns if not source or c.source.lower() == source.lower()]
        fail(tree, f"There is no column {name!r}{in_source}.", did_you_mean(name, known))
