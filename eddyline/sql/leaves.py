"""Binding rules for leaves: columns, literals, parameters and intervals."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from sqlglot import exp

from eddyline import types as t
from eddyline.errors import BindError, did_you_mean
from eddyline.sql.bound import Call, Constant
from eddyline.sql.constants import PendingConstant, number, number_type
from eddyline.sql.functions import UNITS, unit_of
from eddyline.sql.operands import BindRule, Operand, OperandBinder, rule
from eddyline.sql.scope import fail

_MAX_INTERVAL = 2**62  # microseconds; can be added to any timestamp without overflow


def _column(b: OperandBinder, tree: exp.Expr) -> Operand:
    assert isinstance(tree, exp.Column)
    if tree.args.get("db"):
        fail(tree, "Columns are named as source.column.")
    if isinstance(tree.this, exp.Star):
        fail(tree, "* is only allowed in the list of SELECT and in COUNT(*).")
    return b.scope.resolve(tree)


def _literal(_: OperandBinder, tree: exp.Expr) -> Operand:
    origin = tree.meta.get("start")
    if tree.args.get("is_string"):
        return PendingConstant(str(tree.this), t.STRING, origin, lambda text: text)
    try:
        value = number(str(tree.this))
    except (ValueError, LookupError):
        fail(tree, f"{tree.this!r} is not a number.")
    return PendingConstant(value, number_type(value), origin, number)


def _boolean(_: OperandBinder, tree: exp.Expr) -> Operand:
    return PendingConstant(bool(tree.this), t.BOOLEAN, None, None)


def _null(_: OperandBinder, __: exp.Expr) -> Operand:
    return PendingConstant(None, t.NULL, None, None)


def _placeholder(b: OperandBinder, tree: exp.Expr) -> Operand:
    name = str(tree.this or "")
    param = b.constants.named(name) if name else None
    if param is None:
        known = [f.name for f in b.constants.declared]
        how_to_declare = "Parameters belong to CREATE QUERY FAMILY name (parameter TYPE, …)."
        hint = did_you_mean(name, known) if known else how_to_declare
        fail(tree, f"There is no parameter {':' + name if name else '?'}.", hint)
    return param


def _interval(b: OperandBinder, tree: exp.Expr) -> Operand:
    unit = tree.args.get("unit")
    micros = unit_of(unit.name) if isinstance(unit, exp.Var) else None
    if micros is None or tree.this is None:
        what = unit.sql() if unit is not None else "nothing"
        message = f"An interval needs a number and a unit of fixed length, found {what}."
        fail(tree, message, f"Units are {', '.join(UNITS)}.")
    amount = b.operand(tree.this)
    if isinstance(amount, PendingConstant):
        return _constant_interval(amount, micros, tree)
    if not t.is_numeric(amount.type):
        fail(tree, f"An interval needs a number, but this is {t.name_of(amount.type)}.")
    want = t.DOUBLE if t.is_float(amount.type) else t.BIGINT
    units = b.expr(b.converted(amount, want, tree))
    return Call("interval", (units, Constant(micros, t.BIGINT)), t.INTERVAL)


def _constant_interval(amount: PendingConstant, micros: int, tree: exp.Expr) -> PendingConstant:
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
        length = _MAX_INTERVAL
    if not -_MAX_INTERVAL < length < _MAX_INTERVAL:
        raise BindError("The interval is out of range.", hint="It may be up to a hundred thousand years long.")
    return timedelta(microseconds=length)


RULES: Mapping[type, BindRule] = {
    exp.Column: rule(_column, "this table db catalog"),
    exp.Literal: rule(_literal, "this is_string"),
    exp.Boolean: rule(_boolean, "this"),
    exp.Null: rule(_null),
    exp.Placeholder: rule(_placeholder, "this"),
    exp.Interval: rule(_interval, "this unit fraction_in_string"),
}
