"""Binding rules for conditions: AND, OR, NOT, comparisons, BETWEEN, IS, LIKE. IN is in `membership.py`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from sqlglot import exp

from eddyline import types as t
from eddyline.errors import BindError
from eddyline.sql.bound import Call, Constant, Expr
from eddyline.sql.constants import PendingConstant
from eddyline.sql.membership import in_list
from eddyline.sql.operands import BindRule, Operand, OperandBinder, rule
from eddyline.sql.scope import fail, span_of
from eddyline.sql.unsupported import refuse_other_args, refuse_subquery

# sqlglot gives these a higher precedence than comparisons, Spark does not.
_AMBIGUOUS = (exp.Between, exp.In, exp.Like, exp.Escape)


def _logical(b: OperandBinder, tree: exp.Expr) -> Operand:
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


def _not(b: OperandBinder, tree: exp.Expr) -> Operand:
    refuse_subquery(tree.this, negated=True)
    return Call("not", (b.condition(tree.this, "NOT"),), t.BOOLEAN)


def compared(b: OperandBinder, op: str, left: exp.Expr, right: exp.Expr, tree: exp.Expr) -> Expr:
    x, y = b.with_common_type(b.operand(left), b.operand(right), tree)
    return Call(op, (b.expr(x), b.expr(y)), t.BOOLEAN)


def _comparison(op: str, b: OperandBinder, tree: exp.Expr) -> Expr:
    for side in (tree.this, tree.expression):
        if isinstance(side.this if isinstance(side, exp.Not) else side, _AMBIGUOUS):
            fail(tree, "What is compared here can be read in two ways.", "Put it in parentheses: a = (b LIKE c).")
    return compared(b, op, tree.this, tree.expression, tree)


def _distinct(b: OperandBinder, tree: exp.Expr) -> Operand:
    return Call("not", (_comparison("same", b, tree),), t.BOOLEAN)


def _between(b: OperandBinder, tree: exp.Expr) -> Operand:
    low = compared(b, "ge", tree.this, tree.args["low"], tree)
    high = compared(b, "le", tree.this, tree.args["high"], tree)
    return Call("and", (low, high), t.BOOLEAN)


def _is(b: OperandBinder, tree: exp.Expr) -> Operand:
    other = tree.expression
    if isinstance(other, exp.Null):
        return Call("is_null", (b.bind(tree.this),), t.BOOLEAN)
    if isinstance(other, exp.Boolean):
        return Call("same", (b.condition(tree.this, "IS"), Constant(bool(other.this), t.BOOLEAN)), t.BOOLEAN)
    fail(tree, "IS takes NULL, NOT NULL, TRUE or FALSE.")


def _like(b: OperandBinder, tree: exp.Expr) -> Operand:
    return _liked(b, tree, b.converted(b.operand(tree.expression), t.STRING, tree.expression))


def _liked(b: OperandBinder, tree: exp.Expr, pattern: Operand) -> Expr:
    like = Call("like", (b.bind(tree.this, t.STRING), b.expr(pattern)), t.BOOLEAN)
    return Call("not", (like,), t.BOOLEAN) if tree.args.get("negate") else like


def _escape(b: OperandBinder, tree: exp.Expr) -> Operand:
    """LIKE with another escape character: the pattern must be a constant and is rewritten with the backslash."""
    like, mark = tree.this, tree.expression
    if not isinstance(like, exp.Like):
        return b.operand(like)
    if not (isinstance(mark, exp.Literal) and mark.is_string and len(mark.name) == 1):
        fail(tree, "ESCAPE takes one quoted character.")
    refuse_other_args(like, RULES[exp.Like].reads)
    pattern = b.converted(b.operand(like.expression), t.STRING, like.expression)
    if not isinstance(pattern, PendingConstant):
        fail(tree, "LIKE … ESCAPE needs a constant pattern.", "Without ESCAPE, the escape character is the backslash.")
    try:
        return _liked(b, like, pattern.then(partial(_backslashed, mark.name), t.STRING))
    except BindError as e:
        e.span = e.span or span_of(like)
        raise


def _backslashed(mark: str, pattern: str | None) -> str | None:
    """A LIKE pattern with the escape character `mark`, rewritten with the backslash."""
    if pattern is None:
        return None
    parts = re.findall(f"{re.escape(mark)}.?|.", pattern, re.DOTALL)
    for part in parts:
        if part[0] == mark and part[1:] not in ("%", "_", mark):
            raise BindError(f"In a pattern, the escape character {mark!r} stands before %, _ or itself.")
    return "".join("\\" + p[1] if p[0] == mark else p.replace("\\", "\\\\") for p in parts)


RULES: Mapping[type, BindRule] = {
    exp.And: rule(_logical, "this expression"),
    exp.Or: rule(_logical, "this expression"),
    exp.Not: rule(_not, "this"),
    exp.EQ: rule(partial(_comparison, "eq"), "this expression"),
    exp.NEQ: rule(partial(_comparison, "ne"), "this expression"),
    exp.LT: rule(partial(_comparison, "lt"), "this expression"),
    exp.LTE: rule(partial(_comparison, "le"), "this expression"),
    exp.GT: rule(partial(_comparison, "gt"), "this expression"),
    exp.GTE: rule(partial(_comparison, "ge"), "this expression"),
    exp.NullSafeEQ: rule(partial(_comparison, "same"), "this expression"),
    exp.NullSafeNEQ: rule(_distinct, "this expression"),
    exp.Between: rule(_between, "this low high"),
    exp.In: rule(in_list, "this expressions query field unnest"),
    exp.Is: rule(_is, "this expression"),
    exp.Like: rule(_like, "this expression negate"),
    exp.Escape: rule(_escape, "this expression"),
}
