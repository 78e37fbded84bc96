"""Random expressions over random batches against the reference, row by row."""

from datetime import timedelta
from functools import cache
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline import types as t
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.reference.scalar import value as reference
from eddyline.sql.bound import Call, Column, Constant, Expr, Param
from tests.operators.edges import BIG, INF, NAN, SECOND, SMALL, array, printed

INTEGERS = (t.BYTE, t.SHORT, t.INT, t.BIGINT)
NUMBERS = (*INTEGERS, t.FLOAT, t.DOUBLE)
TYPES = (t.BOOLEAN, *NUMBERS, t.STRING, t.DATE, t.TIMESTAMP, t.INTERVAL)
TEXTS = ["", " 1 ", "0", "-0", "+12", "128", "99999999999999999999", "1.5", " -2e3", ".5", "1e400", "inf", "-Infinity"]
TEXTS += ["NaN", "1_0", "x", "0x10", "TRUE ", "f", "2026-01-31", " 2026-02-30", "2026-01-31 12:30:00", "1 2"]
TEXTS += [
    "yes",
    "N",
    "+nan",
    "1.5d",
    "\u0663",
    "\u00a01",
    "\x001\x7f",
    "2026",
    "2026-1-5",
    "20260131",
    "2026-W05-1",
    "T12:30",
]
TEXTS += [
    "2026-01-31 x",
    "2026-01-31T1:2",
    "2026-01-31 12:30Z",
    "2026-01-31 12:30:00.1234567+2",
    "0001-01-01 0:0:0 UTC+1",
]
TEXTS += ["9999-12-31 23:59:59 America/New_York", "2026-03-29 02:30:00 Europe/Berlin"]
UNITS = (1, 1_000_000, 604_800_000_000)


def integers(type: pa.DataType) -> st.SearchStrategy[int]:
    limit = 2 ** (type.bit_width - 1)
    edges = [-limit, -limit + 1, -2, -1, 0, 1, 2, limit - 1]
    return st.sampled_from(edges) | st.integers(-limit, limit - 1)


def floats(width: int) -> st.SearchStrategy[float]:
    return st.sampled_from([0.0, -0.0, 0.5, -2.5, 1.25, NAN, INF, -INF, 2.0**63]) | st.floats(width=width)


VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    t.BOOLEAN: st.booleans(),
    **{type: integers(type) for type in INTEGERS},
    t.FLOAT: floats(32),
    t.DOUBLE: floats(64) | st.decimals(-1000, 1000, places=3).map(float),
    t.STRING: st.text("ab%_\\\n.é\U0001f600ßΣ", max_size=4) | st.text(max_size=4) | st.sampled_from(TEXTS),
    t.DATE: st.dates(),
    t.TIMESTAMP: st.datetimes().map(lambda moment: moment.replace(fold=0)),
    t.INTERVAL: st.timedeltas(timedelta(microseconds=SMALL), timedelta(microseconds=BIG))
    | st.timedeltas(-SECOND, SECOND),
}
TEXT_COLUMN = len(TYPES)  # a column of TEXTS after one column of each type


@cache
def leaves(type: pa.DataType) -> st.SearchStrategy[Expr]:
    i = TYPES.index(type)
    column, param = Column(i, type, f"c{i}"), [Param(2 * i + j, type, f"p{i}") for j in (0, 1)]
    constants = st.none() | VALUES[type]
    return st.just(column) | st.sampled_from([column, *param]) | constants.map(lambda v: Constant(v, type))


