"""Each function of the language on single values, at the edges that `sql/functions.py` names."""

import math
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from eddyline import types as t
from eddyline.reference import canonical, value
from eddyline.sql.bound import Call, Column, Constant, Param

NAN, INF = math.nan, math.inf
BIG, SMALL = 2**63 - 1, -(2**63)
SECOND = timedelta(seconds=1)
NOON = datetime(2026, 1, 31, 12, 30)


def call(function: str, gives: pa.DataType, *args: Any, takes: pa.DataType | None = None) -> Any:
    constants = tuple(Constant(a, takes or gives) for a in args)
    return value(Call(function, constants, gives), (), (), {})


@pytest.mark.parametrize(
    ("function", "type", "args", "expected"),
    [
        ("add", t.BIGINT, (BIG, 1), None),
        ("add", t.INT, (2**31 - 1, 1), None),
        ("add", t.BYTE, (100, 27), 127),
        ("add", t.BIGINT, (None, 1), None),
        ("add", t.FLOAT, (0.1, 0.2), 0.30000001192092896),
        ("mul", t.FLOAT, (3e38, 10.0), INF),
        ("sub", t.INTERVAL, (SECOND, 3 * SECOND), -2 * SECOND),
        ("mul", t.BIGINT, (2**62, 2), None),
        ("mul", t.DOUBLE, (1e308, 10.0), INF),
        ("div", t.DOUBLE, (1.0, 0.0), None),
        ("div", t.DOUBLE, (1.0, -0.0), None),
        ("div", t.DOUBLE, (1.0, 4.0), 0.25),
        ("mod", t.BIGINT, (-7, 3), -1),
        ("mod", t.BIGINT, (7, -3), 1),
        ("mod", t.BIGINT, (7, 0), None),
        ("mod", t.DOUBLE, (-7.5, 2.0), -1.5),
        ("mod", t.DOUBLE, (1.0, 0.0), None),
        ("mod", t.DOUBLE, (INF, 2.0), NAN),
        ("neg", t.BIGINT, (SMALL,), None),
        ("abs", t.INT, (-(2**31),), None),
        ("abs", t.INTERVAL, (-SECOND,), SECOND),
        ("neg", t.INTERVAL, (timedelta(microseconds=SMALL),), None),
        ("round", t.DOUBLE, (2.5,), 3.0),
        ("round", t.DOUBLE, (-2.5,), -3.0),
        ("round", t.DOUBLE, (NAN,), NAN),
        ("sqrt", t.DOUBLE, (-1.0,), NAN),
        ("sqrt", t.DOUBLE, (6.25,), 2.5),
        ("coalesce", t.INT, (None, 3, 4), 3),
        ("coalesce", t.INT, (None, None), None),
        ("least", t.DOUBLE, (NAN, None, 1.0), 1.0),
        ("greatest", t.DOUBLE, (NAN, None, INF), NAN),
        ("greatest", t.INT, (None, None), None),
        ("upper", t.STRING, ("aé",), "AÉ"),
        ("concat", t.STRING, ("a", "b", "c"), "abc"),
        ("concat", t.STRING, ("a", None), None),
        ("and", t.BOOLEAN, (None, False), False),
        ("and", t.BOOLEAN, (None, True), None),
        ("or", t.BOOLEAN, (None, True), True),
        ("or", t.BOOLEAN, (None, False), None),
        ("not", t.BOOLEAN, (None,), None),
        ("not", t.BOOLEAN, (False,), True),
    ],
)
def test_a_function_of_one_type(function: str, type: pa.DataType, args: tuple[Any, ...], expected: Any) -> None:
    assert canonical((call(function, type, *args),)) == canonical((expected,))


