"""Conditions of a join of two inputs, taken apart for the tuples of one of them: what queries ask of the tuples' own
attributes, and along which axes they ask for a range of rows of the other input.

    r.b = s.b AND r.a BETWEEN :a1 AND :a2 AND s.c BETWEEN :c1 AND :c2      own: r.a        axis: s.c
    s.b - r.b BETWEEN :lo AND :hi                                         axis: s.b, from r.b
    s.b >= r.b + :lo AND r.b <= s.b                                       the same (`differences.py`)
    abs(r.ts - s.ts) <= :w                                                axis: s.ts, from r.ts, as a distance
    r [RANGE :v], s [RANGE :w]                                            axis: time, from the tuple's own
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline import types as t
from eddyline.index.axes import DOUBLES, INTEGERS, Axes
from eddyline.index.domains import as_integers
from eddyline.index.terms import number_ranges
from eddyline.operators.atoms import Atom, atom
from eddyline.operators.base import PendingWindow
from eddyline.operators.condition import Condition, calls_functions, may_overflow
from eddyline.operators.differences import COMPARED, ORDER, Difference, Span, Sum, difference
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.plan.bands import unwidened
from eddyline.plan.expressions import columns_of, move_columns, params_of, text
from eddyline.plan.normal_form import Clause, clauses
from eddyline.sql.bound import Call, Expr
from eddyline.sql.functions import MIRRORED
from eddyline.state.delta import Delta, Ints
from eddyline.state.query_table import QueryRows

Flags = npt.NDArray[np.bool_]
_LIMITS = np.iinfo(np.int64)
Measure = Literal["place", "distance", "order"]


def span(kind: int, values: Ints) -> Span:
    """Of values along an axis, NaN aside; of none, as if there were a 0."""
    if kind == DOUBLES:
        numbers = values.view(np.float64)
        numbers = numbers[~np.isnan(numbers)]
        return (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 0.0)
    return (int(values.min()), int(values.max())) if len(values) else (0, 0)


@dataclass(frozen=True)
class Axis:
    """A row lies at direction * (value - shift). The condition's attribute is that place, or its distance from 0, or
    its side of 0: how two doubles compare, where NaN is above all.

    `sums` are those that the condition computes besides, as it was written; they are NULL where they overflow."""

    attribute: int
    measure: Measure
    value: Expr  # over the other input's own columns
    shift: Expr | None  # over the arriving input's own columns
    direction: int
    type: pa.DataType  # of the difference
    compared: pa.DataType  # what it is compared as: the same, or wider
    sums: tuple[Sum, ...] = ()

    @property
    def text(self) -> str:
        if self.shift is None:
            return text(self.value)
        sides = (self.value, self.shift) if self.direction > 0 else (self.shift, self.value)
        return text(Call("sub", sides, self.type))

    @property
    def kind(self) -> int:
        # without a shift, values are turned into integers of the same order once and for all
        return DOUBLES if self.shift is not None and t.is_float(self.compared) else INTEGERS

    @property
    def may_overflow_alone(self) -> bool:
        """Whether a row or tuple may fail that has no partner."""
        return may_overflow(self.value) or (self.shift is not None and may_overflow(self.shift))

    def values(self, rows: Delta, functions: Functions) -> tuple[Ints, Flags]:
        """Of rows of the other input, and which are NULL."""
        return self._along(evaluate(self.value, rows.columns, (), len(rows), functions))

    def shifts(self, tuples: Delta, functions: Functions) -> tuple[Ints, Flags]:
        """Of arriving tuples, and which are NULL."""
        if self.shift is None:
            return np.zeros(len(tuples), np.int64), np.zeros(len(tuples), np.bool_)
        return self._along(evaluate(self.shift, tuples.columns, (), len(tuples), functions))

    def _along(self, found: pa.Array) -> tuple[Ints, Flags]:
        if self.kind == INTEGERS:
            return as_integers(found)
        return _doubles(found, np.inf if self.measure == "order" else np.nan)

    def tells(self, values: Span, shifts: Span, bounds: Mapping[Expr, Span]) -> bool:
        """Whether all places can be told: nothing overflows, and rows keep their order along the axis."""
        if self.shift is None:
            return True
        sides = (values, shifts) if self.direction > 0 else (shifts, values)
        if not all(s.fits(*sides, bounds) for s in self.sums):
            return False
        if self.measure == "order" and self.kind == DOUBLES:  # infinity stands for NaN too
            return not any(end in values and end in shifts for end in (-np.inf, np.inf))
        if t.is_float(self.type):  # infinity from itself is NaN, which comes last, where such a row would come first
            first = -self.direction * np.inf
            return first not in values or first not in shifts
        limit: int = (1 << (self.type.bit_width - 1)) - 1
        if self.kind == DOUBLES:  # differences of whole numbers are exact up to here
            limit = min(limit, 1 << 52)
        return -limit <= int(values[0]) - int(shifts[1]) and int(values[1]) - int(shifts[0]) <= limit

    def ranges(self, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """The ranges of queries along the axis, from those of the attribute; some may be empty."""
        if self.measure != "distance":
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

    def tells(self, values: Span, shifts: Span, bounds: Mapping[Expr, Span]) -> bool:
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

    @property
    def bounds(self) -> tuple[Expr, ...]:
        """The queries' own terms of sums that must not overflow."""
        sums = (s for a in self.axes if isinstance(a, Axis) for s in a.sums)
        return tuple(dict.fromkeys(e for s in sums for _, e in s.bounds))

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
    condition: Expr | None, windows: Sequence[PendingWindow], starts: Sequence[int]
) -> tuple[Direction | None, Direction | None]:
    """By input, how its tuples can be processed by groups of ranges; `starts` are the inputs' first columns.

    None where the condition is of another kind.
    """
    parts = [_part(c, starts) for c in clauses(condition)]
    known = [p.attribute for p in parts if isinstance(p, Atom)]
    atoms: list[Atom] = []
    sums: dict[Expr, tuple[Sum, ...]] = {}
    for part in parts:
        if part is None:
            return None, None
        if isinstance(part, Difference):
            attribute, part = _along(part, known)
            known.append(attribute)
            sums[attribute] = sums.get(attribute, ()) + part.all_sums
            part = Atom(part.op, attribute, part.bound)  # type: ignore[arg-type]
        atoms.append(part)
    sizes: list[Expr | None] = [None, None]
    for window in windows:
        sizes[input_of(window.time, starts)] = window.size
    ranged = Condition.of_atoms(atoms)
    return _direction(ranged, sums, sizes, starts, 0), _direction(ranged, sums, sizes, starts, 1)


