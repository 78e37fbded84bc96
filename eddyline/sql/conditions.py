"""Expressions that are true, false or NULL."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from sqlglot import exp

from eddyline import types as t
from eddyline.sql.bound import Call, Constant, Expr
from eddyline.sql.constants import Folded
from eddyline.sql.operands import Kind, Loose, Operands
from eddyline.sql.scope import fail


def _logical(b: Operands, tree: exp.Expr) -> Loose:
    op = "and" if isinstance(tree, exp.And) else "or"
    parts: list[Expr] = []
    stack = [tree]
    while stack:  # a long chain is a deep tree: flatten it without recursion
        top = stack.pop()
        if type(top) is type(tree):
            stack += [top.expression, top.this]
        elif isinstance(top, exp.Paren) and type(top.this) is type(tree):
            stack.append(top.this)
        else:
            parts.append(b.condition(top, op.upper()))
    return Call(op, tuple(parts), t.BOOLEAN)


def _not(b: Operands, tree: exp.Expr) -> Loose:
    return Call("not", (b.condition(tree.this, "NOT"),), t.BOOLEAN)


def compared(b: Operands, op: str, left: exp.Expr, right: exp.Expr, tree: exp.Expr) -> Expr:
    x, y = b.alike(b.loose(left), b.loose(right), tree)
    return Call(op, (b.settle(x), b.settle(y)), t.BOOLEAN)


def _comparison(op: str, b: Operands, tree: exp.Expr) -> Loose:
    return compared(b, op, tree.this, tree.expression, tree)


def _between(b: Operands, tree: exp.Expr) -> Loose:
    low = compared(b, "ge", tree.this, tree.args["low"], tree)
    high = compared(b, "le", tree.this, tree.args["high"], tree)
    return Call("and", (low, high), t.BOOLEAN)


def _in(b: Operands, tree: exp.Expr) -> Loose:
    if tree.args.get("query") or tree.args.get("field") or tree.args.get("unnest"):
        fail(tree, "IN takes a list of values.", "Join with the other source instead of a subquery.")
    subject = b.loose(tree.this)
    items = [b.loose(e) for e in tree.expressions]
    if not items:
        fail(tree, "IN needs at least one value.")
    joined = subject.type
    for item, e in zip(items, tree.expressions, strict=True):
        x, y = b.alike(Constant(None, joined) if not isinstance(subject, Folded) else subject, item, e)
        joined = t.common(x.type, y.type) or joined
    trees = [tree.this, *tree.expressions]
    args = [b.converted(x, joined, e) for x, e in zip([subject, *items], trees, strict=True)]
    return Call("in", tuple(b.settle(x) for x in args), t.BOOLEAN)


def _is(b: Operands, tree: exp.Expr) -> Loose:
    other = tree.expression
    if isinstance(other, exp.Null):
        return Call("is_null", (b.bind(tree.this),), t.BOOLEAN)
    if isinstance(other, exp.Boolean):
        return Call("same", (b.condition(tree.this, "IS"), Constant(bool(other.this), t.BOOLEAN)), t.BOOLEAN)
    fail(tree, "IS takes NULL, NOT NULL, TRUE or FALSE.")


def _like(b: Operands, tree: exp.Expr) -> Loose:
    return Call("like", (b.bind(tree.this, t.STRING), b.bind(tree.expression, t.STRING)), t.BOOLEAN)


KINDS: Mapping[type, Kind] = {
    exp.And: Kind(_logical),
    exp.Or: Kind(_logical),
    exp.Not: Kind(_not),
    exp.EQ: Kind(partial(_comparison, "eq")),
    exp.NEQ: Kind(partial(_comparison, "ne")),
    exp.LT: Kind(partial(_comparison, "lt")),
    exp.LTE: Kind(partial(_comparison, "le")),
    exp.GT: Kind(partial(_comparison, "gt")),
    exp.GTE: Kind(partial(_comparison, "ge")),
    exp.NullSafeEQ: Kind(partial(_comparison, "same")),
    exp.Between: Kind(_between),
    exp.In: Kind(_in),
    exp.Is: Kind(_is),
    exp.Like: Kind(_like),
}