@pytest.mark.parametrize(
    ("function", "type", "args", "expected"),
    [
        ("eq", t.DOUBLE, (NAN, NAN), True),
        ("eq", t.DOUBLE, (0.0, -0.0), True),
        ("gt", t.DOUBLE, (NAN, INF), True),
        ("lt", t.DOUBLE, (NAN, INF), False),
        ("ge", t.DOUBLE, (NAN, NAN), True),
        ("lt", t.STRING, ("Z", "a"), True),
        ("lt", t.STRING, ("\uffff", "\U0001f600"), True),
        ("eq", t.INT, (None, None), None),
        ("same", t.INT, (None, None), True),
        ("same", t.DOUBLE, (None, NAN), False),
        ("same", t.DOUBLE, (NAN, NAN), True),
        ("is_null", t.INT, (None,), True),
        ("is_null", t.DOUBLE, (NAN,), False),
        ("in", t.INT, (1, 2, 1), True),
        ("in", t.INT, (1, None, 1), True),
        ("in", t.INT, (1, None, 2), None),
        ("in", t.INT, (None, 1), None),
        ("in", t.INT, (1, 2, 3), False),
        ("in", t.DOUBLE, (NAN, 1.0, NAN), True),
        ("like", t.STRING, ("abc", "a%"), True),
        ("like", t.STRING, ("abc", "a_"), False),
        ("like", t.STRING, ("ABC", "a%"), False),
        ("like", t.STRING, ("a\nb", "a_b"), True),
        ("like", t.STRING, ("a%", "a\\%"), True),
        ("like", t.STRING, ("ab", "a\\%"), False),
        ("like", t.STRING, ("a\\", "a\\\\"), True),
        ("like", t.STRING, ("a.c", "a.c"), True),
        ("like", t.STRING, ("abc", "a.c"), False),
    ],
)
def test_a_condition(function: str, type: pa.DataType, args: tuple[Any, ...], expected: bool | None) -> None:
    assert call(function, t.BOOLEAN, *args, takes=type) is expected


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        ("floor", (-1.5,), -2),
        ("ceil", (-1.5,), -1),
        ("floor", (9.3e18,), None),
        ("ceil", (NAN,), None),
        ("floor", (-INF,), None),
    ],
)
def test_floor_and_ceil_give_an_integer_or_null(function: str, args: tuple[float], expected: int | None) -> None:
    assert call(function, t.BIGINT, *args, takes=t.DOUBLE) == expected


def test_round_takes_digits_and_rounds_the_decimal_number() -> None:
    def rounded(x: float, digits: int) -> Any:
        return value(Call("round", (Constant(x, t.DOUBLE), Constant(digits, t.INT)), t.DOUBLE), (), (), {})

    assert [rounded(2.675, 2), rounded(-0.125, 2), rounded(1250.0, -2), rounded(1e300, 5)] == [
        2.68,
        -0.13,
        1300.0,
        1e300,
    ]


def test_length_counts_code_points() -> None:
    assert call("length", t.INT, "aé😀", takes=t.STRING) == 3


def test_case_takes_the_first_true_condition() -> None:
    column = Column(0, t.INT, "a")
    branches: list[Any] = []
    for n in (1, 2):
        branches += [Call("ge", (column, Constant(n, t.INT)), t.BOOLEAN), Constant(f"at least {n}", t.STRING)]
    case = Call("case", (*branches, Constant("none", t.STRING)), t.STRING)
    assert [value(case, (a,), (), {}) for a in (2, 0, None)] == ["at least 1", "none", "none"]


def test_times_and_durations_add_up() -> None:
    ts, interval = Column(0, t.TIMESTAMP, "ts"), Column(1, t.INTERVAL, "i")

    def of(expr: Call) -> Any:
        return value(expr, (NOON, SECOND), (), {})

    assert of(Call("add", (ts, interval), t.TIMESTAMP)) == NOON + SECOND
    assert of(Call("sub", (ts, ts), t.INTERVAL)) == timedelta(0)
    assert of(Call("mul", (interval, Constant(3, t.BIGINT)), t.INTERVAL)) == 3 * SECOND
    assert of(Call("mul", (interval, Constant(2**62, t.BIGINT)), t.INTERVAL)) is None


@pytest.mark.parametrize(
    ("number", "type", "expected"),
    [
        (3, t.BIGINT, 3 * SECOND),
        (0.5, t.DOUBLE, SECOND / 2),
        (0.0000014, t.DOUBLE, timedelta(microseconds=1)),
        (NAN, t.DOUBLE, None),
        (1e300, t.DOUBLE, None),
        (BIG, t.BIGINT, None),
    ],
)
def test_an_interval_is_a_number_of_units(number: float, type: pa.DataType, expected: timedelta | None) -> None:
    made = Call("interval", (Constant(number, type), Constant(1_000_000, t.BIGINT)), t.INTERVAL)
    assert value(made, (), (), {}) == expected


