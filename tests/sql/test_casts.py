"""Conversions from and to text: what Spark 4.3 gave (TRY_CAST, session time zone UTC), of columns, of constants and in
the reference. The table was made by running Spark once; where Eddyline means to differ, the last table says so."""

import math
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline import types as t
from eddyline.errors import BindError
from eddyline.operators.evaluate import evaluate
from eddyline.reference.scalar import value as reference
from eddyline.sql.bound import Call, Column, Constant
from eddyline.sql.constants import convert, number, parse_timestamp

NAN, INF = math.nan, math.inf
DAY, NOON = date(2026, 1, 31), datetime(2026, 1, 31, 12, 30)


def at(hour: int, minute: int = 30, second: int = 0, micros: int = 0) -> datetime:
    return datetime(2026, 1, 31, hour, minute, second, micros)


def three(given_value: Any, source: pa.DataType, target: pa.DataType) -> list[Any]:
    """The conversion of a column, of a constant and of the reference."""
    raw = given_value // timedelta(microseconds=1) if isinstance(given_value, timedelta) else given_value
    column = evaluate(Call("cast", (Column(0, source, "c"),), target), [pa.array([raw], source)], [], 1)
    try:
        constant = convert(given_value, target, source)
    except BindError:
        constant = None
    return [column[0].as_py(), constant, reference(Call("cast", (Constant(given_value, source),), target), (), (), {})]


