"""Expressions without operands: columns, literals, parameters and intervals."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from sqlglot import exp

from eddyline import types as t
from eddyline.errors import BindError, did_you_mean
from eddyline.sql.bound import Call, Constant
from eddyline.sql.constants import Folded, number, number_type
from eddyline.sql.functions import UNITS, unit_of
from eddyline.sql.operands import Kind, Loose, Operands, kind
from eddyline.sql.scope import fail

_LONGEST = 2**62  # microseconds of an interval: what can be added to any time without overflow


def _column(b: Operands, tree: exp.Expr) -> Loose:
    assert isinstance(tree, exp.Column)
    if tree.args.get("db"):
        fail(tree, "Columns are named as source.column.")
    if isinstance(tree.this, exp.Star):
        fail(tree, "* is only allowed in the list of SELECT and in COUNT(*).")
    return b.scope.resolve(tree)


def _literal(_: Operands, tree: exp.Expr) -> Loose:
    origin = tree.meta.get("start")
    if tree.args.get("is_string"):
        return Folded(str(tree.this), t.STRING, origin, lambda text: text)
    try:
        value = number(str(tree.this))
    except (ValueError, LookupError):
        fail(tree, f"{tree.this!r} is not a number.")
    return Folded(value, number_type(value), origin, number)


def _boolean(_: Operands, tree: exp.Expr) -> Loose:
    return Folded(bool(tree.this), t.BOOLEAN, None, None)


def _null(_: Operands, __: exp.Expr) -> Loose:
    return Folded(None, t.NULL, None, None)


def _placeholder(b: Operands, tree: exp.Expr) -> Loose:
    name = str(tree.this or "")
    found = b.constants.named(name) if name else None
    if found is None:
        known = [f.name for f in b.constants.declared]
        belongs = "Parameters belong to CREATE QUERY FAMILY name (parameter TYPE, …)."
        hint = did_you_mean(name, known) if known else belongs
        fail(tree, f"There is no parameter {':' + name if name else '?'}.", hint)
    return found


def _interval(b: Operands, tree: exp.Expr) -> Loose:
    unit = tree.args.get("unit")
    micros = unit_of(unit.name) if isinstance(unit, exp.Var) else None
    if micros is None or tree.this is None:
        what = unit.sql() if unit is not None else "nothing"
        message = f"An interval needs a number and a unit of fixed length, found {what}."
        fail(tree, message, f"Units are {', '.join(UNITS)}.")
    amount = b.loose(tree.this)
    if isinstance(amount, Folded):
        return _constant_interval(amount, micros, tree)
    if not t.is_numeric(amount.type):
        fail(tree, f"An interval needs a number, but this is {t.name_of(amount.type)}.")
    want = t.DOUBLE if t.is_float(amount.type) else t.BIGINT
    number_of = b.settle(b.converted(amount, want, tree))
    return Call("interval", (number_of, Constant(micros, t.BIGINT)), t.INTERVAL)


def _constant_interval(amount: Folded, micros: int, tree: exp.Expr) -> Folded:
    if amount.type == t.STRING:
        try:
            amount = amount.then(lambda s: number(s.strip()), t.DOUBLE)
        except (ValueError, LookupError):
            fail(tree, f"{amount.value!r} is not a number.")
    if amount.value is None or not t.is_numeric(amount.type):
        fail(tree, f"An interval needs a number, but this is {t.name_of(amount.type)}.")
    return amount.then(lambda v: _duration(v, micros), t.INTERVAL)


def _duration(value: float, micros: int) -> timedelta:
    try:
        length = round(value * micros)
    except (OverflowError, ValueError):
        length = _LONGEST
    if not -_LONGEST < length < _LONGEST:
        raise BindError("The interval is out of range.", hint="It may be up to a hundred thousand years long.")
    return timedelta(microseconds=length)


KINDS: Mapping[type, Kind] = {
    exp.Column: kind(_column, "this table db catalog"),
    exp.Literal: kind(_literal, "this is_string"),
    exp.Boolean: kind(_boolean, "this"),
    exp.Null: kind(_null),
    exp.Placeholder: kind(_placeholder, "this"),
    exp.Interval: kind(_interval, "this unit fraction_in_string"),
}
