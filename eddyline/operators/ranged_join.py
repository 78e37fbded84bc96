"""Joins of two inputs whose queries differ in ranges: select joins and band joins (document 4, section 3).

    r.b = s.b AND r.a BETWEEN :a1 AND :a2 AND s.c BETWEEN :c1 AND :c2          s.b - r.b BETWEEN :lo AND :hi

When tuples of one input arrive, the rows of the other that have their key lie along an axis: by the value that the
queries' ranges are about, or by its difference to the tuple's own. Which queries a tuple affects is found by group of
ranges (`index/range_groups.py`), without looking at rows or queries one by one; which rows it gives them is found
afterwards, for those who want to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline import types as t
from eddyline.families.queries import QueryRows
from eddyline.index.domains import as_integers
from eddyline.index.parallel import LARGEST, in_portions
from eddyline.index.range_groups import Arrivals, Nearest, RangeGroups, Values, affected, range_groups
from eddyline.index.range_rows import count_rows, list_rows
from eddyline.index.ranges import equal_ranges, portions
from eddyline.index.sets import Containers, Lists
from eddyline.index.terms import number_ranges
from eddyline.operators.base import Step
from eddyline.operators.condition import Condition
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.operators.matcher import Portion
from eddyline.operators.query_runs import QueryRuns, Run
from eddyline.plan.expressions import columns_of, move_columns
from eddyline.sql.bound import Call, Expr
from eddyline.state.delta import Delta, Ints
from eddyline.state.stem import Ranked, Segment, Stem, ranked

Words = npt.NDArray[np.uint64]
NEAREST_AT_ONCE = 1 << 18  # pairs of a tuple and a group
_LIMITS = np.iinfo(np.int64)
_COMPARED = ("lt", "le", "gt", "ge", "eq")


@dataclass(frozen=True)
class Axis:
    """Where the rows of the other input lie for an arriving tuple: at direction * (value - shift).

    Attribute `attribute` of the condition is that place (`measure` "place"), or how far it is from 0 ("distance").
    """

    attribute: int
    value: Expr  # over the other input's own columns
    shift: Expr | None  # over the arriving input's own columns
    direction: int
    measure: str
    type: pa.DataType


@dataclass(frozen=True)
class Direction:
    """How the tuples of one input meet the rows of the other."""

    axis: Axis
    own: tuple[int, ...]  # attributes of the condition that are the tuples' own
    own_exprs: tuple[Expr, ...]  # over their own columns


def directions(condition: Condition, starts: Sequence[int]) -> tuple[Direction | None, Direction | None]:
    """By input, how its tuples can be processed by groups of ranges; `starts` are the inputs' first columns.

    None where the condition is of another kind.
    """
    if condition.others or not condition.ranged:
        return None, None
    for clause in condition.ranged:
        plain = len(clause.atoms) == 1 and not clause.constants
        if not plain or clause.atoms[0][1].op not in _COMPARED or clause.atoms[0][1].attribute.type == t.STRING:
            return None, None
    return _direction(condition, starts, 0), _direction(condition, starts, 1)


def _direction(condition: Condition, starts: Sequence[int], arriving: int) -> Direction | None:
    axes: list[Axis] = []
    own: list[int] = []
    for number, attribute in enumerate(condition.attributes):
        if _inputs(attribute, starts) == {arriving}:
            own.append(number)
            continue
        ops = {a.op for c in condition.ranged for n, a in c.atoms if n == number}
        axis = _axis(number, attribute, ops, starts, arriving)
        if axis is None:
            return None
        axes.append(axis)
    if len(axes) != 1:
        return None
    return Direction(axes[0], tuple(own), tuple(_moved(condition.attributes[n], starts, arriving) for n in own))


def _axis(number: int, expr: Expr, ops: set[str], starts: Sequence[int], arriving: int) -> Axis | None:
    """The axis along which the rows lie that an attribute compares; None if it is not of that kind."""
    other = 1 - arriving
    if _inputs(expr, starts) == {other}:
        return Axis(number, _moved(expr, starts, other), None, 1, "place", expr.type)
    measure = "place"
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
    return Axis(number, *moved, direction, measure, expr.type)


def _subtractable(left: pa.DataType, right: pa.DataType, result: pa.DataType) -> bool:
    if t.is_integer(result):
        return left == right == result
    return left == right and left in (t.DOUBLE, t.TIMESTAMP, t.INTERVAL)


def _inputs(expr: Expr, starts: Sequence[int]) -> set[int]:
    return {int(np.searchsorted(starts, c, side="right")) - 1 for c in columns_of(expr)}


def _moved(expr: Expr, starts: Sequence[int], of: int) -> Expr:
    return move_columns(expr, lambda c: c - int(starts[of]))


class RangedSide:
    """The queries of a family as seen by the tuples of one input."""

    def __init__(self, condition: Condition, direction: Direction) -> None:
        self.condition = condition
        self.direction = direction
        self.runs = QueryRuns(self._groups)

    def _groups(self, queries: QueryRows, positions: Ints, functions: Functions) -> RangeGroups:
        low, high, standing = number_ranges(self.condition.terms(queries, positions, functions))
        kept = np.nonzero(standing)[0]
        low, high = low[:, kept], high[:, kept]
        axis = self.direction.axis
        first, last = low[axis.attribute], high[axis.attribute]
        floating = t.is_float(axis.type)
        if axis.measure == "distance":
            kept, last = kept[last >= 0], last[last >= 0]
            first = ~last if floating else -last
        if floating:
            first = np.minimum(first, _LIMITS.max - 1)  # where NaN lies
        groups = range_groups(first, last, [(low[a], high[a]) for a in self.direction.own])
        numbers = np.where(groups.numbers < 0, -1, kept[groups.numbers] if len(kept) else -1)
        return replace(groups, numbers=numbers.astype(np.int32))

    def probing(self, step: Step, delta: Delta, slots: Ints, key: int, stem: Stem) -> Probing | None:
        """What the tuples find, by the slots of their keys; None if they cannot be processed in this way."""
        axis = self.direction.axis
        functions = step.functions
        latest = step.queries.latest
        rows = [_ranked(s, key, axis, functions) for s in stem.segments]
        if any(r.first < latest for r in rows):
            return None
        nothing = np.zeros(len(delta), np.bool_)
        own = np.empty((2 * len(self.direction.own), len(delta)), np.int64)
        for i, expr in enumerate(self.direction.own_exprs):
            own[2 * i], missing = as_integers(evaluate(expr, delta.columns, (), len(delta), functions))
            own[2 * i + 1] = ~own[2 * i]
            nothing |= missing
        shift: Values = np.zeros(len(delta), np.int64)
        if axis.shift is not None:
            shift, missing = _plain(evaluate(axis.shift, delta.columns, (), len(delta), functions))
            nothing |= missing
        if not _within(axis, rows, shift):
            return None
        slots = np.where(nothing, -2, slots)
        return Probing(
            step, delta, Arrivals(shift, axis.direction, delta.ts, delta.exp, own),
            tuple((r, *equal_ranges(r.slots, slots)) for r in rows), self.runs(step.queries, functions),
        )  # fmt: skip


def _ranked(segment: Segment, key: int, axis: Axis, functions: Functions) -> Ranked:
    tag = key, (axis.value, axis.direction, axis.shift is None)
    found = segment.ranked.get(tag)
    if found is None:
        values = evaluate(axis.value, segment.rows.columns, (), len(segment), functions)
        # without a shift, places are compared with ranges as they are; otherwise differences are
        numbers, missing = as_integers(values) if axis.shift is None else _plain(values)
        if axis.shift is None and t.is_float(axis.type):
            numbers = np.minimum(numbers, _LIMITS.max - 1)
        found = segment.ranked[tag] = ranked(segment, key, numbers, missing, axis.direction)
    return found


def _plain(values: pa.Array) -> tuple[Values, npt.NDArray[np.bool_]]:
    """Doubles as they are, all else as integers; and which are NULL."""
    if not pa.types.is_floating(values.type):
        return as_integers(values)
    missing = values.is_null().to_numpy(zero_copy_only=False)
    return np.asarray(values.fill_null(0.0).to_numpy(zero_copy_only=False), np.float64), missing


def _within(axis: Axis, rows: Sequence[Ranked], shift: Values) -> bool:
    """Whether all places can be told: no difference overflows, and none is what stands for nothing."""
    if shift.dtype == np.float64:
        return bool(np.isfinite(shift).all())
    if axis.shift is None and t.is_float(axis.type):
        return True
    bits = axis.type.bit_width if axis.shift is not None else 64
    limit = 1 << (bits - 1)
    for r in rows:
        if len(r.place) and len(shift):
            least, most = int(r.least) - int(shift.max()), int(r.most) - int(shift.min())
            if least <= -limit or most >= limit - 1 or -least >= limit - 1 or -most <= -limit:
                return False
    return True


@dataclass(frozen=True)
class Pairs:
    """Tuples, the places of rows in their segment, and positions of queries, in that order."""

    tuples: Ints
    places: Ints
    queries: Ints


@dataclass(frozen=True)
class Probing:
    """Tuples of one input about to meet rows and queries of one moment."""

    step: Step
    delta: Delta
    arrivals: Arrivals
    rows: tuple[tuple[Ranked, Ints, Ints], ...]  # of each segment: where the partners of every tuple are
    runs: tuple[Run[RangeGroups], ...]

    @cached_property
    def _living(self) -> list[Words]:
        """By run, the bits that count; none if all do."""
        return [_living(r, self.step.queries) for r in self.runs]

    def count(self) -> int:
        """How many pairs (tuple, query) there are."""
        return int(self.counts().sum())

    def counts(self) -> Ints:
        """How many queries each tuple affects."""
        found = self._in_portions(partial(self._counts, listing=False))
        return np.concatenate([np.empty(0, np.int64), *found])

    def _counts(self, start: int, stop: int, *, listing: bool) -> Ints:
        total = np.zeros(stop - start, np.int64)
        for counts, _ in self._affected(start, stop, listing=listing):
            total += counts
        return total

    def sets(self) -> list[Portion]:
        """For every tuple the set of queries it affects."""
        return self._in_portions(self._sets)

    def _sets(self, start: int, stop: int) -> Portion:
        parts = []
        for run, (_, sets) in zip(self.runs, self._affected(start, stop, listing=True), strict=True):
            assert sets is not None
            numbers = sets.numbers
            positions = np.where(numbers < 0, -1, run.position_of(numbers)).astype(np.int32)
            parts.append(replace(sets, numbers=positions))
        return Portion(start, stop - start, tuple(parts))

    @cached_property
    def _ranges(self) -> tuple[Ints, Ints]:
        """By position of a query, the ends of its range."""
        low, high = np.zeros(len(self.step.queries), np.int64), np.zeros(len(self.step.queries), np.int64)
        for run in self.runs:
            numbers = run.index.numbers
            positions = run.position_of(numbers[numbers >= 0])
            low[positions], high[positions] = run.index.lows, run.index.ends
        return low, high

    def rows_given(self) -> Ints:
        """How many rows each tuple gives to the queries it affects, all together."""
        found = self._in_portions(lambda start, stop: sum(self._rows_of(self._sets(start, stop).listed(), start, stop)))
        return np.concatenate([np.empty(0, np.int64), *found])

    def _rows_of(self, queries: Lists, start: int, stop: int) -> list[Ints]:
        """By segment, how many rows each of some tuples gives."""
        some = self._some(start, stop)
        low, high = self._ranges
        return [count_rows(queries, low, high, some, r.rows, b[start:stop], e[start:stop]) for r, b, e in self.rows]

    def pairs(self) -> list[list[Pairs]]:
        """By segment: the rows that tuples give to queries, some at a time."""
        found: list[list[Pairs]] = [[] for _ in self.rows]
        low, high = self._ranges
        for portion in self.sets():
            queries = portion.listed()
            counts = self._rows_of(queries, portion.start, portion.start + portion.rows)
            for mine, (r, begin, end), count in zip(found, self.rows, counts, strict=True):
                for a, b in portions(count):
                    start, stop = portion.start + a, portion.start + b
                    lists = Lists(queries.starts[a : b + 1], queries.members)
                    tuples, place, query = list_rows(
                        lists, low, high, self._some(start, stop), r.rows, begin[start:stop], end[start:stop], r.place,
                        count[a:b],
                    )  # fmt: skip
                    mine.append(Pairs(tuples + start, place, query))
        return found

    def _some(self, start: int, stop: int) -> Arrivals:
        a = self.arrivals
        return Arrivals(a.shift[start:stop], a.direction, a.ts[start:stop], a.exp[start:stop], a.own[:, start:stop])

    def _affected(self, start: int, stop: int, *, listing: bool) -> list[tuple[Ints, Containers | None]]:
        """By run."""
        some = self._some(start, stop)
        found = []
        for run, living in zip(self.runs, self._living, strict=True):
            nearest = Nearest.none(stop - start, run.index)
            for r, begin, end in self.rows:
                nearest.look(run.index, some, r.rows, begin[start:stop], end[start:stop])
            found.append(affected(run.index, some, nearest, living, listing=listing))
        return found

    def _in_portions(self, work):  # type: ignore[no-untyped-def]
        groups = max((len(r.index.points) for r in self.runs), default=1)
        blocks = max((r.index.words // 64 for r in self.runs), default=1)
        largest = max(1, min(LARGEST // (1 + blocks // 4), NEAREST_AT_ONCE // max(1, groups)))
        return in_portions(len(self.delta), self.step.threads, work, largest)


def _living(run: Run[RangeGroups], queries: QueryRows) -> Words:
    alive = run.alive(queries)
    if not len(alive):
        return np.empty(0, np.uint64)
    numbers = run.index.numbers
    bits = (numbers >= 0) & alive[numbers]
    return np.packbits(bits, bitorder="little").view(np.uint64)
