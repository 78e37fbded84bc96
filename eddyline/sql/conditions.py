"""Expressions that are true, false or NULL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from sqlglot import exp

from eddyline import types as t
from eddyline.errors import BindError
from eddyline.sql.bound import Call, Constant, Expr
from eddyline.sql.constants import Folded
from eddyline.sql.membership import in_list
from eddyline.sql.operands import Kind, Loose, Operands, kind
from eddyline.sql.scope import fail, span_of
from eddyline.sql.unsupported import only, refuse_subquery

_LOOSER = (exp.Between, exp.In, exp.Like, exp.Escape)  # to sqlglot they bind closer than a comparison, to Spark not


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
    refuse_subquery(tree.this, negated=True)
    return Call("not", (b.condition(tree.this, "NOT"),), t.BOOLEAN)


def compared(b: Operands, op: str, left: exp.Expr, right: exp.Expr, tree: exp.Expr) -> Expr:
    x, y = b.alike(b.loose(left), b.loose(right), tree)
    return Call(op, (b.settle(x), b.settle(y)), t.BOOLEAN)


def _comparison(op: str, b: Operands, tree: exp.Expr) -> Expr:
    for side in (tree.this, tree.expression):
        if isinstance(side.this if isinstance(side, exp.Not) else side, _LOOSER):
            fail(tree, "What is compared here can be read in two ways.", "Put it in parentheses: a = (b LIKE c).")
    return compared(b, op, tree.this, tree.expression, tree)


def _distinct(b: Operands, tree: exp.Expr) -> Loose:
    return Call("not", (_comparison("same", b, tree),), t.BOOLEAN)


def _between(b: Operands, tree: exp.Expr) -> Loose:
    low = compared(b, "ge", tree.this, tree.args["low"], tree)
    high = compared(b, "le", tree.this, tree.args["high"], tree)
    return Call("and", (low, high), t.BOOLEAN)


def _is(b: Operands, tree: exp.Expr) -> Loose:
    other = tree.expression
    if isinstance(other, exp.Null):
        return Call("is_null", (b.bind(tree.this),), t.BOOLEAN)
    if isinstance(other, exp.Boolean):
        return Call("same", (b.condition(tree.this, "IS"), Constant(bool(other.this), t.BOOLEAN)), t.BOOLEAN)
    fail(tree, "IS takes NULL, NOT NULL, TRUE or FALSE.")


def _like(b: Operands, tree: exp.Expr) -> Loose:
    return _liked(b, tree, b.converted(b.loose(tree.expression), t.STRING, tree.expression))


def _liked(b: Operands, tree: exp.Expr, pattern: Loose) -> Expr:
    found = Call("like", (b.bind(tree.this, t.STRING), b.settle(pattern)), t.BOOLEAN)
    return Call("not", (found,), t.BOOLEAN) if tree.args.get("negate") else found


def _escape(b: Operands, tree: exp.Expr) -> Loose:
    """LIKE with an escape character of its own: the pattern is a constant, written anew with the backslash."""
    like, mark = tree.this, tree.expression
    if not isinstance(like, exp.Like):
        return b.loose(like)
    if not (isinstance(mark, exp.Literal) and mark.is_string and len(mark.name) == 1):
        fail(tree, "ESCAPE takes one quoted character.")
    only(like, KINDS[exp.Like].reads)
    pattern = b.converted(b.loose(like.expression), t.STRING, like.expression)
    if not isinstance(pattern, Folded):
        fail(tree, "LIKE … ESCAPE needs a constant pattern.", "Without ESCAPE, the escape character is the backslash.")
    try:
        return _liked(b, like, pattern.then(partial(_backslashed, mark.name), t.STRING))
    except BindError as e:
        e.span = e.span or span_of(like)
        raise


def _backslashed(mark: str, pattern: str | None) -> str | None:
    if pattern is None:
        return None
    parts = re.findall(f"{re.escape(mark)}.?|.", pattern, re.DOTALL)
    for part in parts:
        if part[0] == mark and part[1:] not in ("%", "_", mark):
            raise BindError(f"In a pattern, the escape character {mark!r} stands before %, _ or itself.")
    return "".join("\\" + p[1] if p[0] == mark else p.replace("\\", "\\\\") for p in parts)


KINDS: Mapping[type, Kind] = {
    exp.And: kind(_logical, "this expression"),
    exp.Or: kind(_logical, "this expression"),
    exp.Not: kind(_not, "this"),
    exp.EQ: kind(partial(_comparison, "eq"), "this expression"),
    exp.NEQ: kind(partial(_comparison, "ne"), "this expression"),
    exp.LT: kind(partial(_comparison, "lt"), "this expression"),
    exp.LTE: kind(partial(_comparison, "le"), "this expression"),
    exp.GT: kind(partial(_comparison, "gt"), "this expression"),
    exp.GTE: kind(partial(_comparison, "ge"), "this expression"),
    exp.NullSafeEQ: kind(partial(_comparison, "same"), "this expression"),
    exp.NullSafeNEQ: kind(_distinct, "this expression"),
    exp.Between: kind(_between, "this low high"),
    exp.In: kind(in_list, "this expressions query field unnest"),
    exp.Is: kind(_is, "this expression"),
    exp.Like: kind(_like, "this expression negate"),
    exp.Escape: kind(_escape, "this expression"),
}
