"""Binding rules for calls: arithmetic, casts, CASE, IF, built-in functions and functions registered by the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NoReturn

import pyarrow as pa
from sqlglot import exp

from eddyline import types as t
from eddyline.aggregates import AGGREGATES
from eddyline.errors import BindError, did_you_mean
from eddyline.sql.bound import Call, Constant, Expr
from eddyline.sql.catalog import Catalog
from eddyline.sql.conditions import compared
from eddyline.sql.constants import PendingConstant, convert
from eddyline.sql.dialect import name_of
from eddyline.sql.functions import FORMS, NAMED, arithmetic
from eddyline.sql.operands import BindRule, Operand, OperandBinder, rule
from eddyline.sql.scope import fail
from eddyline.sql.unsupported import NOT_FUNCTIONS, refuse_other_args

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}
_NULL = PendingConstant(None, t.NULL, None, None)
_TYPES = {
    **{exp.DType[name]: t.BY_NAME[name] for name in t.BY_NAME if name in exp.DType.__members__ and name != "INTERVAL"},
    exp.DType.CHAR: t.STRING,
    **dict.fromkeys((exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ), t.TIMESTAMP),
}


def no_function(tree: exp.Expr, name: str, catalog: Catalog) -> NoReturn:
    """Refuses a call of an unknown function, named as it was written."""
    if name.lower() in NOT_FUNCTIONS:
        fail(tree, *NOT_FUNCTIONS[name.lower()])
    known = [*NAMED, *FORMS, *AGGREGATES, *catalog.functions.names()]
    close = did_you_mean(name, known)
    others = "SHOW FUNCTIONS lists all there are; db.function(…) registers one in Python."
    fail(tree, f"There is no function {name!r}.", f"{close} {others}" if close.startswith("Did") else others)


# Operators and conversions.


def _paren(b: OperandBinder, tree: exp.Expr) -> Operand:
    return b.operand(tree.this)


def _arithmetic(op: str, b: OperandBinder, tree: exp.Expr) -> Operand:
    x, y = b.operand(tree.this), b.operand(tree.expression)
    types = arithmetic(op, x.type, y.type)
    if types is None:
        message = f"{t.name_of(x.type)} {_SIGNS[op]} {t.name_of(y.type)} has no meaning."
        fail(tree, message, "Convert one with CAST(… AS type).")
    left, right, result = types
    args = b.expr(b.converted(x, left, tree.this)), b.expr(b.converted(y, right, tree.expression))
    return Call(op, args, result)


def _neg(b: OperandBinder, tree: exp.Expr) -> Operand:
    inner = b.operand(tree.this)
    if not (t.is_numeric(inner.type) or inner.type == t.INTERVAL):
        fail(tree, f"-{t.name_of(inner.type)} has no meaning.")
    if isinstance(inner, PendingConstant):
        return inner.then(lambda v: None if v is None else -v, inner.type)
    return Call("neg", (inner,), inner.type)


def _cast(b: OperandBinder, tree: exp.Expr) -> Operand:
    to = _type(tree.args["to"], tree)
    inner = b.operand(tree.this)
    if not t.castable(inner.type, to):
        fail(tree, f"{t.name_of(inner.type)} cannot be cast to {t.name_of(to)}.")
    try:
        return b.converted(inner, to, tree)
    except BindError:
        if not tree.args.get("safe"):  # a constant that cannot be converted: CAST refuses it, TRY_CAST gives NULL
            raise
        return PendingConstant(None, to, None, None)


def _type(tree: exp.Expr, cast: exp.Expr) -> pa.DataType:
    """The type in a cast. The length in VARCHAR(n) is ignored, as in Spark; no other type has a parameter."""
    to = _TYPES.get(tree.this)
    if to is None:
        word = tree.sql().upper() if tree.expressions or isinstance(tree.this, exp.Expr) else tree.this.value
        fail(cast, f"{word} is not a type to cast to.", did_you_mean(word, t.BY_NAME.keys() - {"INTERVAL"}))
    refuse_other_args(tree, {"this", "expressions"}, within=cast)
    if tree.expressions and tree.this not in (exp.DType.CHAR, exp.DType.VARCHAR):
        name = t.name_of(to)
        fail(cast, f"{name}(…) is not a type to cast to.", f"Write {name}.")
    return to


# CASE and IF.


def _case(b: OperandBinder, tree: exp.Expr) -> Operand:
    subject, otherwise = tree.this, tree.args.get("default")
    conditions, trees = [], []
    for branch in tree.args["ifs"]:
        refuse_other_args(branch, {"this", "true"})
        if subject is not None:
            conditions.append(compared(b, "eq", subject, branch.this, branch))
        else:
            conditions.append(b.condition(branch.this, "WHEN"))
        trees.append(branch.args["true"])
    trees.append(otherwise)
    return _choice(b, conditions, trees, tree)


def _if(b: OperandBinder, tree: exp.Expr) -> Operand:
    return _choice(b, [b.condition(tree.this, "IF")], [tree.args["true"], tree.args.get("false")], tree)


def _choice(b: OperandBinder, conditions: list[Expr], trees: list[exp.Expr | None], tree: exp.Expr) -> Operand:
    """The value of the first condition that is true, else the last value. A missing value is NULL."""
    operands = [b.operand(e) if e is not None else _NULL for e in trees]
    common = _common_type([v.type for v in operands], tree)
    values = [b.expr(b.converted(v, common, tree if e is None else e)) for v, e in zip(operands, trees, strict=True)]
    args: list[Expr] = []
    for condition, value in zip(conditions, values, strict=False):
        args += [condition, value]
    return Call("case", (*args, values[-1]), common)


def _common_type(types: Sequence[pa.DataType], tree: exp.Expr) -> pa.DataType:
    common: pa.DataType = t.NULL
    for x in types:
        wider = t.common(common, x)
        if wider is None:
            message = f"{t.name_of(common)} and {t.name_of(x)} do not go together here."
            fail(tree, message, "Convert with CAST(… AS type).")
        common = wider
    return t.STRING if common == t.NULL else common


# Functions.


def _concat(b: OperandBinder, tree: exp.Expr) -> Operand:
    if "safe" in tree.args:
        return _function("concat", b, tree)
    text = "".join(part.name for part in tree.expressions)  # adjacent string literals: 'a' 'b'
    return PendingConstant(text, t.STRING, None, None)


def _dpipe(b: OperandBinder, tree: exp.Expr) -> Operand:
    return _call(b, "concat", [tree.this, tree.expression], tree)


def _function(name: str, b: OperandBinder, tree: exp.Expr) -> Operand:
    trees: list[exp.Expr] = []
    for given in tree.args.values():
        trees += [e for e in (given if isinstance(given, list) else [given]) if isinstance(e, exp.Expr)]
    return _call(b, name, trees, tree)


def _anonymous(b: OperandBinder, tree: exp.Expr) -> Operand:
    name = name_of(tree)
    if name.lower() in NAMED:
        return _call(b, name.lower(), list(tree.expressions), tree)
    function = b.catalog.functions.get(name)
    if function is None:
        no_function(tree, name, b.catalog)
    if len(tree.expressions) != len(function.takes):
        fail(tree, f"{function.name} takes {len(function.takes)} arguments, found {len(tree.expressions)}.")
    given = zip(tree.expressions, function.takes, strict=True)
    args = tuple(b.expr(b.coerced(b.operand(e), want, e, f"{name} takes")) for e, want in given)
    return Call(f"udf:{function.name.lower()}", args, function.gives)


def _call(b: OperandBinder, name: str, trees: list[exp.Expr], tree: exp.Expr) -> Operand:
    signature = NAMED[name]
    written = name_of(tree) if isinstance(tree, exp.Func) else name
    if not signature.least_args <= len(trees) <= signature.most_args:
        least, most = signature.least_args, signature.most_args
        takes = str(least) if least == most else f"{least} to {most}" if most < 255 else f"{least} or more"
        fail(tree, f"{written} takes {takes} argument{'' if takes == '1' else 's'}, found {len(trees)}.")
    values = [b.operand(e) for e in trees]
    resolved = signature.resolve([v.type for v in values])
    if resolved is None:
        given = ", ".join(t.name_of(v.type) for v in values)
        fail(tree, f"{written}({given}) has no meaning.", "Convert with CAST(… AS type).")
    wanted, gives = resolved
    if gives == t.NULL:
        wanted, gives = [t.STRING] * len(wanted), t.STRING
    if name == "round" and len(values) == 2 and not isinstance(values[1], PendingConstant):
        fail(tree, "The number of digits of round must be a constant.")
    args = [b.coerced(v, want, e, f"{written} takes") for v, want, e in zip(values, wanted, trees, strict=True)]
    if name == "round" and len(values) == 2:
        digits = values[1]
        assert isinstance(digits, PendingConstant)
        return Call(name, (b.expr(args[0]), Constant(convert(digits.value, t.INT), t.INT)), gives)
    return Call(name, tuple(b.expr(a) for a in args), gives)


# `safe` and `ignore_nulls` describe how the dialect treats NULL in division, concat, least and greatest. They always
# have the values that this language means.
RULES: Mapping[type, BindRule] = {
    exp.Paren: rule(_paren, "this"),
    exp.Add: rule(partial(_arithmetic, "add"), "this expression"),
    exp.Sub: rule(partial(_arithmetic, "sub"), "this expression"),
    exp.Mul: rule(partial(_arithmetic, "mul"), "this expression"),
    exp.Div: rule(partial(_arithmetic, "div"), "this expression safe"),
    exp.Mod: rule(partial(_arithmetic, "mod"), "this expression"),
    exp.Neg: rule(_neg, "this"),
    exp.Cast: rule(_cast, "this to"),
    exp.TryCast: rule(_cast, "this to safe"),
    exp.Case: rule(_case, "this ifs default"),
    exp.If: rule(_if, "this true false"),
    exp.DPipe: rule(_dpipe, "this expression safe"),
    exp.Abs: rule(partial(_function, "abs"), "this"),
    exp.Upper: rule(partial(_function, "upper"), "this"),
    exp.Lower: rule(partial(_function, "lower"), "this"),
    exp.Length: rule(partial(_function, "length"), "this binary encoding"),
    exp.Concat: rule(_concat, "expressions safe"),
    exp.Floor: rule(partial(_function, "floor"), "this decimals to"),
    exp.Ceil: rule(partial(_function, "ceil"), "this decimals to"),
    exp.Sqrt: rule(partial(_function, "sqrt"), "this"),
    exp.Round: rule(partial(_function, "round"), "this decimals truncate"),
    exp.Coalesce: rule(partial(_function, "coalesce"), "this expressions"),
    exp.Least: rule(partial(_function, "least"), "this expressions ignore_nulls"),
    exp.Greatest: rule(partial(_function, "greatest"), "this expressions ignore_nulls"),
    exp.Anonymous: rule(_anonymous, "this expressions"),
}
