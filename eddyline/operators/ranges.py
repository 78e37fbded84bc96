"""Conditions of a join of two inputs, taken apart for the tuples of one of them: what queries ask of the tuples' own
attributes, and along which axes they ask for a range of rows of the other input.

    r.b = s.b AND r.a BETWEEN :a1 AND :a2 AND s.c BETWEEN :c1 AND :c2      own: r.a        axis: s.c
    s.b - r.b BETWEEN :lo AND :hi                                         axis: s.b, from r.b
    abs(r.ts - s.ts) <= :w                                                axis: s.ts, from r.ts, as a distance
    r [RANGE :v], s [RANGE :w]                                            axis: time, from the tuple's own
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline import types as t
from eddyline.families.queries import QueryRows
from eddyline.index.axes import DOUBLES, INTEGERS, Axes
from eddyline.index.domains import as_integers
from eddyline.index.terms import number_ranges
from eddyline.operators.base import PendingWindow
from eddyline.operators.condition import Condition
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.plan.bands import unwidened
from eddyline.plan.expressions import columns_of, move_columns, params_of, text
from eddyline.sql.bound import Call, Expr
from eddyline.state.delta import Delta, Ints

Flags = npt.NDArray[np.bool_]
_LIMITS = np.iinfo(np.int64)
_COMPARED = ("lt", "le", "gt", "ge", "eq")


Span = tuple[float, float]  # the least and the largest


def span(kind: int, values: Ints) -> Span:
    """Of values along an axis, NaN aside; of none, as if there were a 0."""
    if kind == DOUBLES:
        numbers = values.view(np.float64)
        numbers = numbers[~np.isnan(numbers)]
        return (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 0.0)
    return (int(values.min()), int(values.max())) if len(values) else (0, 0)


@dataclass(frozen=True)
class Axis:
    """A row lies at direction * (value - shift). The condition's attribute is that place, or its distance from 0."""

    attribute: int
    measure: Literal["place", "distance"]
    value: Expr  # over the other input's own columns
    shift: Expr | None  # over the arriving input's own columns
    direction: int
    type: pa.DataType  # of the difference
    compared: pa.DataType  # what it is compared as: the same, or wider

    @property
    def text(self) -> str:
        if self.shift is None:
            return text(self.value)
        left, right = (self.value, self.shift) if self.direction > 0 else (self.shift, self.value)
        return f"{text(left)} - {text(right)}"

    @property
    def kind(self) -> int:
        # without a shift, values are turned into integers of the same order once and for all
        return DOUBLES if self.shift is not None and t.is_float(self.compared) else INTEGERS

    def values(self, rows: Delta, functions: Functions) -> tuple[Ints, Flags]:
        """Of rows of the other input, and which are NULL."""
        found = evaluate(self.value, rows.columns, (), len(rows), functions)
        return as_integers(found) if self.kind == INTEGERS else _doubles(found)

    def shifts(self, tuples: Delta, functions: Functions) -> tuple[Ints, Flags]:
        """Of arriving tuples, and which are NULL."""
        if self.shift is None:
            return np.zeros(len(tuples), np.int64), np.zeros(len(tuples), np.bool_)
        found = evaluate(self.shift, tuples.columns, (), len(tuples), functions)
        return as_integers(found) if self.kind == INTEGERS else _doubles(found)

    def tells(self, values: Span, shifts: Span) -> bool:
        """Whether all places can be told: no difference overflows, and rows keep their order along the axis."""
        if self.shift is None:
            return True
        if t.is_float(self.type):  # infinity from itself is NaN, which comes last, where such a row would come first
            first = -self.direction * np.inf
            return first not in values or first not in shifts
        limit: int = (1 << (self.type.bit_width - 1)) - 1
        if self.kind == DOUBLES:  # differences of whole numbers are exact up to here
            limit = min(limit, 1 << 52)
        return -limit <= int(values[0]) - int(shifts[1]) and int(values[1]) - int(shifts[0]) <= limit

    def ranges(self, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """The ranges of queries along the axis, from those of the attribute; some may be empty."""
        if self.measure == "place":
            return low, high
        return np.where(high < 0, 1, ~high if t.is_float(self.compared) else -high), high


@dataclass(frozen=True)
class TimeAxis:
    """How much later a row is than the tuple: at most the tuple's window, at least minus the row's, by query.

    `before` is the window of the other input, `after` that of the arriving one; None if it is no query's own."""

    before: Expr | None
    after: Expr | None
    direction: int = 1
    kind: int = INTEGERS
    text: str = "time"

    def values(self, rows: Delta, functions: Functions) -> tuple[Ints, Flags]:
        return _some_time(rows.ts), np.zeros(len(rows), np.bool_)

    def shifts(self, tuples: Delta, functions: Functions) -> tuple[Ints, Flags]:
        return _some_time(tuples.ts), np.zeros(len(tuples), np.bool_)

    def tells(self, values: Span, shifts: Span) -> bool:
        return True


@dataclass(frozen=True)
class Direction:
    """How the tuples of one input meet the rows of the other."""

    condition: Condition
    axes: tuple[Axis | TimeAxis, ...]
    own: tuple[int, ...]  # attributes of the condition that are the tuples' own
    own_exprs: tuple[Expr, ...]  # over their own columns

    @property
    def places(self) -> Axes:
        """How places are computed."""
        kinds, directions = [a.kind for a in self.axes], [a.direction for a in self.axes]
        return Axes(np.array(kinds, np.uint8), np.array(directions, np.int64))

    def asked(self, queries: QueryRows, positions: Ints, functions: Functions) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Of the queries at some positions: those that ask for something (their numbers), their ranges along each axis,
        and their ranges over each own attribute."""
        low, high, standing = number_ranges(self.condition.terms(queries, positions, functions))
        first = np.empty((len(self.axes), len(positions)), np.int64)
        last = np.empty_like(first)
        for i, axis in enumerate(self.axes):
            if isinstance(axis, Axis):
                first[i], last[i] = axis.ranges(low[axis.attribute], high[axis.attribute])
            else:
                back, on = (_widths(w, queries, positions, functions) for w in (axis.before, axis.after))
                standing &= (back >= 0) & (on >= 0)
                first[i], last[i] = -back, on
        standing &= (first <= last).all(axis=0)
        kept = np.nonzero(standing)[0]
        own = list(self.own)
        return kept, first[:, kept], last[:, kept], low[own][:, kept], high[own][:, kept]


def directions(
    condition: Condition, windows: Sequence[PendingWindow], starts: Sequence[int]
) -> tuple[Direction | None, Direction | None]:
    """By input, how its tuples can be processed by groups of ranges; `starts` are the inputs' first columns.

    None where the condition is of another kind.
    """
    nothing = None, None
    if condition.others:
        return nothing
    for clause in condition.ranged:
        plain = len(clause.atoms) == 1 and not clause.constants
        if not plain or clause.atoms[0][1].op not in _COMPARED or clause.atoms[0][1].attribute.type == t.STRING:
            return nothing
    sizes: list[Expr | None] = [None, None]
    for window in windows:
        sizes[_input(window.time, starts)] = window.size
    return _direction(condition, sizes, starts, 0), _direction(condition, sizes, starts, 1)


def _direction(
    condition: Condition, windows: Sequence[Expr | None], starts: Sequence[int], arriving: int
) -> Direction | None:
    axes: list[Axis | TimeAxis] = []
    own: list[int] = []
    for number, attribute in enumerate(condition.attributes):
        if _inputs(attribute, starts) == {arriving}:
            own.append(number)
            continue
        ops: set[str] = {a.op for c in condition.ranged for n, a in c.atoms if n == number}
        axis = _axis(number, attribute, ops, starts, arriving)
        if axis is None:
            return None
        axes.append(axis)
    if any(w is not None for w in windows):
        axes.append(TimeAxis(windows[1 - arriving], windows[arriving]))
    moved = tuple(_moved(condition.attributes[n], starts, arriving) for n in own)
    return Direction(condition, tuple(axes), tuple(own), moved) if axes else None


def _axis(number: int, expr: Expr, ops: set[str], starts: Sequence[int], arriving: int) -> Axis | None:
    """The axis along which the rows lie that an attribute compares; None if it is not of that kind."""
    other = 1 - arriving
    if _inputs(expr, starts) == {other}:
        return Axis(number, "place", _moved(expr, starts, other), None, 1, expr.type, expr.type)
    measure: Literal["place", "distance"] = "place"
    compared = expr.type
    expr = unwidened(expr)
    if isinstance(expr, Call) and expr.function == "abs" and ops <= {"lt", "le"}:
        measure, expr = "distance", expr.args[0]
    if not isinstance(expr, Call) or expr.function != "sub":
        return None
    left, right = expr.args
    sides = _inputs(left, starts), _inputs(right, starts)
    if sides not in (({0}, {1}), ({1}, {0})) or not _subtractable(left.type, right.type, expr.type):
        return None
    value, shift, direction = (left, right, 1) if sides[0] == {other} else (right, left, -1)
    moved = _moved(value, starts, other), _moved(shift, starts, arriving)
    return Axis(number, measure, *moved, direction, expr.type, compared)


def _subtractable(left: pa.DataType, right: pa.DataType, result: pa.DataType) -> bool:
    if t.is_integer(result):
        return bool(left == right == result)
    return left == right and left in (t.DOUBLE, t.TIMESTAMP, t.INTERVAL)


def _widths(size: Expr | None, queries: QueryRows, positions: Ints, functions: Functions) -> Ints:
    """The windows of queries; below 0 for those that have none."""
    if size is None:
        return np.full(len(positions), _LIMITS.max, np.int64)
    params, ids = queries.params_at(params_of(size), positions), queries.ids_at(positions)
    found = evaluate(size, (), params, len(positions), functions, ids).cast(pa.int64())
    return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def _some_time(ts: Ints) -> Ints:
    """What has no beginning begins at a time so far away that nothing comes before it, but differences fit."""
    return np.clip(ts, -(1 << 61), 1 << 61)


def _doubles(values: pa.Array) -> tuple[Ints, Flags]:
    """Numbers as doubles as they stand in memory, and which are NULL."""
    missing = values.is_null().to_numpy(zero_copy_only=False)
    return np.array(
        values.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False), np.float64
    ).view(np.int64), missing


def _input(column: int, starts: Sequence[int]) -> int:
    return int(np.searchsorted(starts, column, side="right")) - 1


def _inputs(expr: Expr, starts: Sequence[int]) -> set[int]:
    return {_input(c, starts) for c in columns_of(expr)}


def _moved(expr: Expr, starts: Sequence[int], of: int) -> Expr:
    return move_columns(expr, lambda c: c - int(starts[of]))
