"""What an aggregate function is: one frozen object that the binder, the operators and the reference evaluator read.

An aggregate sees the values of its argument that are not NULL, or the rows of the group where it is written as `f(*)`.
The operators compute it in one of two forms, `Counted` or `Extreme`. Both serve groups, windows, retractions and saved
state, and both are computed over range joins without listing the joined rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Counted:
    """The aggregate follows from counters: sums that a row adds to when it begins and subtracts from when it ends.

    Integer counters must not overflow: a value of 64 bits is added in two halves of 32 bits, to two counters that stand
    side by side. Double counters are exact: `result` gets the double nearest to the sum, or to its quotient.
    """

    ints: int  # the number of integer counters
    add: Callable[[pa.Array, Ints, Floats], None]  # writes what each row adds, one line a row; lines are zero before
    result: Callable[[Ints, Ints, Floats], pa.Array]  # from the rows of each group, and its counters, one line a group
    upper_halves: tuple[int, ...] = ()  # the integer counters that have an upper half; the next has its lower half
    divisors: tuple[int | None, ...] = ()  # one per double counter: the integer counter that divides it, if any


@dataclass(frozen=True)
class Extreme:
    """The aggregate is the least or the greatest value of its group; NaN is above all numbers.

    The rows that can be it now or later are kept. If rows can be retracted, these are all rows of the group.
    """

    which: Literal["least", "greatest"]


@dataclass(frozen=True)
class AggregateFunction:
    name: str  # in lower case; SQL writes it in any case
    takes: str  # as SHOW FUNCTIONS prints it; T is one type for all
    gives: str
    types: Callable[[pa.DataType], tuple[pa.DataType, pa.DataType] | None]
    """From the type of an argument: the type it is converted to, and that of the result; None if it is refused."""
    form: Callable[[pa.DataType | None], Counted | Extreme]
    """How the operators compute it over an argument of a type that `types` gives; None stands for `f(*)`."""
    reference: Callable[[Sequence[Any]], Any]
    """The result over the values of a group, as Python values: what the tests compare the operators with."""
    star: pa.DataType | None = None  # the type of f(*); None if it cannot be written so