@cache
def calls(type: pa.DataType, depth: int) -> st.SearchStrategy[Expr]:
    """A call that gives `type`; its arguments are trees of smaller depth."""

    def of(function: str, *takes: pa.DataType) -> st.SearchStrategy[Expr]:
        return st.tuples(*(trees(x, depth - 1) for x in takes)).map(lambda args: Call(function, args, type))

    def many(function: str, takes: pa.DataType, least: int = 1, first: tuple[pa.DataType, ...] = ()) -> Any:
        rest = st.lists(trees(takes, depth - 1), min_size=least, max_size=3).map(tuple)
        head = st.tuples(*(trees(x, depth - 1) for x in first))
        return st.tuples(head, rest).map(lambda parts: Call(function, parts[0] + parts[1], type))

    def with_constant(function: str, takes: pa.DataType, constant: st.SearchStrategy[Constant]) -> Any:
        return st.tuples(trees(takes, depth - 1), constant).map(lambda args: Call(function, args, type))

    texts = st.just(Column(TEXT_COLUMN, t.STRING, "text")) | st.sampled_from(TEXTS).map(lambda s: Constant(s, t.STRING))
    from_text = texts.map(lambda text: Call("cast", (text,), type))
    found = [
        of("case", t.BOOLEAN, type, type),
        of("case", t.BOOLEAN, type, t.BOOLEAN, type, type),
        of("udf:odd", type, t.STRING),
        *(many(f, type) for f in ("coalesce", "least", "greatest")),
    ]
    if type == t.BOOLEAN:
        for takes in TYPES:
            found += [of(f, takes, takes) for f in ("eq", "ne", "lt", "le", "gt", "ge", "same")]
            found += [of("is_null", takes), many("in", takes, first=(takes,))]
        found += [of("not", t.BOOLEAN), of("like", t.STRING, t.STRING), many("and", t.BOOLEAN), many("or", t.BOOLEAN)]
        found += [*(of("cast", x) for x in NUMBERS), from_text]
    if type in NUMBERS:
        found += [of(f, type, type) for f in ("add", "sub", "mul", "mod")] + [of("neg", type), of("abs", type)]
        found += [*(of("cast", x) for x in (t.BOOLEAN, *NUMBERS) if x != type), from_text]
    if type == t.BIGINT:
        found += [of("floor", t.DOUBLE), of("ceil", t.DOUBLE)]
    if type == t.INT:
        found += [of("length", t.STRING)]
    if type == t.DOUBLE:
        digits = st.integers(-4, 6) | st.sampled_from([None, -400, -23, 22, 23, 350])
        found += [of("div", t.DOUBLE, t.DOUBLE), of("sqrt", t.DOUBLE), of("round", t.DOUBLE)]
        found += [with_constant("round", t.DOUBLE, digits.map(lambda n: Constant(n, t.INT)))]
    if type == t.STRING:
        found += [of("upper", t.STRING), of("lower", t.STRING), many("concat", t.STRING)]
        found += [of("cast", x) for x in (t.BOOLEAN, *NUMBERS, t.DATE, t.TIMESTAMP, t.INTERVAL)]
    if type == t.DATE:
        found += [of("cast", t.TIMESTAMP), from_text]
    if type == t.TIMESTAMP:
        found += [of("cast", t.DATE), from_text, of("add", t.INTERVAL, t.TIMESTAMP)]
        found += [of(f, t.TIMESTAMP, t.INTERVAL) for f in ("add", "sub")]
    if type == t.INTERVAL:
        units = st.sampled_from(UNITS).map(lambda u: Constant(u, t.BIGINT))
        found += [of("add", type, type), of("sub", type, type), of("sub", t.TIMESTAMP, t.TIMESTAMP)]
        found += [of("mul", type, t.BIGINT), of("mul", t.BIGINT, type), of("neg", type), of("abs", type)]
        found += [with_constant("interval", x, units) for x in (t.BIGINT, t.DOUBLE)]
    return st.one_of(found)


@cache
def trees(type: pa.DataType, depth: int) -> st.SearchStrategy[Expr]:
    return leaves(type) if depth == 0 else st.deferred(lambda: leaves(type) | calls(type, depth))


def odd(x: Any, text: str | None) -> Any:
    """A user's function that gives back its argument, NULL, or an error."""
    if text == "a":
        raise ValueError(text)
    return x


@st.composite
def cases(draw: st.DrawFn) -> tuple[Expr, list[list[Any]], list[Any]]:
    """An expression, its columns, and its params: the even ones arrays, the odd ones scalars."""
    length = draw(st.integers(0, 6))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(st.none() | values, min_size=length, max_size=length))

    expr = draw(calls(draw(st.sampled_from(TYPES)), 2))
    columns = [column(VALUES[type]) for type in TYPES] + [column(st.sampled_from(TEXTS))]
    params = [given_param for type in TYPES for given_param in (column(VALUES[type]), draw(st.none() | VALUES[type]))]
    return expr, columns, params


@settings(max_examples=200, deadline=None, print_blob=True)
@given(cases())
def test_random_expressions_have_the_values_of_the_reference(case: tuple[Expr, list[list[Any]], list[Any]]) -> None:
    expr, columns, params = case
    length = len(columns[0])
    arrays = [array(c, type) for c, type in zip(columns, [*TYPES, t.STRING], strict=True)]
    given_params = [
        array(p, TYPES[i // 2]) if i % 2 == 0 else array([p], TYPES[i // 2])[0] for i, p in enumerate(params)
    ]
    result = evaluate(expr, arrays, given_params, length, Functions({"odd": odd}, {}))
    result.validate(full=True)
    assert isinstance(result, pa.Array) and result.type == expr.type and len(result) == length
    for row, found in enumerate(result.to_pylist()):
        values = tuple(c[row] for c in columns)
        row_params = tuple(p[row] if i % 2 == 0 else p for i, p in enumerate(params))
        assert printed(found) == printed(reference(expr, values, row_params, {"odd": odd})), row
