"""Functions of the user's in expressions: what they are called with, and what becomes of what they return."""

from datetime import date, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from eddyline import types as t
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.reference.scalar import value as reference
from eddyline.sql.bound import Call, Column, Constant
from tests.operators.edges import INF, NOON, SECOND


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
    assert functions.errors == {"of": (2, "StopIteration")}


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
