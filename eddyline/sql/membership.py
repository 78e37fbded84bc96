"""Binding of IN. Each constant of a short list is a parameter; a long list of constants is one parameter.

An index sees the parameters of a short list as separate values. A list is long if it has more than
`MOST_SEPARATE_ITEMS` constants.
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
from eddyline.sql.constant_lists import MOST_SEPARATE_ITEMS, ConstantList
from eddyline.sql.constants import PendingConstant, convert, number, number_type
from eddyline.sql.literal_lists import LiteralList, list_of
from eddyline.sql.operands import Operand, OperandBinder
from eddyline.sql.scope import ListRecipe, Recipe, fail, span_of
from eddyline.sql.unsupported import refuse_subquery

MOST_TEMPLATE_ITEMS = 1024  # longer lists get no recipe, so that their texts are not kept as templates


def in_list(b: OperandBinder, tree: exp.Expr) -> Operand:
    assert isinstance(tree, exp.In)
    refuse_subquery(tree, negated=False)
    if tree.args.get("field"):
        fail(tree, "IN takes a list of values.", "Write IN (value, …).")
    subject = b.operand(tree.this)
    whole = b.constants.in_lists == "whole"
    literals = list_of(tree)
    if literals is not None and whole and not isinstance(subject, PendingConstant):
        return _in_literals(b, subject, literals, tree)
    trees = tree.expressions if literals is None else literals.trees()
    items = [b.operand(e) for e in trees]
    if not items:
        fail(tree, "IN needs at least one value.")
    common = subject.type
    for item, e in zip(items, trees, strict=True):
        common = _common_type(b, common if not isinstance(subject, PendingConstant) else subject, item, e)
    constants = [item for item in items if isinstance(item, PendingConstant)]
    if whole and len(constants) == len(items) > MOST_SEPARATE_ITEMS and not isinstance(subject, PendingConstant):
        converted = [b.converted(x, common, e) for x, e in zip(items, trees, strict=True)]
        return _in_constants(b, subject, [x for x in converted if isinstance(x, PendingConstant)], common, tree)
    args = [b.converted(x, common, e) for x, e in zip([subject, *items], [tree.this, *trees], strict=True)]
    return Call("in", tuple(b.expr(x) for x in args), t.BOOLEAN)


def _common_type(b: OperandBinder, so_far: pa.DataType | PendingConstant, item: Operand, e: exp.Expr) -> pa.DataType:
    """The type in which the subject, or a value of the common type so far, is compared with one more item."""
    given = so_far if isinstance(so_far, PendingConstant) else Constant(None, so_far)
    x, y = b.with_common_type(given, item, e)
    return t.common(x.type, y.type) or given.type


def _in_constants(
    b: OperandBinder, subject: Expr, items: Sequence[PendingConstant], common: pa.DataType, tree: exp.In
) -> Expr:
    recipe = None
    if len(items) <= MOST_TEMPLATE_ITEMS:
        recipe = ListRecipe(tuple((Recipe(x.origin, x.make), x.value) for x in items), common)
    return _call(b, subject, ConstantList.of([x.value for x in items], common), recipe, tree)


def _call(b: OperandBinder, subject: Expr, items: ConstantList, recipe: ListRecipe | None, tree: exp.In) -> Expr:
    wanted = b.expr(b.converted(subject, items.type.value_type, tree.this))
    return Call("in_list", (wanted, b.constants.add_list(items, recipe)), t.BOOLEAN)


# Long lists of literals that sqlglot did not parse (`literal_lists.py`).


def _in_literals(b: OperandBinder, subject: Expr, literals: LiteralList, tree: exp.In) -> Expr:
    integers = literals.integers
    values: list[Any] = (
        [text if quoted else _signed(text) for text, quoted, _ in literals.items] if integers is None else integers
    )
    first: dict[pa.DataType, int] = {}  # the first item of each type
    if integers is None:
        for i, value in enumerate(values):
            first.setdefault(t.STRING if isinstance(value, str) else number_type(abs(value)), i)
    else:
        largest = max(range(len(integers)), key=lambda i: abs(integers[i]))
        first = {t.INT: 0, number_type(abs(integers[largest])): largest}
    common = subject.type
    for kind, i in first.items():
        text, _, place = literals.items[i]
        common = _common_type(b, common, PendingConstant(values[i], kind, None, None), _at(place, text))
    conversion = _conversion(common, set(first))
    if conversion is not None:
        values = [_converted(conversion, v, item) for v, item in zip(values, literals.items, strict=True)]
    recipe = None
    if len(values) <= MOST_TEMPLATE_ITEMS:
        recipe = ListRecipe(tuple((_recipe(item, conversion), None) for item in literals.items), common)
    return _call(b, subject, ConstantList.of(values, common), recipe, tree)


def _signed(text: str) -> int | float:
    return -number(text[1:]) if text.startswith("-") else number(text)


def _conversion(common: pa.DataType, kinds: set[pa.DataType]) -> Callable[[Any], Any] | None:
    """The function that converts an item to the type of the list; None if no item needs it."""
    plain = kinds == {t.STRING} if common == t.STRING else common == t.BIGINT and kinds <= {t.INT, t.BIGINT}
    return None if plain else partial(convert, to=common)


def _converted(conversion: Callable[[Any], Any], value: Any, item: tuple[str, bool, int]) -> Any:
    try:
        return conversion(value)
    except Error as e:
        e.span = e.span or span_of(_at(item[2], item[0]))
        raise


def _recipe(item: tuple[str, bool, int], conversion: Callable[[Any], Any] | None) -> Recipe:
    text, quoted, place = item
    signed = not quoted and text.startswith("-")
    return Recipe(place + signed, partial(_make, quoted, signed, conversion))


def _make(quoted: bool, signed: bool, conversion: Callable[[Any], Any] | None, text: str) -> Any:
    value: Any = text if quoted else -number(text) if signed else number(text)
    return value if conversion is None else conversion(value)


def _at(place: int, text: str) -> exp.Expr:
    """A literal with the position of an item, for errors."""
    literal = exp.Literal(this=text, is_string=False)
    literal.meta.update(start=place, end=place + len(text) - 1)
    return literal