@pytest.mark.parametrize(
    ("given", "source", "target", "expected"),
    [
        (300, t.INT, t.BYTE, None),
        (-1.9, t.DOUBLE, t.INT, -1),
        (NAN, t.DOUBLE, t.INT, None),
        (3e9, t.DOUBLE, t.INT, None),
        (True, t.BOOLEAN, t.INT, 1),
        (0.5, t.DOUBLE, t.BOOLEAN, True),
        (0.1, t.DOUBLE, t.FLOAT, 0.10000000149011612),
        (1e300, t.DOUBLE, t.FLOAT, INF),
        (7, t.INT, t.DOUBLE, 7.0),
        (" 12 ", t.STRING, t.INT, 12),
        ("+7", t.STRING, t.BIGINT, 7),
        ("1.5", t.STRING, t.INT, None),
        ("9223372036854775808", t.STRING, t.BIGINT, None),
        ("", t.STRING, t.INT, None),
        (" -1.5e3", t.STRING, t.DOUBLE, -1500.0),
        ("nan", t.STRING, t.DOUBLE, NAN),
        ("-Infinity", t.STRING, t.DOUBLE, -INF),
        ("1_000", t.STRING, t.DOUBLE, None),
        (" TRUE", t.STRING, t.BOOLEAN, True),
        ("no", t.STRING, t.BOOLEAN, False),
        ("maybe", t.STRING, t.BOOLEAN, None),
        ("2026-01-31", t.STRING, t.DATE, date(2026, 1, 31)),
        ("2026-02-30", t.STRING, t.DATE, None),
        (" 2026-01-31 12:30:00 ", t.STRING, t.TIMESTAMP, NOON),
        ("2026-01-31T12:30:00.5", t.STRING, t.TIMESTAMP, NOON + SECOND / 2),
        ("2026-01-31", t.STRING, t.TIMESTAMP, datetime(2026, 1, 31)),
        ("noon", t.STRING, t.TIMESTAMP, None),
        (NOON, t.TIMESTAMP, t.DATE, date(2026, 1, 31)),
        (date(2026, 1, 31), t.DATE, t.TIMESTAMP, datetime(2026, 1, 31)),
        (7, t.INT, t.STRING, "7"),
        (1.0, t.DOUBLE, t.STRING, "1.0"),
        (0.1, t.FLOAT, t.STRING, "0.1"),
        (12345678.0, t.DOUBLE, t.STRING, "1.2345678E7"),
        (0.0001, t.DOUBLE, t.STRING, "1.0E-4"),
        (NAN, t.DOUBLE, t.STRING, "NaN"),
        (-INF, t.DOUBLE, t.STRING, "-Infinity"),
        (True, t.BOOLEAN, t.STRING, "true"),
        (NOON, t.TIMESTAMP, t.STRING, "2026-01-31 12:30:00"),
        (NOON + SECOND / 2, t.TIMESTAMP, t.STRING, "2026-01-31 12:30:00.5"),
        (-90 * SECOND, t.INTERVAL, t.STRING, "INTERVAL '-0 00:01:30' DAY TO SECOND"),
        (None, t.NULL, t.INT, None),
    ],
)
def test_a_cast(given: Any, source: pa.DataType, target: pa.DataType, expected: Any) -> None:
    assert canonical((call("cast", target, given, takes=source),)) == canonical((expected,))


def test_params_come_from_the_query_and_may_be_microseconds() -> None:
    assert value(Param(0, t.INTERVAL, "p"), (), (1_000_000,), {}) == SECOND
    assert value(Param(1, t.TIMESTAMP, "p"), (), (None, 5), {}) == datetime(1970, 1, 1, 0, 0, 0, 5)


def test_a_udf_sees_null_and_gives_null_when_it_raises() -> None:
    udfs = {"known": lambda x: x is not None, "inverse": lambda x: 1 / x}
    column = Column(0, t.INT, "a")
    assert value(Call("udf:known", (column,), t.BOOLEAN), (None,), (), udfs) is False
    assert [value(Call("udf:inverse", (column,), t.DOUBLE), (a,), (), udfs) for a in (4, 0, None)] == [0.25, None, None]
