"""Expressions that compute: arithmetic, conversions, CASE and functions by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa
from sqlglot import exp

from eddyline import types as t
from eddyline.errors import did_you_mean
from eddyline.sql.bound import Call, Constant, Expr
from eddyline.sql.catalog import Catalog
from eddyline.sql.conditions import compared
from eddyline.sql.constants import Folded, convert
from eddyline.sql.functions import NAMED, arithmetic
from eddyline.sql.operands import Kind, Loose, Operands
from eddyline.sql.scope import fail

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}
_NOTHING = Folded(None, t.NULL, None, None)


def function_names(catalog: Catalog) -> list[str]:
    return [*NAMED, *catalog.functions.names()]


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
    word = tree.args["to"].sql(dialect="spark").upper()
    to = t.BY_NAME.get(word)
    if to is None or to == t.INTERVAL:
        fail(tree, f"{word} is not a type to cast to.", did_you_mean(word, t.BY_NAME))
    inner = b.loose(tree.this)
    if not t.castable(inner.type, to):
        fail(tree, f"{t.name_of(inner.type)} cannot be cast to {t.name_of(to)}.")
    return b.converted(inner, to, tree)


# CASE and IF.


def _case(b: Operands, tree: exp.Expr) -> Loose:
    subject, otherwise = tree.this, tree.args.get("default")
    conditions, trees = [], []
    for branch in tree.args["ifs"]:
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


def _dpipe(b: Operands, tree: exp.Expr) -> Loose:
    return _call(b, "concat", [tree.this, tree.expression], tree)


def _function(name: str, b: Operands, tree: exp.Expr) -> Loose:
    trees: list[exp.Expr] = []
    for given in tree.args.values():
        trees += [e for e in (given if isinstance(given, list) else [given]) if isinstance(e, exp.Expr)]
    return _call(b, name, trees, tree)


def _anonymous(b: Operands, tree: exp.Expr) -> Loose:
    name = str(tree.this).lower()
    if name in NAMED:
        return _call(b, name, list(tree.expressions), tree)
    function = b.catalog.functions.get(name)
    if function is None:
        fail(tree, f"There is no function {name!r}.", did_you_mean(name, function_names(b.catalog)))
    if len(tree.expressions) != len(function.takes):
        fail(tree, f"{function.name} takes {len(function.takes)} arguments, found {len(tree.expressions)}.")
    given = zip(tree.expressions, function.takes, strict=True)
    args = tuple(b.settle(b.checked(b.loose(e), want, e)) for e, want in given)
    return Call(f"udf:{function.name.lower()}", args, function.gives)


def _call(b: Operands, name: str, trees: list[exp.Expr], tree: exp.Expr) -> Loose:
    signature = NAMED[name]
    if not signature.least_args <= len(trees) <= signature.most_args:
        least, most = signature.least_args, signature.most_args
        takes = str(least) if least == most else f"{least} to {most}" if most < 255 else f"{least} or more"
        fail(tree, f"{name} takes {takes} argument{'' if takes == '1' else 's'}, found {len(trees)}.")
    values = [b.loose(e) for e in trees]
    resolved = signature.resolve([v.type for v in values])
    if resolved is None:
        given = ", ".join(t.name_of(v.type) for v in values)
        fail(tree, f"{name}({given}) has no meaning.", "Convert with CAST(… AS type).")
    wanted, gives = resolved
    if gives == t.NULL:
        wanted, gives = [t.STRING] * len(wanted), t.STRING
    if name == "round" and len(values) == 2 and not isinstance(values[1], Folded):
        fail(tree, "The number of digits of round must be a constant.")
    args = [b.checked(v, want, e) for v, want, e in zip(values, wanted, trees, strict=True)]
    if name == "round" and len(values) == 2:
        digits = values[1]
        assert isinstance(digits, Folded)
        return Call(name, (b.settle(args[0]), Constant(convert(digits.value, t.INT), t.INT)), gives)
    return Call(name, tuple(b.settle(a) for a in args), gives)


KINDS: Mapping[type, Kind] = {
    exp.Paren: Kind(_paren),
    exp.Add: Kind(partial(_arithmetic, "add")),
    exp.Sub: Kind(partial(_arithmetic, "sub")),
    exp.Mul: Kind(partial(_arithmetic, "mul")),
    exp.Div: Kind(partial(_arithmetic, "div")),
    exp.Mod: Kind(partial(_arithmetic, "mod")),
    exp.Neg: Kind(_neg),
    exp.Cast: Kind(_cast),
    exp.TryCast: Kind(_cast),
    exp.Case: Kind(_case),
    exp.If: Kind(_if),
    exp.DPipe: Kind(_dpipe),
    exp.Abs: Kind(partial(_function, "abs")),
    exp.Upper: Kind(partial(_function, "upper")),
    exp.Lower: Kind(partial(_function, "lower")),
    exp.Length: Kind(partial(_function, "length")),
    exp.Concat: Kind(partial(_function, "concat")),
    exp.Floor: Kind(partial(_function, "floor")),
    exp.Ceil: Kind(partial(_function, "ceil")),
    exp.Sqrt: Kind(partial(_function, "sqrt")),
    exp.Round: Kind(partial(_function, "round")),
    exp.Coalesce: Kind(partial(_function, "coalesce")),
    exp.Least: Kind(partial(_function, "least")),
    exp.Greatest: Kind(partial(_function, "greatest")),
    exp.Anonymous: Kind(_anonymous),
}
