"""Physical plans: frozen nodes that name the algorithm of every operator (`operators/build.py` makes one per node).

The changes of an edge are *attached*, each to a query, or shared by all queries of the family. All that operators and
hosts must know of a plan beforehand is a property of its nodes, derived from their inputs:

    pattern         the update pattern of the output (`patterns.py`)
    retracts        whether a row may leave before the end it was announced with
    recomputable    whether the answer can be computed again from the streams; otherwise it is kept
    initial_answer  whether there may be an answer before any tuple arrives: a new query is shown it
    deferrable      whether the changes of a step can be counted and listed later, without building their rows
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar, Literal

import pyarrow as pa

from eddyline.plan.expressions import calls_functions, params_of
from eddyline.plan.patterns import Pattern
from eddyline.plan.range_probes import PendingWindow, RangeProbe
from eddyline.sql.bound import Aggregate, Constant, Expr, Output, StreamSource, TableSource


@dataclass(frozen=True)
class PhysicalNode:
    pattern: Pattern
    inputs: tuple[PhysicalNode, ...]
    waits: ClassVar[bool] = False  # for the clock, because its output depends on order or absence

    @property
    def input(self) -> PhysicalNode:
        """The only input."""
        (only,) = self.inputs
        return only

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return self.inputs[0].types

    @property
    def attached(self) -> bool:
        return len(self.inputs) > 0 and self.inputs[0].attached

    @property
    def pending(self) -> tuple[PendingWindow, ...]:
        """The queries' own windows that have not been applied to the output yet."""
        return self.inputs[0].pending if self.inputs else ()

    @property
    def retracts(self) -> bool:
        return self.pattern is Pattern.STR or any(i.retracts for i in self.inputs)

    @property
    def recomputable(self) -> bool:
        return not self.waits and all(i.recomputable for i in self.inputs)

    @property
    def initial_answer(self) -> bool:
        return any(i.initial_answer for i in self.inputs)

    @property
    def reads_streams(self) -> bool:
        return any(i.reads_streams for i in self.inputs)

    @property
    def deferrable(self) -> bool:
        return False

    def walk(self) -> Iterator[PhysicalNode]:
        yield self
        for i in self.inputs:
            yield from i.walk()


@dataclass(frozen=True)
class _PerQuery(PhysicalNode):
    """Its output is attached, and no window is pending."""

    @property
    def attached(self) -> bool:
        return True

    @property
    def pending(self) -> tuple[PendingWindow, ...]:
        return ()


@dataclass(frozen=True)
class StreamScan(PhysicalNode):
    """Arriving tuples. A window of one size ends them; one that is the query's own is left pending."""

    source: StreamSource

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return tuple(f.type for f in self.source.fields)

    @property
    def pending(self) -> tuple[PendingWindow, ...]:
        size = self.source.window.size
        if size is None or (isinstance(size, Constant) and size.value is not None):
            return ()
        return (PendingWindow(self.source.time, size),)

    @property
    def reads_streams(self) -> bool:
        return True


@dataclass(frozen=True)
class TableScan(PhysicalNode):
    """Changes of a table."""

    source: TableSource

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return tuple(f.type for f in self.source.fields)

    @property
    def initial_answer(self) -> bool:
        return True


@dataclass(frozen=True)
class CountWindow(_PerQuery):
    """One log of tuples shared by all queries, of which every window is a part."""

    size: Expr
    waits: ClassVar[bool] = True


@dataclass(frozen=True)
class Filter(PhysicalNode):
    """A condition evaluated change by change; one with parameters needs an attached input."""

    condition: Expr

    def __post_init__(self) -> None:
        assert self.attached or not params_of(self.condition), "a condition with parameters over shared changes"


@dataclass(frozen=True)
class Attach(_PerQuery):
    """Shared changes, matched with the table of queries by grouped filters: they become changes of single queries."""

    condition: Expr | None

    def __post_init__(self) -> None:
        assert not self.input.attached, "attached twice"

    @property
    def deferrable(self) -> bool:
        """Of a stream alone, which keeps no state: the batch and the queries of its moment are all there is to know."""
        calls = self.condition is not None and calls_functions(self.condition)
        return isinstance(self.input, StreamScan) and not self.input.pending and not calls


