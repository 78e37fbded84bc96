"""Expressions that compute: arithmetic, conversions, CASE and functions by name."""

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
from eddyline.sql.constants import Folded, convert
from eddyline.sql.dialect import name_of
from eddyline.sql.functions import FORMS, NAMED, arithmetic
from eddyline.sql.operands import Kind, Loose, Operands, kind
from eddyline.sql.scope import fail
from eddyline.sql.unsupported import NOT_FUNCTIONS, only

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}
_NOTHING = Folded(None, t.NULL, None, None)
_TYPES = {
    exp.DType.BOOLEAN: t.BOOLEAN,
    exp.DType.TINYINT: t.BYTE,
    exp.DType.SMALLINT: t.SHORT,
    exp.DType.INT: t.INT,
    exp.DType.BIGINT: t.BIGINT,
    exp.DType.FLOAT: t.FLOAT,
    exp.DType.DOUBLE: t.DOUBLE,
    exp.DType.CHAR: t.STRING,
    exp.DType.VARCHAR: t.STRING,
    exp.DType.TEXT: t.STRING,
    exp.DType.DATE: t.DATE,
    exp.DType.TIMESTAMP: t.TIMESTAMP,
    exp.DType.TIMESTAMPTZ: t.TIMESTAMP,
    exp.DType.TIMESTAMPLTZ: t.TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: t.TIMESTAMP,
}


def no_function(tree: exp.Expr, name: str, catalog: Catalog) -> NoReturn:
    """A call of a function that does not exist, under the name it was written with."""
    if name.lower() in NOT_FUNCTIONS:
        fail(tree, *NOT_FUNCTIONS[name.lower()])
    known = [*NAMED, *FORMS, *AGGREGATES, *catalog.functions.names()]
    close = did_you_mean(name, known)
    others = "SHOW FUNCTIONS lists all there are; db.function(…) registers one in Python."
    fail(tree, f"There is no function {name!r}.", f"{close} {others}" if close.startswith("Did") else others)


# Operators and conversions.


def _paren(b: Operands, tree: exp.Expr) -> Loose:
    return b.loose(tree.this)


def _arithmetic(op: str, b: Operands, tree: exp.Expr) -> Loose:
    x, y = b.loose(tree.this), b.loose(tree.expression)
    types = arithmetic(op, x.type, y.type)
    if types is None:
        message = f"{t.name_of(x.type)} {_SIGNS[op]} {t.name_of(y.type)} has no meaning."
        fail(tree, message, "Convert one with CAST(… AS type).")
    left, right, result = types
    args = b.settle(b.converted(x, left, tree.this)), b.settle(b.converted(y, right, tree.expression))
    return Call(op, args, result)


def _neg(b: Operands, tree: exp.Expr) -> Loose:
    inner = b.loose(tree.this)
    if not (t.is_numeric(inner.type) or inner.type == t.INTERVAL):
        fail(tree, f"-{t.name_of(inner.type)} has no meaning.")
    if isinstance(inner, Folded):
        return inner.then(lambda v: None if v is None else -v, inner.type)
    return Call("neg", (inner,), inner.type)


def _cast(b: Operands, tree: exp.Expr) -> Loose:
    to = _type(tree.args["to"], tree)
    inner = b.loose(tree.this)
    if not t.castable(inner.type, to):
        fail(tree, f"{t.name_of(inner.type)} cannot be cast to {t.name_of(to)}.")
    try:
        return b.converted(inner, to, tree)
    except BindError:
        if not tree.args.get("safe"):  # CAST of a constant that has no such form is a mistake, TRY_CAST is NULL
            raise
        return Folded(None, to, None, None)


def _type(tree: exp.Expr, cast: exp.Expr) -> pa.DataType:
    """The type in a cast. The length of a text does not matter there, as in Spark; no other type has a parameter."""
    found = _TYPES.get(tree.this)
    if found is None:
        word = tree.sql().upper() if tree.expressions or isinstance(tree.this, exp.Expr) else tree.this.value
        fail(cast, f"{word} is not a type to cast to.", did_you_mean(word, t.BY_NAME.keys() - {"INTERVAL"}))
    only(tree, {"this", "expressions"}, within=cast)
    if tree.expressions and tree.this not in (exp.DType.CHAR, exp.DType.VARCHAR):
        name = t.name_of(found)
        fail(cast, f"{name}(…) is not a type to cast to.", f"Write {name}.")
    return found


# CASE and IF.


def _case(b: Operands, tree: exp.Expr) -> Loose:
    subject, otherwise = tree.this, tree.args.get("default")
    conditions, trees = [], []
    for branch in tree.args["ifs"]:
        only(branch, {"this", "true"})
        if subject is not None:
            conditions.append(compared(b, "eq", subject, branch.this, branch))
        else:
            conditions.append(b.condition(branch.this, "WHEN"))
        trees.append(branch.args["true"])
    trees.append(otherwise)
    return _choice(b, conditions, trees, tree)


def _if(b: Operands, tree: exp.Expr) -> Loose:
    return _choice(b, [b.condition(tree.this, "IF")], [tree.args["true"], tree.args.get("false")], tree)


def _choice(b: Operands, conditions: list[Expr], trees: list[exp.Expr | None], tree: exp.Expr) -> Loose:
    """The value of the first condition that holds, or else the last value; a value that is left out is NULL."""
    values = [b.loose(e) if e is not None else _NOTHING for e in trees]
    joined = _joined([v.type for v in values], tree)
    settled = [b.settle(b.converted(v, joined, tree if e is None else e)) for v, e in zip(values, trees, strict=True)]
    args: list[Expr] = []
    for condition, value in zip(conditions, settled, strict=False):
        args += [condition, value]
    return Call("case", (*args, settled[-1]), joined)


