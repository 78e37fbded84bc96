"""IN: a value against a list. A short list is compared item by item; a long list of constants is one value.

Each item of a short list is a parameter of its own, so that an index sees them; a list of more than
`MOST_ITEMS_APART` constants is one parameter, whatever its length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from sqlglot import exp

from eddyline import types as t
from eddyline.errors import Error
from eddyline.sql.bound import Call, Constant, Expr
from eddyline.sql.constant_lists import MOST_ITEMS_APART, ConstantList
from eddyline.sql.constants import Folded, convert, number, number_type
from eddyline.sql.literal_lists import LiteralList, list_of
from eddyline.sql.operands import Loose, Operands
from eddyline.sql.scope import ListRecipe, Recipe, fail, span_of
from eddyline.sql.unsupported import refuse_subquery

MOST_LEARNT = 1024  # items of a list whose text is worth remembering as a template


def in_list(b: Operands, tree: exp.Expr) -> Loose:
    assert isinstance(tree, exp.In)
    refuse_subquery(tree, negated=False)
    if tree.args.get("field"):
        fail(tree, "IN takes a list of values.", "Write IN (value, …).")
    subject = b.loose(tree.this)
    whole = b.constants.in_lists == "whole"
    literals = list_of(tree)
    if literals is not None and whole and not isinstance(subject, Folded):
        return _in_literals(b, subject, literals, tree)
    trees = tree.expressions if literals is None else literals.trees()
    items = [b.loose(e) for e in trees]
    if not items:
        fail(tree, "IN needs at least one value.")
    joined = subject.type
    for item, e in zip(items, trees, strict=True):
        joined = _joined(b, joined if not isinstance(subject, Folded) else subject, item, e)
    constants = [item for item in items if isinstance(item, Folded)]
    if whole and len(constants) == len(items) > MOST_ITEMS_APART and not isinstance(subject, Folded):
        found = [b.converted(x, joined, e) for x, e in zip(items, trees, strict=True)]
        return _against_list(b, subject, [x for x in found if isinstance(x, Folded)], joined, tree)
    args = [b.converted(x, joined, e) for x, e in zip([subject, *items], [tree.this, *trees], strict=True)]
    return Call("in", tuple(b.settle(x) for x in args), t.BOOLEAN)


def _joined(b: Operands, subject: pa.DataType | Folded, item: Loose, tree: exp.Expr) -> pa.DataType:
    """The type in which an item is compared with the subject, or with what the items before it made of its type."""
    given = subject if isinstance(subject, Folded) else Constant(None, subject)
    x, y = b.alike(given, item, tree)
    return t.common(x.type, y.type) or given.type


def _against_list(b: Operands, subject: Expr, items: Sequence[Folded], joined: pa.DataType, tree: exp.In) -> Expr:
    recipe = None
    if len(items) <= MOST_LEARNT:
        recipe = ListRecipe(tuple((Recipe(x.origin, x.make), x.value) for x in items), joined)
    return _call(b, subject, ConstantList.of([x.value for x in items], joined), recipe, tree)


def _call(b: Operands, subject: Expr, items: ConstantList, recipe: ListRecipe | None, tree: exp.In) -> Expr:
    wanted = b.settle(b.converted(subject, items.type.value_type, tree.this))
    return Call("in_list", (wanted, b.constants.settle_list(items, recipe)), t.BOOLEAN)


# Literals that were lifted out of the text.


def _in_literals(b: Operands, subject: Expr, literals: LiteralList, tree: exp.In) -> Expr:
    whole = literals.integers
    values: list[Any] = (
        [text if quoted else _signed(text) for text, quoted, _ in literals.items] if whole is None else whole
    )
    first: dict[pa.DataType, int] = {}  # by type, the first item that has it
    if whole is None:
        for i, value in enumerate(values):
            first.setdefault(t.STRING if isinstance(value, str) else number_type(abs(value)), i)
    else:
        largest = max(range(len(whole)), key=lambda i: abs(whole[i]))
        first = {t.INT: 0, number_type(abs(whole[largest])): largest}
    joined = subject.type
    for kind, i in first.items():
        text, _, place = literals.items[i]
        joined = _joined(b, joined, Folded(values[i], kind, None, None), _at(place, text))
    change = _conversion(joined, set(first))
    if change is not None:
        values = [_converted(change, v, item) for v, item in zip(values, literals.items, strict=True)]
    recipe = None
    if len(values) <= MOST_LEARNT:
        recipe = ListRecipe(tuple((_recipe(item, change), None) for item in literals.items), joined)
    return _call(b, subject, ConstantList.of(values, joined), recipe, tree)


def _signed(text: str) -> int | float:
    return -number(text[1:]) if text.startswith("-") else number(text)


def _conversion(joined: pa.DataType, kinds: set[pa.DataType]) -> Callable[[Any], Any] | None:
    """What makes an item a value of the list; None if they are such values already."""
    plain = kinds == {t.STRING} if joined == t.STRING else joined == t.BIGINT and kinds <= {t.INT, t.BIGINT}
    return None if plain else partial(_convert, joined)


def _convert(to: pa.DataType, value: Any) -> Any:
    return convert(value, to)


def _converted(change: Callable[[Any], Any], value: Any, item: tuple[str, bool, int]) -> Any:
    try:
        return change(value)
    except Error as e:
        e.span = e.span or span_of(_at(item[2], item[0]))
        raise


def _recipe(item: tuple[str, bool, int], change: Callable[[Any], Any] | None) -> Recipe:
    text, quoted, place = item
    signed = not quoted and text.startswith("-")
    return Recipe(place + signed, partial(_made, quoted, signed, change))


def _made(quoted: bool, signed: bool, change: Callable[[Any], Any] | None, text: str) -> Any:
    value: Any = text if quoted else -number(text) if signed else number(text)
    return value if change is None else change(value)


def _at(place: int, text: str) -> exp.Expr:
    """A tree that stands where an item does."""
    found = exp.Literal(this=text, is_string=False)
    found.meta.update(start=place, end=place + len(text) - 1)
    return found