READ: dict[pa.DataType, dict[str, Any]] = {
    t.BOOLEAN: {
        **dict.fromkeys(["t", "T", "true", "tRuE", "y", "Y", "yes", "YES", "1"], True),
        **dict.fromkeys(["f", "F", "false", "n", "N", "no", "NO", "0"], False),
        **dict.fromkeys(["\ttrue\n", "\x0btrue", "\x00true\x7f", " True "], True),
        **dict.fromkeys(["", " ", "on", "off", "01", "+1", "1.0", "-0", "ye", "truee", "tr ue", "maybe"]),
        **dict.fromkeys(["true\u00a0", "\u2003true", "\uff11", "ye\u017f"]),
    },
    t.INT: {
        **{"0": 0, "-0": 0, "+12": 12, "-12": -12, " 12 ": 12, "\t12\n": 12, "12\x00": 12, "\x7f12": 12, "007": 7},
        **{"2147483647": 2**31 - 1, "-2147483648": -(2**31), "0" * 50 + "7": 7},
        **dict.fromkeys(["2147483648", "-2147483649", "9" * 100, "9" * 5000]),
        **dict.fromkeys(["", " ", "+", "-", "--1", "+-1", "- 1", "1 2", "1-", "1_000", "1,000", "0x10", "1L", "1e3"]),
        **dict.fromkeys(["1.5", "1.", "1.0", ".5", ".", "12abc", "true", "NaN"]),
        **dict.fromkeys(["12\u00a0", "\u200312", "\uff11\uff12", "\u0663", "\u22125"]),
    },
    t.BYTE: {"127": 127, "128": None, "-128": -128, "-129": None},
    t.SHORT: {"32767": 32767, "32768": None, "-32769": None},
    t.BIGINT: {
        **{"9223372036854775807": 2**63 - 1, "-9223372036854775808": -(2**63)},
        **{"9223372036854775808": None, "-9223372036854775809": None},
    },
    t.DOUBLE: {
        **{"0": 0.0, "-0": -0.0, "+1": 1.0, "1.": 1.0, ".5": 0.5, "-.5": -0.5, " -1.5e3 ": -1500.0, "1E+05": 1e5},
        **{"1e309": INF, "-1e309": -INF, "1e99999999999": INF, "1e-400": 0.0, "2e-324": 0.0, "4.9e-324": 5e-324},
        **{"2.2250738585072012e-308": 2.2250738585072014e-308, "123456789012345678901234567890": 1.2345678901234568e29},
        **dict.fromkeys(["nan", "NaN", "NAN", " nan ", "+NaN", "-NaN"], NAN),
        **dict.fromkeys(["inf", "Inf", "INF", "+inf", "infinity", "Infinity", "+Infinity", " inf "], INF),
        **dict.fromkeys(["-inf", "-INF", "-infinity", "-Infinity"], -INF),
        **dict.fromkeys(["1d", "1D", "1f", "1.f", "1.0F"], 1.0) | {"1e5f ": 1e5, ".5f": 0.5},
        **dict.fromkeys(["\t1.5\n", "1.5\x00", "\x0b1.5", "\x1f1.5"], 1.5),
        **dict.fromkeys(["+nan", "-nan", "+NAN", "nan(1)", "infinit", "infi", "NaNd", "infd", "Infinityf"]),
        **dict.fromkeys(["", " ", ".", "-", "+", "e5", "1e", "1e+", "d", "1dd", "1 d", "1L", "1_000", "1__0", "1,5"]),
        **dict.fromkeys(["- 1", "--1", "1.5.5", "1e5.5", "1e5e5", "1 e5", "1e 5", "1.5 x", "0x10", "0x1", "true"]),
        **dict.fromkeys(
            ["1.5\x7f", "\x7f1.5", "\u00a01.5", "1.5\u2003", "\x851", "\uff11.\uff15", "\u0663", "1e\u0663"]
        ),
    },
    t.FLOAT: {
        **{"0.1": 0.10000000149011612, "16777217": 16777216.0, "3.4028235e38": 3.4028234663852886e38},
        **{"3.4028236e38": INF, "-1e300": -INF, "1e-45": 1.401298464324817e-45, "1e-46": 0.0, "nan": NAN},
    },
    t.DATE: {
        **dict.fromkeys(["2026-01-31", "+2026-01-31", "02026-01-31", "002026-01-31", "0002026-01-31"], DAY),
        **dict.fromkeys([" 2026-01-31 ", "\t2026-01-31\n", "\x002026-01-31\x7f"], DAY),
        **dict.fromkeys(["2026-01-31T", "2026-01-31 x", "2026-01-31Tx", "2026-01-31  12:30:00"], DAY),
        **dict.fromkeys(["2026-01-31 12:00", "2026-01-31 25:00", "2026-01-31T12:30:00Z", "2026-01-31 12:30:00,5"], DAY),
        **dict.fromkeys(["2026", "2026-1", "2026-01", "+2026", "2026 "], date(2026, 1, 1)),
        **dict.fromkeys(["2026-1-5", "2026-1-05", "2026-1-5 1:2:3", "2026-1-5T:2:3Z"], date(2026, 1, 5)),
        **{"0001-01-01": date(1, 1, 1), "9999-12-31": date(9999, 12, 31), "1582-10-10": date(1582, 10, 10)},
        **{"2024-02-29": date(2024, 2, 29), "2026-02-29": None, "2026-02-30": None, "2026-02-30 12:00": None},
        **dict.fromkeys(["2026-13-01", "2026-00-01", "2026-01-00", "2026-01-32", "2026-001-01", "2026-01-001"]),
        **dict.fromkeys(
            ["20260131", "00002026-01-31", "2026-W05-1", "2026W051", "2026-031", "202", "2026-", "2026-01-"]
        ),
        **dict.fromkeys(["2026/01/31", "2026.01.31", "31-01-2026", "01/31/2026", "--2026", "+ 2026-01-31"]),
        **dict.fromkeys(["2026-01-31x", "2026-01-31t", "2026-01-31-", "2026-01-31\t12:30:00", "2026T", "2026-01 x"]),
        **dict.fromkeys(["", " ", "T", "-", "+", "12:30", "T12:30", "epoch", "now", "today", "noon"]),
        **dict.fromkeys(["\u00a02026-01-31", "2026-01-31\u00a0", "\uff12\uff10\uff12\uff16-01-31", "2026-01-3\uff11"]),
    },
    t.TIMESTAMP: {
        **dict.fromkeys(
            ["2026-01-31 12:30:00", "2026-01-31T12:30:00", "2026-01-31 12:30", "2026-01-31 12:30:00."], NOON
        ),
        **dict.fromkeys(["+2026-01-31 12:30:00", "02026-01-31 12:30:00", "002026-01-31 12:30:00"], NOON),
        **dict.fromkeys([" 2026-01-31 12:30:00 ", "\x002026-01-31 12:30:00\x7f"], NOON),
        **dict.fromkeys(["2026-01-31 12:30:00.5", "2026-01-31T12:30:00.50"], at(12, micros=500000)),
        **dict.fromkeys(["2026-01-31 12:30:00.1234569", "2026-01-31 12:30:00.123456789123"], at(12, micros=123456)),
        **{"2026-01-31 12:30:00.999999999": at(12, micros=999999), "2026-01-31 12": at(12, 0)},
        **{"2026": datetime(2026, 1, 1), "2026-1": datetime(2026, 1, 1), "2026-01-31": at(0, 0)},
        **{"2026-1-5 1:2:3": datetime(2026, 1, 5, 1, 2, 3), "2026-1-5T1:2": datetime(2026, 1, 5, 1, 2)},
        **{"0001-01-01 00:00:00": datetime(1, 1, 1), "9999-12-31 23:59:59.999999": datetime.max},
        # zones
        **dict.fromkeys([f"2026-01-31 12:30:00{z}" for z in ("Z", " Z", "UTC", " UTC", "  UTC  ", " GMT", "UT")], NOON),
        **dict.fromkeys([f"2026-01-31 12:30:00{z}" for z in ("\tUTC", "+00:00", "-00:00", "UTC-0", ".Z")], NOON),
        **dict.fromkeys([f"2026-01-31 12:30:00{z}" for z in ("+2", "+02", "+2:0", "+02:0", "+2:00", "+0200")], at(10)),
        **dict.fromkeys([f"2026-01-31 12:30:00{z}" for z in ("+02:00", " +02:00", "UTC+2", " UTC+02:00")], at(10)),
        **dict.fromkeys([f"2026-01-31 12:30:00{z}" for z in ("+02:30", "UTC+2:30", "GMT+0230")], at(10, 0)),
        **dict.fromkeys([f"2026-01-31 12:30:00{z}" for z in ("+02:30:15", "+2:30:15", "+023015")], at(9, 59, 45)),
        **{
            "2026-01-31 12:30:00GMT-3": at(15),
            "2026-01-31 12:30:00UT+1": at(11),
            "2026-01-31 12:30:00+2:5": at(10, 25),
        },
        **{
            "2026-01-31 12:30:00-18:00": datetime(2026, 2, 1, 6, 30),
            "2026-01-31T12:30:00.25-02:00": at(14, 30, 0, 250000),
        },
        **dict.fromkeys(["2026-01-31 12:30:00 Europe/Berlin", "2026-01-31 12:30:00Europe/Berlin"], at(11)),
        **{"2026-01-31 12:30:00 Etc/GMT+2": at(14), "2026-01-31 12:30:00 US/Pacific": at(20)},
        **{"2026-03-29 02:30:00 Europe/Berlin": datetime(2026, 3, 29, 1, 30)},  # the clocks went forward
        **{"2026-10-25 02:30:00 Europe/Berlin": datetime(2026, 10, 25, 0, 30)},  # and back
        **{"1800-01-01 00:00:00 Europe/Berlin": datetime(1799, 12, 31, 23, 6, 32)},
        **dict.fromkeys([f"2026-01-31 12:30:00{z}" for z in ("z", "utc", "ZZ", "Z Z", "UTCZ", "Z+2", "UTC 2", "UTC+")]),
        **dict.fromkeys(
            [f"2026-01-31 12:30:00{z}" for z in ("+", "+2:", "+02:", "+002", "+ 02:00", "+02:60", "+02:5:5")]
        ),
        **dict.fromkeys(
            [f"2026-01-31 12:30:00{z}" for z in ("+18:01", "+24:00", "+0230:15", "+02:3015", "+\uff12", "x")]
        ),
        **dict.fromkeys(
            [f"2026-01-31 12:30:00{z}" for z in (" europe/berlin", " Europe/Nowhere", " America/Argentina")]
        ),
        **dict.fromkeys(
            [f"2026-01-31 12:30:00{z}" for z in ("[UTC]", "+02:00[Europe/Berlin]", "\u00a0", " \u00a0UTC")]
        ),
        **dict.fromkeys(["2026Z", "2026-01-31Z", "2026-01-31 UTC", "2026-01-31 12Z", "2026-01-31 12:30Z"]),
        # not a clock, not a date
        **dict.fromkeys(["2026-01-31 24:00:00", "2026-01-31 23:59:60", "2026-01-31 23:60:00", "2026-01-31 012:00:00"]),
        **dict.fromkeys(
            ["2026-01-31 12:030:00", "2026-01-31 12:30:000", "2026-01-31  12:30:00", "2026-01-31\t12:30:00"]
        ),
        **dict.fromkeys(
            ["2026-01-31t12:30:00", "2026-01-31_12:30:00", "2026-01-31 12:30:00,5", "2026-01-31 12:30:00.5.5"]
        ),
        **dict.fromkeys(["2026-01-31 12:30.5", "2026-01-31 12:30:", "2026-01-31 12:", "2026-01-31 :30", "2026-01-31T"]),
        **dict.fromkeys(
            ["2026-01-31T123000", "20260131T123000", "20260131", "2026-W05-1", "2026-02-30", "2026-02-30 12:00"]
        ),
        **dict.fromkeys(["0002026-01-31 12:30:00", "2026-01-31 1\uff12:30:00", "2026-01-31 x", "noon", "now", "", " "]),
    },
    t.INTERVAL: dict.fromkeys(["1", "5 seconds", "interval 5 seconds"]),
}