def _part(clause: Clause, starts: Sequence[int]) -> Atom | Difference | None:
    """A clause as a range of an attribute; None if it is none."""
    expr, *others = clause
    if others or calls_functions(expr):
        return None
    found = _compared(expr)
    if found is not None and found.op in COMPARED and found.attribute.type != t.STRING:
        axis = _axis(0, found.attribute, {found.op}, (), starts, 0)
        alone = len(inputs_of(found.attribute, starts)) == 1
        if alone or (axis is not None and (params_of(expr) or not axis.may_overflow_alone)):
            return found
    return difference(expr, partial(inputs_of, starts=starts))


def _compared(expr: Expr) -> Atom | None:
    """As `atom`; also what is compared with a constant that is the same for all queries."""
    if not isinstance(expr, Call) or expr.function not in COMPARED:
        return atom(expr)
    op, (left, right) = expr.function, expr.args
    if columns_of(right):
        op, left, right = MIRRORED[op], right, left
    plain = columns_of(left) and not params_of(left) and not columns_of(right)
    return Atom(op, left, right) if plain else None  # type: ignore[arg-type]


def _along(difference: Difference, known: Sequence[Expr]) -> tuple[Expr, Difference]:
    """The attribute for a difference: one that is compared already, if it is the same or its negative."""
    for attribute in known:
        expr = unwidened(attribute)
        if isinstance(expr, Call) and (expr.function == ORDER or not t.is_float(attribute.type)):
            args = tuple(unwidened(a) for a in expr.args)
            for turned in (difference, difference.mirrored()):
                if expr.function == turned.attribute.function and args == (turned.left, turned.right):
                    return attribute, turned
    return difference.attribute, difference


def _direction(
    condition: Condition,
    sums: Mapping[Expr, tuple[Sum, ...]],
    windows: Sequence[Expr | None],
    starts: Sequence[int],
    arriving: int,
) -> Direction | None:
    axes: list[Axis | TimeAxis] = []
    own: list[int] = []
    for number, attribute in enumerate(condition.attributes):
        if inputs_of(attribute, starts) == {arriving}:
            own.append(number)
            continue
        ops: set[str] = {a.op for c in condition.ranged for n, a in c.atoms if n == number}
        axis = _axis(number, attribute, ops, sums.get(attribute, ()), starts, arriving)
        if axis is None:
            return None
        axes.append(axis)
    if any(w is not None for w in windows):
        axes.append(TimeAxis(windows[1 - arriving], windows[arriving]))
    moved = tuple(_moved(condition.attributes[n], starts, arriving) for n in own)
    return Direction(condition, tuple(axes), tuple(own), moved) if axes else None


def _axis(
    number: int, expr: Expr, ops: set[str], sums: tuple[Sum, ...], starts: Sequence[int], arriving: int
) -> Axis | None:
    """The axis along which the rows lie that an attribute compares; None if it is not of that kind."""
    other = 1 - arriving
    if inputs_of(expr, starts) == {other}:
        return Axis(number, "place", _moved(expr, starts, other), None, 1, expr.type, expr.type)
    measure: Measure = "place"
    compared = expr.type
    expr = unwidened(expr)
    if isinstance(expr, Call) and expr.function == "abs" and ops <= {"lt", "le"}:
        measure, expr = "distance", expr.args[0]
    if not isinstance(expr, Call) or expr.function not in ("sub", ORDER):
        return None
    left, right = expr.args
    sides = inputs_of(left, starts), inputs_of(right, starts)
    if sides not in (({0}, {1}), ({1}, {0})):
        return None
    if expr.function == ORDER:
        measure = "order"
    elif not _subtractable(left.type, right.type, expr.type):
        return None
    value, shift, direction = (left, right, 1) if sides[0] == {other} else (right, left, -1)
    moved = _moved(value, starts, other), _moved(shift, starts, arriving)
    return Axis(number, measure, *moved, direction, expr.type, compared, sums)


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


def _doubles(values: pa.Array, for_nan: float) -> tuple[Ints, Flags]:
    """Numbers as doubles as they stand in memory, and which are NULL."""
    missing = values.is_null().to_numpy(zero_copy_only=False)
    numbers = np.array(values.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False), np.float64)
    return np.where(np.isnan(numbers), for_nan, numbers).view(np.int64), missing


def input_of(column: int, starts: Sequence[int]) -> int:
    """Which input a column of a join belongs to; `starts` are the inputs' first columns."""
    return int(np.searchsorted(starts, column, side="right")) - 1


def inputs_of(expr: Expr, starts: Sequence[int]) -> set[int]:
    return {input_of(c, starts) for c in columns_of(expr)}


def _moved(expr: Expr, starts: Sequence[int], of: int) -> Expr:
    return move_columns(expr, lambda c: c - int(starts[of]))