@dataclass(frozen=True)
class Project(PhysicalNode):
    outputs: tuple[Output, ...]

    def __post_init__(self) -> None:
        assert not self.input.pending, "a projection loses the event time that a window needs"

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return tuple(o.expr.type for o in self.outputs)

    @property
    def deferrable(self) -> bool:
        return self.input.deferrable and not any(calls_functions(o.expr) for o in self.outputs)


@dataclass(frozen=True)
class UnionAll(PhysicalNode):
    def __post_init__(self) -> None:
        assert len({i.attached for i in self.inputs}) == 1, "shared changes beside attached ones"


@dataclass(frozen=True)
class SetOperation(_PerQuery):
    """Counts how often each value occurs on each side, per query."""

    kind: Literal["distinct", "negation", "intersect"]
    waits: ClassVar[bool] = True


@dataclass(frozen=True)
class RangeArgument:
    """The argument of an aggregate over one input's own columns, of a join that is aggregated without its rows."""

    input: int
    expr: Expr


@dataclass(frozen=True)
class GroupBy(_PerQuery):
    """Groups per query. With `range_arguments` the rows of the join below are folded by ranges instead of built."""

    keys: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]
    range_arguments: tuple[RangeArgument | None, ...] | None
    waits: ClassVar[bool] = True

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return tuple(k.type for k in self.keys) + tuple(a.type for a in self.aggregates)

    @property
    def retracts(self) -> bool:
        return True  # a new row of a group replaces the one before, whose end was announced

    @property
    def initial_answer(self) -> bool:
        return not self.keys or self.input.initial_answer


@dataclass(frozen=True)
class Cluster(_PerQuery):
    """One copy of all below for each class of queries: those that agree on `params` and on what they have seen.

    A change of a class is given to the members that satisfy `where`."""

    params: tuple[int, ...]
    where: Expr | None


@dataclass(frozen=True)
class Expirations(_PerQuery):
    """A `-` for every row that reaches its end, for emit = 'all'."""


@dataclass(frozen=True)
class Key:
    """By what a SteM finds rows: expressions over their own columns, and the query if both sides are attached."""

    exprs: tuple[Expr, ...]
    with_query: bool


@dataclass(frozen=True)
class ProbeStep:
    """The next SteM to probe: by which of its keys, with which expressions over what is joined so far."""

    input: int
    key: int
    exprs: tuple[Expr, ...]
    conditions: Expr | None  # what can be checked once this input is joined


@dataclass(frozen=True)
class FirstFilter:
    """Conditions with parameters over one input's own columns, which its tuples can meet before they probe.

    `carries`: these are all the conditions with parameters, so tuples carry their queries into the joined rows.
    `always`: the filter comes first whatever it costs; otherwise that is measured."""

    condition: Expr
    carries: bool
    always: bool


@dataclass(frozen=True)
class StemJoin(PhysicalNode):
    """A join of any arity over state modules, one per input. By input: its keys, the order in which its changes probe
    the others, its first filter, and how its tuples are processed by ranges, if they are."""

    condition: Expr | None  # with parameters, over the joined rows
    windows: tuple[PendingWindow, ...]
    keys: tuple[tuple[Key, ...], ...]
    probes: tuple[tuple[ProbeStep, ...], ...]
    filters: tuple[FirstFilter | None, ...]
    ranges: tuple[RangeProbe | None, ...]
    frozen_table: int | None = None  # the position of a non-retroactive table: it is probed and never probes
    strategy: str | None = None  # how a tuple finds the queries it affects along its axes; None: estimated for each

    @property
    def starts(self) -> tuple[int, ...]:
        """The first column of each input, and the number of all columns."""
        return tuple(accumulate((len(i.types) for i in self.inputs), initial=0))

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return tuple(x for i in self.inputs for x in i.types)

    @property
    def attached(self) -> bool:
        # where only windows tell queries apart, they tell which queries a tuple of two inputs affects
        by_window = len(self.windows) > 0 and len(self.inputs) == 2
        return self.condition is not None or by_window or any(i.attached for i in self.inputs)

    @property
    def pending(self) -> tuple[PendingWindow, ...]:
        return () if self.attached else self.windows

    @property
    def retracts(self) -> bool:
        return any(i.retracts for n, i in enumerate(self.inputs) if n != self.frozen_table)

    @property
    def recomputable(self) -> bool:
        return self.frozen_table is None and super().recomputable

    @property
    def deferrable(self) -> bool:
        return any(r is not None for r in self.ranges)
