"""Every function, condition and cast at its edges, by hand: the same on constants, on columns, and on mixtures."""

import math
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from eddyline import types as t
from eddyline.operators.evaluate import evaluate
from eddyline.sql.bound import Call, Column, Constant, Expr
from tests.operators.edges import BIG, INF, NAN, NOON, SECOND, SMALL, array, printed


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
