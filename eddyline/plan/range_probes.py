"""Range probes: the condition of a join of two inputs, from the view of the tuples that arrive on one of them.

A condition is split into conditions on the tuple's own attributes, and axes along which each query selects a range of
rows of the other input.

    r.b = s.b AND r.a BETWEEN :a1 AND :a2 AND s.c BETWEEN :c1 AND :c2      own: r.a        axis: s.c
    s.b - r.b BETWEEN :lo AND :hi                                         axis: s.b, from r.b
    s.b >= r.b + :lo AND r.b <= s.b                                       the same (`differences.py`)
    abs(r.ts - s.ts) <= :w                                                axis: s.ts, from r.ts, as a distance
    r [RANGE :v], s [RANGE :w]                                            axis: time, from the tuple's own

`operators/joins/placed_axes.py` computes places along the axes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import pyarrow as pa

from eddyline import types as t
from eddyline.plan.atoms import Atom, atom
from eddyline.plan.differences import COMPARED, ORDER, Difference, Sum, differences
from eddyline.plan.expressions import (
    calls_functions,
    columns_of,
    may_overflow,
    move_columns,
    params_of,
    text,
    unwidened,
)
from eddyline.plan.normal_form import Clause, clauses
from eddyline.sql.bound import Call, Expr
from eddyline.sql.functions import MIRRORED

Measure = Literal["place", "distance", "order"]


@dataclass(frozen=True)
class PendingWindow:
    """A time window whose size depends on the query; applied when changes are attached to queries."""

    time: int  # position of the event-time column
    size: Expr


@dataclass(frozen=True)
class Axis:
    """The position of a row is direction * (value - shift). `measure` says what the condition compares: the position,
    its absolute value, or its sign (for doubles; NaN is above all numbers).

    `sums` are the other sums that the condition computes as written; they are NULL where they overflow."""

    attribute: int
    measure: Measure
    value: Expr  # over the other input's own columns
    shift: Expr | None  # over the arriving input's own columns
    direction: int
    type: pa.DataType  # of the difference
    compared: pa.DataType  # the type it is compared in: the same or wider
    sums: tuple[Sum, ...] = ()

    @property
    def text(self) -> str:
        if self.shift is None:
            return text(self.value)
        sides = (self.value, self.shift) if self.direction > 0 else (self.shift, self.value)
        return text(Call("sub", sides, self.type))


@dataclass(frozen=True)
class TimeAxis:
    """The time of a row minus the time of the tuple: between minus the row's window and the tuple's window, per query.

    `before` is the window of the other input, `after` that of the arriving input; None if it is not per-query."""

    before: Expr | None
    after: Expr | None
    text: str = "time"


@dataclass(frozen=True)
class RangeProbe:
    """How the tuples of one input find the rows of the other: by groups of the queries' ranges."""

    atoms: tuple[Atom, ...]  # all conditions of the queries
    axes: tuple[Axis | TimeAxis, ...]
    own: tuple[int, ...]  # positions of the attributes over the tuples' own columns
    own_exprs: tuple[Expr, ...]  # these attributes

    @property
    def bounds(self) -> tuple[Expr, ...]:
        """The per-query terms of sums that must not overflow."""
        sums = (s for a in self.axes if isinstance(a, Axis) for s in a.sums)
        return tuple(dict.fromkeys(e for s in sums for _, e in s.bounds))


def range_probes(
    condition: Expr | None, windows: Sequence[PendingWindow], starts: Sequence[int]
) -> tuple[RangeProbe | None, RangeProbe | None]:
    """The range probe of each input; None where the condition has another form. `starts`: the inputs' first columns."""
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
    return _probe(atoms, sums, sizes, starts, 0), _probe(atoms, sums, sizes, starts, 1)


def _part(clause: Clause, starts: Sequence[int]) -> Atom | Difference | None:
    """A clause as a range of an attribute; None if it has another form."""
    expr, *others = clause
    if others or calls_functions(expr):
        return None
    compared = _compared(expr)
    if compared is not None and compared.op in COMPARED and compared.attribute.type != t.STRING:
        axis = _axis(0, compared.attribute, {compared.op}, (), starts, 0)
        alone = len(inputs_of(compared.attribute, starts)) == 1
        if alone or (axis is not None and (params_of(expr) or not _may_overflow_alone(axis))):
            return compared
    exact = differences(expr, partial(inputs_of, starts=starts), "exact")
    return exact[0] if exact else None


def _compared(expr: Expr) -> Atom | None:
    """Like `atom`, and also for comparisons with a constant that is the same for all queries."""
    if not isinstance(expr, Call) or expr.function not in COMPARED:
        return atom(expr)
    op, (left, right) = expr.function, expr.args
    if columns_of(right):
        op, left, right = MIRRORED[op], right, left
    plain = columns_of(left) and not params_of(left) and not columns_of(right)
    return Atom(op, left, right) if plain else None  # type: ignore[arg-type]


def _along(difference: Difference, known: Sequence[Expr]) -> tuple[Expr, Difference]:
    """The attribute for a difference: a known one if it is equal to the difference or to its negative."""
    for attribute in known:
        expr = unwidened(attribute)
        if isinstance(expr, Call) and (expr.function == ORDER or not t.is_float(attribute.type)):
            args = tuple(unwidened(a) for a in expr.args)
            for turned in (difference, difference.mirrored()):
                if expr.function == turned.attribute.function and args == (turned.left, turned.right):
                    return attribute, turned
    return difference.attribute, difference


def _probe(
    atoms: Sequence[Atom],
    sums: Mapping[Expr, tuple[Sum, ...]],
    windows: Sequence[Expr | None],
    starts: Sequence[int],
    arriving: int,
) -> RangeProbe | None:
    axes: list[Axis | TimeAxis] = []
    own: list[int] = []
    attributes = list(dict.fromkeys(a.attribute for a in atoms))
    for number, attribute in enumerate(attributes):
        if inputs_of(attribute, starts) == {arriving}:
            own.append(number)
            continue
        ops: set[str] = {a.op for a in atoms if a.attribute == attribute}
        axis = _axis(number, attribute, ops, sums.get(attribute, ()), starts, arriving)
        if axis is None:
            return None
        axes.append(axis)
    if any(w is not None for w in windows):
        axes.append(TimeAxis(windows[1 - arriving], windows[arriving]))
    moved = tuple(_moved(attributes[n], starts, arriving) for n in own)
    return RangeProbe(tuple(atoms), tuple(axes), tuple(own), moved) if axes else None


def _axis(
    number: int, expr: Expr, ops: set[str], sums: tuple[Sum, ...], starts: Sequence[int], arriving: int
) -> Axis | None:
    """The axis that an attribute defines on the rows of the other input; None if it has another form."""
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


def _may_overflow_alone(axis: Axis) -> bool:
    """Whether a row or tuple without a partner may overflow."""
    return may_overflow(axis.value) or (axis.shift is not None and may_overflow(axis.shift))


def input_of(column: int, starts: Sequence[int]) -> int:
    """The input that a column of a join belongs to; `starts` are the inputs' first columns."""
    return bisect_right(starts, column) - 1


def inputs_of(expr: Expr, starts: Sequence[int]) -> set[int]:
    return {input_of(c, starts) for c in columns_of(expr)}


def _moved(expr: Expr, starts: Sequence[int], of: int) -> Expr:
    return move_columns(expr, lambda c: c - starts[of])
