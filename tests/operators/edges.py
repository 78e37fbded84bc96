"""Values at the edges of their types for tests of expressions, as arrays, and as texts that tell them apart."""

import math
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

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
