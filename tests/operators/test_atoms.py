"""Atoms as ranges against evaluating them: the ranges of every query accept a row exactly where the atom is true."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline import types as t
from eddyline.index.filters.clauses import ValueRanges
from eddyline.index.filters.domains import as_integers
from eddyline.operators.atoms import accepted_ranges, leading
from eddyline.operators.evaluate import evaluate, holds
from eddyline.plan.atoms import Atom, atom, is_constant
from eddyline.plan.normal_form import clauses
from eddyline.sql.bound import Call, Column, Constant, Expr, Param

NAN, INF = math.nan, math.inf
TINY = dt.timedelta(microseconds=1)
TIMES = [dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2026, 5, 1)]
DAYS = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]
TEXTS = ["", "\0", "a", "a\0", "a\0b", "ab", "b", "A", "é", "éa", "e", "ê", "\uffff", "\U0001f600", "\U0010ffff"]
VALUES: dict[pa.DataType, list[Any]] = {
    t.BOOLEAN: [False, True],
    t.BYTE: [-128, -127, -1, 0, 1, 126, 127],
    t.SHORT: [-(2**15), -1, 0, 2**15 - 1],
    t.INT: [-(2**31), -(2**31) + 1, 0, 5, 6, 2**31 - 1],
    t.BIGINT: [-(2**63), -(2**63) + 1, -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1],
    t.FLOAT: [-INF, -3.5, -1e-45, -0.0, 0.0, 1e-45, 0.5, 3.4028234663852886e38, INF, NAN],
    t.DOUBLE: [-INF, -1.7976931348623157e308, -1.0, -5e-324, -0.0, 0.0, 5e-324, 0.1, 0.1 + 0.2, 0.3, INF, NAN],
    t.STRING: TEXTS,
    t.DATE: DAYS,
    t.TIMESTAMP: [*TIMES, *(x + TINY for x in TIMES), dt.datetime.max],
    t.INTERVAL: [-TINY, dt.timedelta(0), TINY, dt.timedelta(days=3)],
}
TYPES = list(VALUES)
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge", "same"]
PATTERNS = [
    "a%", "a", "%", "", "a_%", "a%%", "_", "%a", "a%b", "é%", "é", "é_", "\\%", "\\%%", "a\\", "a\\\\", "a\\\\%", "\\_",
    "a\\%b%", "%%", "_%", "\\", "\\\\", "\0%", "\uffff%", "\U0010ffff%", "\U0010ffff", "A%", "a\n%", "a%\\",
]  # fmt: skip
LIKE_TEXTS = [
    *TEXTS,
    "%",
    "%x",
    "a%b",
    "a%bc",
    "_",
    "_x",
    "\\",
    "a\\",
    "a\\\\",
    "a\\b",
    "aa",
    "ba",
    "a\n",
    "a\nb",
    "aé",
    "é_",
]


def call(function: str, *args: Expr) -> Call:
    return Call(function, args, t.BOOLEAN)


def accepts(found: list[ValueRanges], column: pa.Array, n: int) -> np.ndarray:
    """By query and row, whether a piece accepts: by comparing plain values with the ends."""
    text = column.type == t.STRING
    plain: list[Any] = [None if x is None else x.encode() for x in column.to_pylist()] if text else []
    if not text:
        numbers, missing = as_integers(column)
        plain = [None if m else x for x, m in zip(numbers.tolist(), missing.tolist(), strict=True)]
    mask = np.zeros((n, len(column)), np.bool_)
    for p in found:
        starts, stops = (x.to_pylist() if isinstance(x, pa.Array) else x.tolist() for x in (p.start, p.stop))
        for i, query in enumerate(p.owner.tolist()):
            for row, x in enumerate(plain):
                if x is None or p.null[i]:
                    mask[query, row] |= x is None and p.null[i]
                else:
                    mask[query, row] |= (p.no_start[i] or starts[i] <= x) and (p.no_stop[i] or x < stops[i])
    return mask


def agrees(found: Atom | None, expr: Expr, column: pa.Array, params: pa.Array) -> np.ndarray:
    """Compares the ranges of an atom with the truth; returns for which queries they are only part of it."""
    assert found is not None, expr
    n = len(params)
    given, partial = accepted_ranges(found, lambda e: evaluate(e, (), [params], n), n)
    mine = accepts(given, column, n)
    rows, queries = np.tile(np.arange(len(column)), n), np.repeat(np.arange(n), len(column))
    columns, values = [column.take(pa.array(rows))], [params.take(pa.array(queries))]
    wanted = holds(expr, columns, values, len(rows)).reshape(n, len(column))
    for i in range(n):
        for row in range(len(column)):
            right = mine[i, row] or not wanted[i, row] if partial[i] else mine[i, row] == wanted[i, row]
            assert right, f"{expr} of {column[row]} and {params[i]}: {wanted[i, row]}"
    return partial


def check(expr: Expr, column: pa.Array, params: pa.Array) -> np.ndarray:
    """The same of a condition that has one atom in normal form."""
    ((only,),) = clauses(expr)
    return agrees(atom(only), expr, column, params)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("op", COMPARISONS)
def test_a_comparison_accepts_exactly_the_values_for_which_it_is_true(type_: pa.DataType, op: str) -> None:
    column, param = Column(0, type_, "x"), Param(0, type_, "p")
    values = pa.array([*VALUES[type_], None], type_)
    for expr in (call(op, column, param), call(op, param, column)):
        assert not check(expr, values, values).any()
        assert not check(call("not", expr), values, values).any()
        assert not check(call("not", call("not", expr)), values, values).any()


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_being_null_is_a_piece_of_its_own(type_: pa.DataType) -> None:
    values = pa.array([*VALUES[type_], None], type_)
    some = pa.array([1, None, 3], t.INT)
    expr = call("is_null", Column(0, type_, "x"))
    assert not check(expr, values, some).any()
    assert not check(call("not", expr), values, some).any()


@pytest.mark.parametrize("op", COMPARISONS)
def test_a_negated_comparison_that_was_not_turned_around_is_its_opposite_or_no_atom(op: str) -> None:
    values = pa.array([None, 1, 2, 3], t.INT)
    expr = call("not", call(op, Column(0, t.INT, "x"), Param(0, t.INT, "p")))
    if atom(expr) is not None:
        agrees(atom(expr), expr, values, values)


@pytest.mark.parametrize("negated", [False, True])
def test_a_pattern_accepts_what_it_matches_or_at_least_that(negated: bool) -> None:
    like = call("like", Column(0, t.STRING, "x"), Param(0, t.STRING, "p"))
    texts = pa.array([*LIKE_TEXTS, None], t.STRING)
    patterns = pa.array([*PATTERNS, None], t.STRING)
    partial = check(call("not", like) if negated else like, texts, patterns)
    exact = {p for p, x in zip(PATTERNS, partial.tolist(), strict=False) if not x}
    assert exact == {p for p in PATTERNS if leading(p)[1] != "partly"} and {"a%", "a", "%", "", "é%", "a\\"} <= exact
    assert {"a_%", "_", "%a", "a%b", "é_", "a%\\"} == {p for p in PATTERNS if p not in exact} - {"_%"}


@pytest.mark.parametrize(
    ("pattern", "literal", "kind"),
    [
        ("a%", "a", "prefix"),
        ("a", "a", "whole"),
        ("", "", "whole"),
        ("%", "", "prefix"),
        ("%%%", "", "prefix"),
        ("a%%", "a", "prefix"),
        ("a_%", "a", "partly"),
        ("a%b", "a", "partly"),
        ("50\\%", "50%", "whole"),
        ("50\\%%", "50%", "prefix"),
        ("\\_\\\\%", "_\\", "prefix"),
        ("end\\", "end\\", "whole"),
        ("a\\b", "ab", "whole"),
        ("a\n%", "a\n", "prefix"),
    ],
)
def test_the_text_before_the_first_wildcard(pattern: str, literal: str, kind: str) -> None:
    assert leading(pattern) == (literal, kind)


@pytest.mark.parametrize("op", [*COMPARISONS, "like"])
def test_no_queries_have_no_ranges(op: str) -> None:
    for type_ in (t.STRING,) if op == "like" else (t.STRING, t.DOUBLE):
        for negated in (False, True):
            expr = call(op, Column(0, type_, "x"), Param(0, type_, "p"))
            ((only,),) = clauses(call("not", expr) if negated else expr)
            found = atom(only)
            assert found is not None
            given, partial = accepted_ranges(found, lambda e, type_=type_: pa.array([], type_), 0)  # type: ignore[misc]
            assert all(len(p.owner) == 0 for p in given) and len(partial) == 0


X, Y = Column(0, t.INT, "x"), Column(1, t.INT, "y")
P, Q = Param(0, t.INT, "p"), Param(1, t.INT, "q")
SUM = Call("add", (X, Y), t.INT)
UDF = Call("udf:f", (X,), t.INT)


def test_an_attribute_is_any_expression_over_columns_alone() -> None:
    both = Call("add", (P, Q), t.INT)
    assert atom(call("lt", SUM, both)) == Atom("lt", SUM, both)
    assert atom(call("lt", both, SUM)) == Atom("gt", SUM, both)
    assert atom(call("same", P, X)) == Atom("same", X, P)


def test_a_condition_over_columns_alone_is_an_attribute_that_must_be_true() -> None:
    true = Constant(True, t.BOOLEAN)
    for expr in (
        call("lt", X, Y),
        call("not", call("like", X, Constant("a%", t.STRING))),
        call("lt", X, Constant(3, t.INT)),
    ):
        assert atom(expr) == Atom("eq", expr, true)
    assert atom(call("not", call("is_null", SUM))) == Atom("is_null", SUM, true, negated=True)


@pytest.mark.parametrize(
    "expr",
    [
        call("lt", Call("add", (X, P), t.INT), Q),
        call("lt", UDF, P),
        call("lt", Call("udf:f", (P, X), t.INT), Q),
        call("is_null", UDF),
        call("is_null", Call("add", (X, P), t.INT)),
        call("in", X, P, Q),
        call("case", call("lt", X, P), call("lt", X, Q), call("lt", Y, P)),
        call("like", P, X),
        call("eq", P, Q),
        call("not", call("eq", Call("mul", (X, P), t.INT), Q)),
    ],
    ids=str,
)
def test_what_mixes_columns_with_parameters_or_calls_a_function_of_columns_is_no_atom(expr: Expr) -> None:
    assert atom(expr) is None
    assert is_constant(expr) == (expr == call("eq", P, Q))