def _joined(types: Sequence[pa.DataType], tree: exp.Expr) -> pa.DataType:
    joined: pa.DataType = t.NULL
    for x in types:
        wider = t.common(joined, x)
        if wider is None:
            message = f"{t.name_of(joined)} and {t.name_of(x)} do not go together here."
            fail(tree, message, "Convert with CAST(… AS type).")
        joined = wider
    return t.STRING if joined == t.NULL else joined


# Functions.


def _concat(b: Operands, tree: exp.Expr) -> Loose:
    if "safe" in tree.args:
        return _function("concat", b, tree)
    text = "".join(part.name for part in tree.expressions)  # strings beside each other: 'a' 'b'
    return Folded(text, t.STRING, None, None)


def _dpipe(b: Operands, tree: exp.Expr) -> Loose:
    return _call(b, "concat", [tree.this, tree.expression], tree)


def _function(name: str, b: Operands, tree: exp.Expr) -> Loose:
    trees: list[exp.Expr] = []
    for given in tree.args.values():
        trees += [e for e in (given if isinstance(given, list) else [given]) if isinstance(e, exp.Expr)]
    return _call(b, name, trees, tree)


def _anonymous(b: Operands, tree: exp.Expr) -> Loose:
    name = name_of(tree)
    if name.lower() in NAMED:
        return _call(b, name.lower(), list(tree.expressions), tree)
    function = b.catalog.functions.get(name)
    if function is None:
        no_function(tree, name, b.catalog)
    if len(tree.expressions) != len(function.takes):
        fail(tree, f"{function.name} takes {len(function.takes)} arguments, found {len(tree.expressions)}.")
    given = zip(tree.expressions, function.takes, strict=True)
    args = tuple(b.settle(b.checked(b.loose(e), want, e, f"{name} takes")) for e, want in given)
    return Call(f"udf:{function.name.lower()}", args, function.gives)


def _call(b: Operands, name: str, trees: list[exp.Expr], tree: exp.Expr) -> Loose:
    signature = NAMED[name]
    written = name_of(tree) if isinstance(tree, exp.Func) else name
    if not signature.least_args <= len(trees) <= signature.most_args:
        least, most = signature.least_args, signature.most_args
        takes = str(least) if least == most else f"{least} to {most}" if most < 255 else f"{least} or more"
        fail(tree, f"{written} takes {takes} argument{'' if takes == '1' else 's'}, found {len(trees)}.")
    values = [b.loose(e) for e in trees]
    resolved = signature.resolve([v.type for v in values])
    if resolved is None:
        given = ", ".join(t.name_of(v.type) for v in values)
        fail(tree, f"{written}({given}) has no meaning.", "Convert with CAST(… AS type).")
    wanted, gives = resolved
    if gives == t.NULL:
        wanted, gives = [t.STRING] * len(wanted), t.STRING
    if name == "round" and len(values) == 2 and not isinstance(values[1], Folded):
        fail(tree, "The number of digits of round must be a constant.")
    args = [b.checked(v, want, e, f"{written} takes") for v, want, e in zip(values, wanted, trees, strict=True)]
    if name == "round" and len(values) == 2:
        digits = values[1]
        assert isinstance(digits, Folded)
        return Call(name, (b.settle(args[0]), Constant(convert(digits.value, t.INT), t.INT)), gives)
    return Call(name, tuple(b.settle(a) for a in args), gives)


# `safe` and `ignore_nulls` say how the dialect divides, joins strings and compares with NULL: always as we do.
KINDS: Mapping[type, Kind] = {
    exp.Paren: kind(_paren, "this"),
    exp.Add: kind(partial(_arithmetic, "add"), "this expression"),
    exp.Sub: kind(partial(_arithmetic, "sub"), "this expression"),
    exp.Mul: kind(partial(_arithmetic, "mul"), "this expression"),
    exp.Div: kind(partial(_arithmetic, "div"), "this expression safe"),
    exp.Mod: kind(partial(_arithmetic, "mod"), "this expression"),
    exp.Neg: kind(_neg, "this"),
    exp.Cast: kind(_cast, "this to"),
    exp.TryCast: kind(_cast, "this to safe"),
    exp.Case: kind(_case, "this ifs default"),
    exp.If: kind(_if, "this true false"),
    exp.DPipe: kind(_dpipe, "this expression safe"),
    exp.Abs: kind(partial(_function, "abs"), "this"),
    exp.Upper: kind(partial(_function, "upper"), "this"),
    exp.Lower: kind(partial(_function, "lower"), "this"),
    exp.Length: kind(partial(_function, "length"), "this binary encoding"),
    exp.Concat: kind(_concat, "expressions safe"),
    exp.Floor: kind(partial(_function, "floor"), "this decimals to"),
    exp.Ceil: kind(partial(_function, "ceil"), "this decimals to"),
    exp.Sqrt: kind(partial(_function, "sqrt"), "this"),
    exp.Round: kind(partial(_function, "round"), "this decimals truncate"),
    exp.Coalesce: kind(partial(_function, "coalesce"), "this expressions"),
    exp.Least: kind(partial(_function, "least"), "this expressions ignore_nulls"),
    exp.Greatest: kind(partial(_function, "greatest"), "this expressions ignore_nulls"),
    exp.Anonymous: kind(_anonymous, "this expressions"),
}