@pytest.mark.parametrize(("target", "text"), [(target, text) for target, texts in READ.items() for text in texts])
def test_a_text_reads_as_in_spark(target: pa.DataType, text: str) -> None:
    expected = READ[target][text]
    assert list(map(repr, three(text, t.STRING, target))) == [repr(expected)] * 3


@pytest.mark.parametrize(
    ("given_value", "source", "expected"),
    [
        *((x, t.DOUBLE, s) for x, s in [(0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (-1.5, "-1.5"), (0.1, "0.1")]),
        *((x, t.DOUBLE, s) for x, s in [(1e7, "1.0E7"), (9999999.0, "9999999.0"), (9999999.999, "9999999.999")]),
        *((x, t.DOUBLE, s) for x, s in [(1e-3, "0.001"), (0.00099999, "9.9999E-4"), (1e-4, "1.0E-4")]),
        *((x, t.DOUBLE, s) for x, s in [(123456789.0, "1.23456789E8"), (1e16, "1.0E16"), (1.5e300, "1.5E300")]),
        *((x, t.DOUBLE, s) for x, s in [(5e-324, "4.9E-324"), (1.7976931348623157e308, "1.7976931348623157E308")]),
        *((x, t.DOUBLE, s) for x, s in [(2.0**63, "9.223372036854776E18"), (1 / 3, "0.3333333333333333")]),
        *((x, t.DOUBLE, s) for x, s in [(NAN, "NaN"), (INF, "Infinity"), (-INF, "-Infinity")]),
        *((float(np.float32(x)), t.FLOAT, s) for x, s in [(0.1, "0.1"), (1 / 3, "0.33333334"), (1e10, "1.0E10")]),
        *((x, t.FLOAT, s) for x, s in [(9999999.0, "9999999.0"), (3640733.75, "3640733.8"), (3590001.25, "3590001.2")]),
        *((x, t.FLOAT, s) for x, s in [(1.401298464324817e-45, "1.4E-45"), (NAN, "NaN"), (-INF, "-Infinity")]),
        (True, t.BOOLEAN, "true"),
        (-(2**63), t.BIGINT, "-9223372036854775808"),
        (date(1, 1, 1), t.DATE, "0001-01-01"),
        (NOON, t.TIMESTAMP, "2026-01-31 12:30:00"),
        (at(0, 0), t.TIMESTAMP, "2026-01-31 00:00:00"),
        (at(12, micros=500000), t.TIMESTAMP, "2026-01-31 12:30:00.5"),
        (at(12, micros=1), t.TIMESTAMP, "2026-01-31 12:30:00.000001"),
        (datetime(1, 1, 1), t.TIMESTAMP, "0001-01-01 00:00:00"),
        (datetime(1969, 12, 31, 23, 59, 59, 500000), t.TIMESTAMP, "1969-12-31 23:59:59.5"),
        (timedelta(0), t.INTERVAL, "INTERVAL '0 00:00:00' DAY TO SECOND"),
        (timedelta(seconds=-90), t.INTERVAL, "INTERVAL '-0 00:01:30' DAY TO SECOND"),
        (timedelta(microseconds=-86_400_000_001), t.INTERVAL, "INTERVAL '-1 00:00:00.000001' DAY TO SECOND"),
        (timedelta(microseconds=2**63 - 1), t.INTERVAL, "INTERVAL '106751991 04:00:54.775807' DAY TO SECOND"),
    ],
)
def test_a_value_prints_as_in_spark(given_value: Any, source: pa.DataType, expected: str) -> None:
    assert three(given_value, source, t.STRING) == [expected] * 3


@pytest.mark.parametrize(
    ("target", "text"),
    [
        *((t.DATE, text) for text in ("0000-01-01", "-2026-01-31", "10000-01-01", "202601", "2026013")),
        *((t.TIMESTAMP, text) for text in ("0000-01-01", "10000-01-01", "-2026-01-31", "202601")),
        *((t.TIMESTAMP, text) for text in ("0001-01-01 00:00:00+02:00", "0000-12-31 23:00:00-02:00")),
        *((t.TIMESTAMP, text) for text in ("9999-12-31 23:00:00-02:00", "9999-12-31 23:00:00 America/New_York")),
        *((t.TIMESTAMP, text) for text in ("12:30", "T12:30", "12:30:00Z", "1:2:3", "T12")),
        *((t.TIMESTAMP, f"2026-01-31 12:30:00 {zone}") for zone in ("CET", "EST", "PST", "GB", "Zulu", "GMT0")),
        *((t.DOUBLE, text) for text in ("0x1p3", "0X1P3", "0x1.8p1", "0x1p3d")),
        *((t.INTERVAL, text) for text in ("1 00:00:00", "INTERVAL '1 00:00:00' DAY TO SECOND")),
    ],
)
def test_a_text_that_only_spark_reads_is_null(target: pa.DataType, text: str) -> None:
    assert three(text, t.STRING, target) == [None] * 3


@pytest.mark.parametrize("text", ["1_000", "1_0.5", "\u0663", "\u0663.5", "1.5.5", "x", "5d", ""])
def test_a_number_in_a_query_is_ascii_without_underscores(text: str) -> None:
    with pytest.raises(ValueError):
        number(text)


@pytest.mark.parametrize("zone", ["Europe/Nowhere", "America/Argentina", "X/" + "y" * 500, "+25", "PST"])
def test_a_time_in_no_zone_is_a_value_error_to_whoever_reads_rows(zone: str) -> None:
    with pytest.raises(ValueError):
        parse_timestamp(f"2026-01-31 12:30:00 {zone}")


ODD_TEXTS = st.text("0123456789+-._eE \u0663:TZinfaINFtruedf/", max_size=12) | st.builds(
    "{}-{}-{}{}{}:{}:{}{}".format,
    *(st.sampled_from(part) for part in (["2026", "0001", "+9999", "1"], ["1", "02", "13"], ["5", "29", "031"])),
    *(
        st.sampled_from(part)
        for part in ([" ", "T", "t"], ["1", "23", "24"], ["0", "59", ""], ["7", "007", "07.", "07.5"])
    ),
    st.sampled_from(["", "Z", " UTC", "+2", "-18:00", "+18:30", "UT+0230", " Asia/Kolkata", " Asia", "x", "\u00a0"]),
)


@settings(max_examples=300, deadline=None, print_blob=True)
@given(ODD_TEXTS, st.sampled_from([x for x in READ if x != t.INTERVAL]))
def test_a_text_reads_alike_everywhere(text: str, target: pa.DataType) -> None:
    assert len(set(map(repr, three(text, t.STRING, target)))) == 1


@settings(max_examples=300, deadline=None, print_blob=True)
@given(st.floats(width=32) | st.integers(-149, 127).map(lambda n: 2.0**n), st.sampled_from([t.FLOAT, t.DOUBLE]))
def test_a_single_number_prints_alike_everywhere_and_reads_back(x: float, type: pa.DataType) -> None:
    texts = three(x, type, t.STRING)
    assert len(set(texts)) == 1
    assert repr(three(texts[0], t.STRING, type)) == repr([x] * 3)


@settings(max_examples=300, deadline=None, print_blob=True)
@given(st.floats() | st.integers(-1074, 1023).map(lambda n: 2.0**n))
def test_a_double_number_prints_alike_everywhere_and_reads_back(x: float) -> None:
    texts = three(x, t.DOUBLE, t.STRING)
    assert len(set(texts)) == 1
    assert repr(three(texts[0], t.STRING, t.DOUBLE)) == repr([x] * 3)
