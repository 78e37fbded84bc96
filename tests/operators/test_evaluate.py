"""Expressions over batches: hand-made edges of every function, then random trees against the reference."""

import math
from datetime import date, datetime, timedelta, timezone
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline import types as t
from eddyline.operators.evaluate import Functions, evaluate, holds
from eddyline.reference.scalar import value as reference
from eddyline.sql.bound import Call, Column, Constant, Expr, Param

NAN, INF = math.nan, math.inf
BIG, SMALL = 2**63 - 1, -(2**63)
SECOND = timedelta(seconds=1)
NOON = datetime(2026, 1, 31, 12, 30)


def printed(x: Any) -> str:
    """A text that tells values apart as the language can: all NaN are one, -0.0 is not 0.0."""
    return repr(x)


def array(values: list[Any], type: pa.DataType) -> pa.Array:
    """pyarrow does not take a timedelta near the least one; as microseconds it does."""
    return pa.array([v // timedelta(microseconds=1) if isinstance(v, timedelta) else v for v in values], type)


def both(function: str, gives: pa.DataType, takes: list[pa.DataType], args: tuple[Any, ...]) -> list[Any]:
    """The value on constants, on columns, and on each mixture of a column and constants; they must be one."""
    results = []
    for kept in [None, *range(len(args)), "all"]:
        exprs: list[Expr] = []
        columns = []
        for i, (arg, type) in enumerate(zip(args, takes, strict=True)):
            if kept in (i, "all") and not (function in ("round", "interval") and i == 1):
                exprs.append(Column(len(columns), type, "c"))
                columns.append(array([arg, None, arg], type))
            else:
                exprs.append(Constant(arg, type))
        result = evaluate(Call(function, tuple(exprs), gives), columns, [], 3)
        assert isinstance(result, pa.Array) and result.type == gives and len(result) == 3
        result.validate(full=True)
        results += [result[0].as_py(), result[2].as_py()]
    assert len({printed(r) for r in results}) == 1, results
    return results


ONE_TYPE = [
    ("add", t.BIGINT, (BIG, 1), None),
    ("add", t.BIGINT, (SMALL, BIG), -1),
    ("add", t.INT, (2**31 - 1, 1), None),
    ("add", t.BYTE, (100, 27), 127),
    ("add", t.BYTE, (100, 28), None),
    ("add", t.SHORT, (-(2**15), -1), None),
    ("add", t.BIGINT, (None, 1), None),
    ("add", t.FLOAT, (0.1, 0.2), 0.30000001192092896),
    ("add", t.INTERVAL, (timedelta(microseconds=BIG), SECOND), None),
    ("sub", t.BIGINT, (SMALL, 1), None),
    ("sub", t.BIGINT, (0, SMALL), None),
    ("sub", t.INTERVAL, (SECOND, 3 * SECOND), -2 * SECOND),
    ("mul", t.BIGINT, (2**62, 2), None),
    ("mul", t.BIGINT, (-(2**62), 2), SMALL),
    ("mul", t.BIGINT, (SMALL, -1), None),
    ("mul", t.BIGINT, (SMALL, SMALL), None),
    ("mul", t.BIGINT, (3037000500, 3037000500), None),
    ("mul", t.BIGINT, (3037000499, 3037000499), 9223372030926249001),
    ("mul", t.SHORT, (256, 128), None),
    ("mul", t.FLOAT, (3e38, 10.0), INF),
    ("mul", t.DOUBLE, (1e308, 10.0), INF),
    ("div", t.DOUBLE, (1.0, 0.0), None),
    ("div", t.DOUBLE, (0.0, -0.0), None),
    ("div", t.DOUBLE, (NAN, 0.0), None),
    ("div", t.DOUBLE, (1.0, 4.0), 0.25),
    ("mod", t.BIGINT, (-7, 3), -1),
    ("mod", t.BIGINT, (7, -3), 1),
    ("mod", t.BIGINT, (7, 0), None),
    ("mod", t.BIGINT, (SMALL, -1), 0),
    ("mod", t.BYTE, (-128, -1), 0),
    ("mod", t.DOUBLE, (-7.5, 2.0), -1.5),
    ("mod", t.DOUBLE, (1.0, 0.0), None),
    ("mod", t.DOUBLE, (INF, 2.0), NAN),
    ("mod", t.DOUBLE, (2.0, -INF), 2.0),
    ("mod", t.DOUBLE, (None, 2.0), None),
    ("neg", t.BIGINT, (SMALL,), None),
    ("neg", t.BYTE, (-128,), None),
    ("neg", t.BYTE, (5,), -5),
    ("neg", t.DOUBLE, (0.0,), -0.0),
    ("neg", t.INTERVAL, (timedelta(microseconds=SMALL),), None),
    ("abs", t.INT, (-(2**31),), None),
    ("abs", t.INT, (-5,), 5),
    ("abs", t.DOUBLE, (-0.0,), 0.0),
    ("abs", t.INTERVAL, (-SECOND,), SECOND),
    ("round", t.DOUBLE, (2.5,), 3.0),
    ("round", t.DOUBLE, (-2.5,), -3.0),
    ("round", t.DOUBLE, (0.49999999999999994,), 0.0),
    ("round", t.DOUBLE, (4503599627370497.0,), 4503599627370497.0),
    ("round", t.DOUBLE, (-0.2,), -0.0),
    ("round", t.DOUBLE, (NAN,), NAN),
    ("round", t.DOUBLE, (-INF,), -INF),
    ("sqrt", t.DOUBLE, (-1.0,), NAN),
    ("sqrt", t.DOUBLE, (6.25,), 2.5),
    ("coalesce", t.INT, (None, 3, 4), 3),
    ("coalesce", t.INT, (None, None), None),
    ("least", t.DOUBLE, (NAN, None, 1.0), 1.0),
    ("least", t.DOUBLE, (NAN, None), NAN),
    ("least", t.STRING, ("\U0001f600", "\uffff", "a", None), "a"),
    ("least", t.BOOLEAN, (True, False), False),
    ("greatest", t.DOUBLE, (NAN, None, INF), NAN),
    ("greatest", t.INT, (None, None), None),
    ("greatest", t.STRING, ("\U0001f600", "\uffff"), "\U0001f600"),
    ("greatest", t.INTERVAL, (SECOND, 2 * SECOND, -SECOND), 2 * SECOND),
    ("upper", t.STRING, ("aéß",), "AÉSS"),
    ("upper", t.STRING, ("ab1",), "AB1"),
    ("lower", t.STRING, ("ΑΣ",), "ας"),
    ("concat", t.STRING, ("a", "é", ""), "aé"),
    ("concat", t.STRING, ("a",), "a"),
    ("concat", t.STRING, ("a", None), None),
    ("and", t.BOOLEAN, (None, False, True), False),
    ("and", t.BOOLEAN, (None, True), None),
    ("or", t.BOOLEAN, (None, True, False), True),
    ("or", t.BOOLEAN, (None, False), None),
    ("not", t.BOOLEAN, (None,), None),
    ("not", t.BOOLEAN, (False,), True),
]


@pytest.mark.parametrize(("function", "type", "args", "expected"), ONE_TYPE)
def test_a_function_of_one_type(function: str, type: pa.DataType, args: tuple[Any, ...], expected: Any) -> None:
    assert printed(both(function, type, [type] * len(args), args)[0]) == printed(expected)


@pytest.mark.parametrize(
    ("function", "type", "args", "expected"),
    [
        ("eq", t.DOUBLE, (NAN, NAN), True),
        ("eq", t.DOUBLE, (NAN, 1.0), False),
        ("eq", t.DOUBLE, (-NAN, math.copysign(NAN, -1)), True),
        ("eq", t.DOUBLE, (0.0, -0.0), True),
        ("eq", t.FLOAT, (NAN, NAN), True),
        ("ne", t.DOUBLE, (NAN, NAN), False),
        ("gt", t.DOUBLE, (NAN, INF), True),
        ("lt", t.DOUBLE, (NAN, INF), False),
        ("lt", t.DOUBLE, (-INF, NAN), True),
        ("ge", t.DOUBLE, (NAN, NAN), True),
        ("le", t.DOUBLE, (-1.0, -2.0), False),
        ("lt", t.DOUBLE, (-0.0, 0.0), False),
        ("lt", t.BOOLEAN, (False, True), True),
        ("ge", t.BOOLEAN, (False, True), False),
        ("lt", t.STRING, ("Z", "a"), True),
        ("lt", t.STRING, ("\uffff", "\U0001f600"), True),
        ("lt", t.DATE, (date(1969, 1, 1), date(2026, 1, 1)), True),
        ("gt", t.INTERVAL, (SECOND, -SECOND), True),
        ("eq", t.INT, (None, None), None),
        ("same", t.INT, (None, None), True),
        ("same", t.INT, (None, 1), False),
        ("same", t.DOUBLE, (None, NAN), False),
        ("same", t.DOUBLE, (NAN, NAN), True),
        ("same", t.BOOLEAN, (None, True), False),
        ("is_null", t.INT, (None,), True),
        ("is_null", t.DOUBLE, (NAN,), False),
        ("is_null", t.NULL, (None,), True),
        ("in", t.INT, (1, 2, 1), True),
        ("in", t.INT, (1, None, 1), True),
        ("in", t.INT, (1, None, 2), None),
        ("in", t.INT, (None, 1), None),
        ("in", t.INT, (1, 2, 3), False),
        ("in", t.DOUBLE, (NAN, 1.0, NAN), True),
        ("in", t.DOUBLE, (0.0, 1.0, -0.0), True),
        ("like", t.STRING, ("abc", "a%"), True),
        ("like", t.STRING, ("abc", "%c"), True),
        ("like", t.STRING, ("abc", "%b%"), True),
        ("like", t.STRING, ("abc", "abc"), True),
        ("like", t.STRING, ("abc", ""), False),
        ("like", t.STRING, ("", ""), True),
        ("like", t.STRING, ("", "%%"), True),
        ("like", t.STRING, ("", "_"), False),
        ("like", t.STRING, ("abc", "%_"), True),
        ("like", t.STRING, ("abc", "a%%c"), True),
        ("like", t.STRING, ("abc", "a_"), False),
        ("like", t.STRING, ("ABC", "a%"), False),
        ("like", t.STRING, ("a\nb", "a_b"), True),
        ("like", t.STRING, ("a\nb\n", "a%b"), False),
        ("like", t.STRING, ("a\n", "a"), False),
        ("like", t.STRING, ("a\n", "_"), False),
        ("like", t.STRING, ("é😀", "__"), True),
        ("like", t.STRING, ("a%", "a\\%"), True),
        ("like", t.STRING, ("ab", "a\\%"), False),
        ("like", t.STRING, ("a\\", "a\\\\"), True),
        ("like", t.STRING, ("b\\", "%\\\\"), True),
        ("like", t.STRING, ("b\\", "_\\\\"), True),
        ("like", t.STRING, ("b\\", "b\\"), True),
        ("like", t.STRING, ("a.c", "a.c"), True),
        ("like", t.STRING, ("abc", "_.c"), False),
        ("like", t.STRING, ("[a]^$", "[_]^$"), True),
        ("like", t.STRING, ("a\0b_c", "%\0_\\_c"), True),
        ("like", t.STRING, ("a" * 500000, "_" * 500000), True),
        ("like", t.STRING, ("a", None), None),
        ("like", t.STRING, (None, "%"), None),
    ],
)
def test_a_condition(function: str, type: pa.DataType, args: tuple[Any, ...], expected: bool | None) -> None:
    assert both(function, t.BOOLEAN, [type] * len(args), args)[0] is expected


@pytest.mark.parametrize(
    ("function", "gives", "takes", "args", "expected"),
    [
        ("floor", t.BIGINT, [t.DOUBLE], (-1.5,), -2),
        ("ceil", t.BIGINT, [t.DOUBLE], (-1.5,), -1),
        ("floor", t.BIGINT, [t.DOUBLE], (2.0**63,), None),
        ("floor", t.BIGINT, [t.DOUBLE], (-(2.0**63),), SMALL),
        ("ceil", t.BIGINT, [t.DOUBLE], (NAN,), None),
        ("floor", t.BIGINT, [t.DOUBLE], (-INF,), None),
        ("length", t.INT, [t.STRING], ("aé😀",), 3),
        ("round", t.DOUBLE, [t.DOUBLE, t.INT], (2.675, 2), 2.68),
        ("round", t.DOUBLE, [t.DOUBLE, t.INT], (-0.125, 2), -0.13),
        ("round", t.DOUBLE, [t.DOUBLE, t.INT], (1250.0, -2), 1300.0),
        ("round", t.DOUBLE, [t.DOUBLE, t.INT], (0.285, 2), 0.29),
        ("round", t.DOUBLE, [t.DOUBLE, t.INT], (1e300, 5), 1e300),
        ("round", t.DOUBLE, [t.DOUBLE, t.INT], (1e300, 2**31 - 1), 1e300),
        ("round", t.DOUBLE, [t.DOUBLE, t.INT], (-1e300, -(2**31)), -0.0),
        ("round", t.DOUBLE, [t.DOUBLE, t.INT], (INF, 1), INF),
        ("round", t.DOUBLE, [t.DOUBLE, t.INT], (NAN, -1), NAN),
        ("round", t.DOUBLE, [t.DOUBLE, t.INT], (1.5, None), None),
        ("add", t.TIMESTAMP, [t.TIMESTAMP, t.INTERVAL], (NOON, SECOND), NOON + SECOND),
        ("add", t.TIMESTAMP, [t.INTERVAL, t.TIMESTAMP], (SECOND, NOON), NOON + SECOND),
        ("add", t.TIMESTAMP, [t.TIMESTAMP, t.INTERVAL], (datetime.max, SECOND), None),
        ("sub", t.TIMESTAMP, [t.TIMESTAMP, t.INTERVAL], (NOON, timedelta(microseconds=SMALL)), None),
        ("sub", t.INTERVAL, [t.TIMESTAMP, t.TIMESTAMP], (datetime.min, datetime.max), datetime.min - datetime.max),
        ("mul", t.INTERVAL, [t.INTERVAL, t.BIGINT], (SECOND, -3), -3 * SECOND),
        ("mul", t.INTERVAL, [t.BIGINT, t.INTERVAL], (2**62, SECOND), None),
        ("interval", t.INTERVAL, [t.BIGINT, t.BIGINT], (3, 1_000_000), 3 * SECOND),
        ("interval", t.INTERVAL, [t.BIGINT, t.BIGINT], (BIG, 1_000_000), None),
        ("interval", t.INTERVAL, [t.DOUBLE, t.BIGINT], (0.5, 1_000_000), SECOND / 2),
        ("interval", t.INTERVAL, [t.DOUBLE, t.BIGINT], (2.5, 1), timedelta(microseconds=2)),
        ("interval", t.INTERVAL, [t.DOUBLE, t.BIGINT], (NAN, 1), None),
        ("interval", t.INTERVAL, [t.DOUBLE, t.BIGINT], (1e300, 1), None),
        ("case", t.STRING, [t.BOOLEAN, t.STRING, t.BOOLEAN, t.STRING, t.STRING], (None, "a", True, "b", "c"), "b"),
        ("case", t.STRING, [t.BOOLEAN, t.STRING, t.BOOLEAN, t.STRING, t.STRING], (True, "a", True, "b", "c"), "a"),
        ("case", t.INT, [t.BOOLEAN, t.INT, t.INT], (None, 1, None), None),
    ],
)
def test_a_function_of_several_types(
    function: str, gives: pa.DataType, takes: list[pa.DataType], args: tuple[Any, ...], expected: Any
) -> None:
    assert printed(both(function, gives, takes, args)[0]) == printed(expected)


@pytest.mark.parametrize(
    ("given_value", "source", "target", "expected"),
    [
        (300, t.INT, t.BYTE, None),
        (-128, t.BIGINT, t.BYTE, -128),
        (BIG, t.BIGINT, t.INT, None),
        (BIG, t.BIGINT, t.DOUBLE, 2.0**63),
        (-1.9, t.DOUBLE, t.INT, -1),
        (-128.9, t.DOUBLE, t.BYTE, -128),
        (NAN, t.DOUBLE, t.INT, None),
        (INF, t.FLOAT, t.BIGINT, None),
        (2.0**63, t.DOUBLE, t.BIGINT, None),
        (3e9, t.DOUBLE, t.INT, None),
        (True, t.BOOLEAN, t.INT, 1),
        (True, t.BOOLEAN, t.FLOAT, 1.0),
        (0.5, t.DOUBLE, t.BOOLEAN, True),
        (-0.0, t.DOUBLE, t.BOOLEAN, False),
        (NAN, t.DOUBLE, t.BOOLEAN, True),
        (0, t.BYTE, t.BOOLEAN, False),
        (0.1, t.DOUBLE, t.FLOAT, 0.10000000149011612),
        (1e300, t.DOUBLE, t.FLOAT, INF),
        (7, t.INT, t.DOUBLE, 7.0),
        (" 12\t", t.STRING, t.INT, 12),
        ("+7", t.STRING, t.BIGINT, 7),
        ("1_000", t.STRING, t.INT, None),
        ("1.5", t.STRING, t.INT, None),
        ("128", t.STRING, t.BYTE, None),
        ("9" * 5000, t.STRING, t.BIGINT, None),
        ("", t.STRING, t.INT, None),
        (" -1.5e3", t.STRING, t.DOUBLE, -1500.0),
        ("1e300", t.STRING, t.FLOAT, INF),
        ("nan", t.STRING, t.DOUBLE, NAN),
        ("-Infinity", t.STRING, t.DOUBLE, -INF),
        ("1_0", t.STRING, t.DOUBLE, None),
        (" TRUE", t.STRING, t.BOOLEAN, True),
        ("f", t.STRING, t.BOOLEAN, False),
        ("maybe", t.STRING, t.BOOLEAN, None),
        (" 2026-01-31 ", t.STRING, t.DATE, date(2026, 1, 31)),
        ("2026-02-30", t.STRING, t.DATE, None),
        (" 2026-01-31 12:30:00 ", t.STRING, t.TIMESTAMP, NOON),
        ("2026-01-31T14:30:00+02:00", t.STRING, t.TIMESTAMP, NOON),
        ("0001-01-01 00:00:00+02:00", t.STRING, t.TIMESTAMP, None),
        ("noon", t.STRING, t.TIMESTAMP, None),
        ("1", t.STRING, t.INTERVAL, None),
        (datetime(1969, 12, 31, 23), t.TIMESTAMP, t.DATE, date(1969, 12, 31)),
        (date(1, 1, 1), t.DATE, t.TIMESTAMP, datetime(1, 1, 1)),
        (-7, t.INT, t.STRING, "-7"),
        (1.0, t.DOUBLE, t.STRING, "1.0"),
        (-0.0, t.DOUBLE, t.STRING, "-0.0"),
        (0.1, t.FLOAT, t.STRING, "0.1"),
        (1e16, t.DOUBLE, t.STRING, "1.0E16"),
        (NAN, t.DOUBLE, t.STRING, "NaN"),
        (INF, t.FLOAT, t.STRING, "Infinity"),
        (-INF, t.DOUBLE, t.STRING, "-Infinity"),
        (True, t.BOOLEAN, t.STRING, "true"),
        (NOON, t.TIMESTAMP, t.STRING, "2026-01-31 12:30:00"),
        (NOON + SECOND / 2, t.TIMESTAMP, t.STRING, "2026-01-31 12:30:00.5"),
        (datetime(1, 1, 1), t.TIMESTAMP, t.STRING, "0001-01-01 00:00:00"),
        (date(1, 1, 1), t.DATE, t.STRING, "0001-01-01"),
        (-90 * SECOND, t.INTERVAL, t.STRING, "INTERVAL '-0 00:01:30' DAY TO SECOND"),
        (None, t.NULL, t.INT, None),
        (None, t.NULL, t.STRING, None),
    ],
)
def test_a_cast(given_value: Any, source: pa.DataType, target: pa.DataType, expected: Any) -> None:
    assert printed(both("cast", target, [source], (given_value,))[0]) == printed(expected)


def test_signed_zeros_in_one_column_keep_their_texts() -> None:
    cast = Call("cast", (Column(0, t.DOUBLE, "x"),), t.STRING)
    assert evaluate(cast, [pa.array([0.0, -0.0, None])], [], 3).to_pylist() == ["0.0", "-0.0", None]


def test_times_beyond_the_calendar_have_no_text_and_are_null_to_functions() -> None:
    times = pa.array([BIG, SMALL, 0], t.TIMESTAMP)
    days = pa.array([2**31 - 1, -(2**31), 0], t.DATE)
    for column in (times, days):
        c = Column(0, column.type, "c")
        text = evaluate(Call("cast", (c,), t.STRING), [column], [], 3)
        assert text.is_valid().to_pylist() == [False, False, True]
        functions = Functions({"f": lambda x: x is None}, {})
        assert evaluate(Call("udf:f", (c,), t.BOOLEAN), [column], [], 3, functions).to_pylist() == [True, True, False]
    moments = evaluate(Call("cast", (Column(0, t.DATE, "d"),), t.TIMESTAMP), [days], [], 3)
    assert moments.to_pylist() == [None, None, datetime(1970, 1, 1)]


def test_leaves_are_arrays_of_their_type_and_of_the_length_of_the_batch() -> None:
    whole = pa.array([1, 2, None, 4])
    column, param = Column(0, t.BIGINT, "c"), Param(0, t.BIGINT, "p")
    assert evaluate(column, [whole.slice(1, 2)], [], 2).to_pylist() == [2, None]
    assert evaluate(param, [], [pa.scalar(7)], 3).to_pylist() == [7, 7, 7]
    assert evaluate(param, [], [pa.array([7, None])], 2).to_pylist() == [7, None]
    for type in (t.BOOLEAN, t.INT, t.FLOAT, t.STRING, t.DATE, t.TIMESTAMP, t.INTERVAL):
        for given_null in (pa.scalar(None), pa.nulls(2)):
            result = evaluate(Param(0, type, "p"), [], [given_null], 2)
            assert result.type == type and result.null_count == 2
        assert evaluate(Constant(None, type), [], [], 2).equals(pa.nulls(2, type))
    assert evaluate(Constant(2**60 + 1, t.DOUBLE), [], [], 1).to_pylist() == [2.0**60]
    assert len(evaluate(Call("add", (param, param), t.BIGINT), [], [pa.scalar(BIG)], 0)) == 0


def test_a_sliced_column_is_read_from_its_offset() -> None:
    floats = pa.array([5.0, NAN, None, 1.0, -0.0]).slice(1)
    expr = Call("lt", (Column(0, t.DOUBLE, "x"), Constant(2.0, t.DOUBLE)), t.BOOLEAN)
    assert evaluate(expr, [floats], [], 4).to_pylist() == [False, None, True, True]
    assert evaluate(Call("cast", (Column(0, t.DOUBLE, "x"),), t.STRING), [floats], [], 4).to_pylist() == [
        "NaN",
        None,
        "1.0",
        "-0.0",
    ]


def test_like_with_a_column_of_patterns_keeps_rows_in_order() -> None:
    texts, patterns = ["ab", "ab", None, "b%", "ab", "x"], ["a%", "b%", "a%", "b\\%", None, "a%"]
    like = Call("like", (Column(0, t.STRING, "s"), Param(0, t.STRING, "p")), t.BOOLEAN)
    result = evaluate(like, [pa.array(texts)], [pa.array(patterns)], 6)
    assert result.to_pylist() == [True, False, None, True, None, False]
    assert evaluate(like, [pa.array(texts)], [pa.nulls(6, t.STRING)], 6).null_count == 6


def test_holds_is_a_mask_in_which_null_is_false() -> None:
    mask = holds(Column(0, t.BOOLEAN, "c"), [pa.array([True, None, False])], [], 3)
    assert mask.dtype == np.bool_ and mask.tolist() == [True, False, False]
    assert holds(Constant(None, t.BOOLEAN), [], [], 2).tolist() == [False, False]


def test_a_udf_sees_python_values_row_by_row_and_null_as_none() -> None:
    seen = []
    types = [t.INT, t.FLOAT, t.STRING, t.BOOLEAN, t.TIMESTAMP, t.DATE, t.INTERVAL]
    row = [1, 0.5, "a", True, NOON, date(2026, 1, 31), SECOND]
    columns = [pa.array([v, None], type) for v, type in zip(row, types, strict=True)]
    call = Call("udf:f", tuple(Column(i, type, "c") for i, type in enumerate(types)), t.INT)
    functions = Functions({"f": lambda *args: seen.append(args)}, {})
    assert evaluate(call, columns, [], 2, functions).to_pylist() == [None, None]
    assert seen == [tuple(row), (None,) * 7] and functions.errors == {}


def test_a_udf_without_columns_is_called_for_every_row() -> None:
    numbers = iter(range(3))
    functions = Functions({"next": lambda: next(numbers), "of": lambda _: next(numbers)}, {})
    assert evaluate(Call("udf:next", (), t.INT), [], [], 2, functions).to_pylist() == [0, 1]
    of = Call("udf:of", (Constant(1, t.INT),), t.INT)
    assert evaluate(of, [], [], 3, functions).to_pylist() == [2, None, None]
    assert functions.errors == {"of": (2, "StopIteration: ")}


@pytest.mark.parametrize(
    ("type", "returned", "expected"),
    [
        (t.BYTE, 128, None),
        (t.BYTE, np.int64(5), 5),
        (t.INT, 1.5, None),
        (t.INT, "1", None),
        (t.DOUBLE, 3, 3.0),
        (t.DOUBLE, 10**400, None),
        (t.FLOAT, 1e300, INF),
        (t.INT, True, None),
        (t.DOUBLE, True, None),
        (t.STRING, 1, None),
        (t.STRING, "\ud800", None),
        (t.BOOLEAN, 1, None),
        (t.BOOLEAN, np.True_, True),
        (t.DATE, NOON, None),
        (t.DATE, date(2026, 1, 31), date(2026, 1, 31)),
        (t.TIMESTAMP, NOON.replace(tzinfo=timezone(timedelta(hours=2))), NOON - 2 * 3600 * SECOND),
        (t.TIMESTAMP, date(2026, 1, 31), None),
        (t.TIMESTAMP, 5, None),
        (t.TIMESTAMP, pd.NaT, None),
        (t.INTERVAL, 5, None),
        (t.INTERVAL, timedelta.max, None),
        (t.INTERVAL, SECOND, SECOND),
    ],
)
def test_what_a_udf_returns_must_fit_its_type(type: pa.DataType, returned: Any, expected: Any) -> None:
    functions = Functions({"f": lambda: returned}, {"f": (1, "before")})
    assert evaluate(Call("udf:f", (), type), [], [], 2, functions).to_pylist() == [expected] * 2
    assert functions.errors["f"][0] == (3 if expected is None else 1)
    assert reference(Call("udf:f", (), type), (), (), functions.bodies) == expected


# Random trees against the reference.

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
