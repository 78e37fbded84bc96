"""Expressions over whole columns: leaves, slices, patterns by row, masks, and values that only a column can hold."""

from datetime import datetime

import numpy as np
import pyarrow as pa

from eddyline import types as t
from eddyline.operators.evaluate import Functions, evaluate, holds
from eddyline.sql.bound import Call, Column, Constant, Param
from tests.operators.edges import BIG, NAN, SMALL


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
