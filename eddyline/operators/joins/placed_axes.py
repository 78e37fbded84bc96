"""Places of rows, arriving tuples and queries' ranges along the axes of a join over ranges (`plan/range_probes.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline import types as t
from eddyline.arrays import Ints, Mask
from eddyline.index.filters.clauses import number_ranges
from eddyline.index.filters.domains import as_integers
from eddyline.index.ranges.probes import DOUBLES, INTEGERS, Axes
from eddyline.operators.condition import Condition
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.plan.differences import Span
from eddyline.plan.expressions import params_of
from eddyline.plan.range_probes import Axis, RangeProbe, TimeAxis
from eddyline.sql.bound import Expr
from eddyline.state.delta import Delta
from eddyline.state.query_table import QueryRows

_LIMITS = np.iinfo(np.int64)


def span(kind: int, values: Ints) -> Span:
    """Minimum and maximum of values along an axis, without NaN; (0, 0) if there are none."""
    if kind == DOUBLES:
        numbers = values.view(np.float64)
        numbers = numbers[~np.isnan(numbers)]
        return (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 0.0)
    return (int(values.min()), int(values.max())) if len(values) else (0, 0)


@dataclass(frozen=True)
class PlacedAxis:
    """Computes places along an axis of the plan."""

    plan: Axis

    @property
    def text(self) -> str:
        return self.plan.text

    @property
    def direction(self) -> int:
        return self.plan.direction

    @property
    def kind(self) -> int:
        # without a shift, values are converted once to integers of the same order
        return DOUBLES if self.plan.shift is not None and t.is_float(self.plan.compared) else INTEGERS

    def values(self, rows: Delta, functions: Functions) -> tuple[Ints, Mask]:
        """The values of rows of the other input, and which are NULL."""
        return self._along(evaluate(self.plan.value, rows.columns, (), len(rows), functions))

    def shifts(self, tuples: Delta, functions: Functions) -> tuple[Ints, Mask]:
        """The shifts of arriving tuples, and which are NULL."""
        if self.plan.shift is None:
            return np.zeros(len(tuples), np.int64), np.zeros(len(tuples), np.bool_)
        return self._along(evaluate(self.plan.shift, tuples.columns, (), len(tuples), functions))

    def _along(self, values: pa.Array) -> tuple[Ints, Mask]:
        if self.kind == INTEGERS:
            return as_integers(values)
        return _doubles(values, np.inf if self.plan.measure == "order" else np.nan)

    def is_exact(self, values: Span, shifts: Span, bounds: Mapping[Expr, Span]) -> bool:
        """Whether all places are defined: nothing overflows, and rows keep their order along the axis."""
        if self.plan.shift is None:
            return True
        sides = (values, shifts) if self.direction > 0 else (shifts, values)
        if not all(s.fits(*sides, bounds) for s in self.plan.sums):
            return False
        if self.plan.measure == "order" and self.kind == DOUBLES:  # infinity represents NaN too
            return not any(end in values and end in shifts for end in (-np.inf, np.inf))
        if t.is_float(
            self.plan.type
        ):  # infinity from itself is NaN, which comes last, where such a row would come first
            first = -self.direction * np.inf
            return first not in values or first not in shifts
        limit: int = (1 << (self.plan.type.bit_width - 1)) - 1
        if self.kind == DOUBLES:  # differences of whole numbers are exact up to here
            limit = min(limit, 1 << 52)
        return -limit <= int(values[0]) - int(shifts[1]) and int(values[1]) - int(shifts[0]) <= limit

    def ranges(self, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """The ranges of queries along the axis, from those of the attribute; some may be empty."""
        if self.plan.measure != "distance":
            return low, high
        return np.where(high < 0, 1, ~high if t.is_float(self.plan.compared) else -high), high


@dataclass(frozen=True)
class PlacedTime:
    """Places along a time axis of the plan."""

    plan: TimeAxis
    direction: int = 1
    kind: int = INTEGERS

    @property
    def text(self) -> str:
        return self.plan.text

    def values(self, rows: Delta, functions: Functions) -> tuple[Ints, Mask]:
        return _some_time(rows.ts), np.zeros(len(rows), np.bool_)

    def shifts(self, tuples: Delta, functions: Functions) -> tuple[Ints, Mask]:
        return _some_time(tuples.ts), np.zeros(len(tuples), np.bool_)

    def is_exact(self, values: Span, shifts: Span, bounds: Mapping[Expr, Span]) -> bool:
        return True


@dataclass(frozen=True)
class Direction:
    """How the tuples of one input probe the rows of the other, as planned."""

    plan: RangeProbe
    condition: Condition
    axes: tuple[PlacedAxis | PlacedTime, ...]

    @classmethod
    def of(cls, plan: RangeProbe) -> Direction:
        axes = tuple(PlacedAxis(a) if isinstance(a, Axis) else PlacedTime(a) for a in plan.axes)
        return cls(plan, Condition.of_atoms(plan.atoms), axes)

    @property
    def places(self) -> Axes:
        """The axes as input of kernels, which compute places."""
        kinds, directions = [a.kind for a in self.axes], [a.direction for a in self.axes]
        return Axes(np.array(kinds, np.uint8), np.array(directions, np.int64))

    def ranges(self, queries: QueryRows, positions: Ints, functions: Functions) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Of the queries at these positions: those whose ranges are not empty (their indexes), their ranges along each
        axis, and their ranges over each own attribute."""
        low, high, valid = number_ranges(self.condition.of_queries(queries, positions, functions))
        first = np.empty((len(self.axes), len(positions)), np.int64)
        last = np.empty_like(first)
        for i, axis in enumerate(self.axes):
            if isinstance(axis, PlacedAxis):
                first[i], last[i] = axis.ranges(low[axis.plan.attribute], high[axis.plan.attribute])
            else:
                sizes = axis.plan.before, axis.plan.after
                back, on = (_widths(w, queries, positions, functions) for w in sizes)
                valid &= (back >= 0) & (on >= 0)
                first[i], last[i] = -back, on
        valid &= (first <= last).all(axis=0)
        kept = np.nonzero(valid)[0]
        own = list(self.plan.own)
        return kept, first[:, kept], last[:, kept], low[own][:, kept], high[own][:, kept]


def _widths(size: Expr | None, queries: QueryRows, positions: Ints, functions: Functions) -> Ints:
    """The window sizes of queries; below 0 where the size is NULL."""
    if size is None:
        return np.full(len(positions), _LIMITS.max, np.int64)
    params, ids = queries.params_at(params_of(size), positions), queries.ids_at(positions)
    sizes = evaluate(size, (), params, len(positions), functions, ids).cast(pa.int64())
    return np.asarray(sizes.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def _some_time(ts: Ints) -> Ints:
    """Times clipped so that differences cannot overflow; a row without a beginning still precedes all others."""
    return np.clip(ts, -(1 << 61), 1 << 61)


def _doubles(values: pa.Array, for_nan: float) -> tuple[Ints, Mask]:
    """Numbers as the bits of doubles, and which are NULL."""
    missing = values.is_null().to_numpy(zero_copy_only=False)
    numbers = np.array(values.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False), np.float64)
    return np.where(np.isnan(numbers), for_nan, numbers).view(np.int64), missing
