"""What an expression can refer to: the columns in scope, and where its constants go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

import pyarrow as pa
from sqlglot import exp

from eddyline.errors import BindError, did_you_mean
from eddyline.sql.bound import Column, Constant, Expr, Field, Param
from eddyline.sql.constant_lists import ConstantList
from eddyline.sql.constants import Folded


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a lifted parameter is made from the literal that starts at `origin` in its text."""

    origin: int | None
    make: Callable[[str], Any] | None


@dataclass(frozen=True, slots=True)
class ListRecipe:
    """How a lifted list is made: for each item its recipe, and its value if it has no literal."""

    items: tuple[tuple[Recipe, Any], ...]
    type: pa.DataType  # of the items


InLists = Literal["whole", "items"]


@dataclass
class Constants:
    """Where the constants of one text go. `in_lists`: whether a long list of constants is one parameter, or each item
    is one, as it was before lists were."""

    policy: Literal["lift", "keep"]
    in_lists: InLists = "whole"
    declared: Sequence[Field] = ()
    params: list[Field] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    recipes: list[Recipe | ListRecipe] = field(default_factory=list)

    def settle(self, c: Folded) -> Expr:
        if self.policy == "keep" or c.value is None:
            return Constant(c.value, c.type)
        index = len(self.params)
        self.params.append(Field(f"p{index}", c.type))
        self.values.append(c.value)
        self.recipes.append(Recipe(c.origin, c.make))
        return Param(index, c.type, f"p{index}")

    def settle_list(self, items: ConstantList, recipe: ListRecipe | None) -> Expr:
        if self.policy == "keep":
            return Constant(items, items.type)
        index = len(self.params)
        self.params.append(Field(f"p{index}", items.type))
        self.values.append(items)
        self.recipes.append(recipe or Recipe(None, None))
        return Param(index, items.type, f"p{index}")

    def named(self, name: str) -> Param | None:
        for i, f in enumerate(self.declared):
            if f.name.lower() == name.lower():
                return Param(i, f.type, f.name)
        return None


def span_of(tree: exp.Expr) -> tuple[int, int] | None:
    """Where a tree stands in the text: from the first to the last token that kept its position."""
    starts = [(n.meta["start"], n.meta["end"]) for n in tree.walk() if "start" in n.meta]
    return (min(s for s, _ in starts), max(e for _, e in starts) + 1) if starts else None


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
        found = [
            i
            for i, c in enumerate(self.columns)
            if c.name.lower() == name.lower() and (not source or c.source.lower() == source.lower())
        ]
        if len(found) == 1:
            c = self.columns[found[0]]
            alone = len({x.source for x in self.columns}) == 1
            return Column(found[0], c.type, c.name if alone else f"{c.source}.{c.name}")
        if len(found) > 1:
            where = ", ".join(sorted({f"{self.columns[i].source}.{name}" for i in found}))
            fail(tree, f"Column {name!r} is ambiguous.", f"Say which: {where}.")
        sources = {c.source.lower() for c in self.columns}
        if source and source.lower() not in sources:
            hint = did_you_mean(source, {c.source for c in self.columns})
            fail(tree, f"There is no source {source!r} in FROM.", hint)
        if not self.columns:
            fail(tree, f"There is no column {name!r}: no column can be used here.", "Quote texts with '…'.")
        of = f" in {source!r}" if source else ""
        known = [c.name for c in self.columns if not source or c.source.lower() == source.lower()]
        fail(tree, f"There is no column {name!r}{of}.", did_you_mean(name, known))
