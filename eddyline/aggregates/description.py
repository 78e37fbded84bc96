"""Descriptions of aggregate functions: one frozen object for the binder, the operators and the reference evaluator.

An aggregate is computed over the values of its argument that are not NULL; `f(*)` is computed over the rows of the
group. The operators compute it in one of two forms, `Counted` or `Extreme`. Both support groups, windows, retractions
and saved state, and range joins without building the joined rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from eddyline.arrays import Doubles, Ints


@dataclass(frozen=True)
class Counted:
    """An aggregate computed from counters: a row is added to them when it begins and subtracted when it ends.

    Integer counters must not overflow: a value of 64 bits is added in two halves of 32 bits, to two adjacent counters.
    Double counters are exact: `result` gets the double nearest to the sum, or to its quotient.
    """

    ints: int  # the number of integer counters
    add: Callable[[pa.Array, Ints, Doubles], None]  # writes what each row adds into arrays of zeros, one line per row
    result: Callable[[Ints, Ints, Doubles], pa.Array]  # from the number of rows and the counters, one line per group
    upper_halves: tuple[int, ...] = ()  # the counters of upper halves; the next counter has the lower half
    divisors: tuple[int | None, ...] = ()  # one per double counter: the integer counter that divides it, if any


@dataclass(frozen=True)
class Extreme:
    """An aggregate that is the least or the greatest value of its group; NaN is above all numbers.

    Operators store the rows that can be the extreme now or later; all rows of the group if rows can be retracted.
    """

    which: Literal["least", "greatest"]


@dataclass(frozen=True)
class AggregateFunction:
    name: str  # in lower case; SQL ignores case
    takes: str  # as SHOW FUNCTIONS prints it; T is one type for all arguments
    gives: str
    types: Callable[[pa.DataType], tuple[pa.DataType, pa.DataType] | None]
    """From the type of the argument: the type it is converted to and the type of the result; None if it is refused."""
    form: Callable[[pa.DataType | None], Counted | Extreme]
    """The form for an argument of a type that `types` returns; the argument None means `f(*)`."""
    reference: Callable[[Sequence[Any]], Any]
    """The result over the values of a group, as Python values; tests compare the operators with it."""
    star: pa.DataType | None = None  # the type of f(*); None if f(*) is refused
