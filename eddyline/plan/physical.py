"""Physical plans: frozen nodes that name the algorithm of every operator (`operators/build.py` builds one per node).

The changes that a node emits are *attached*, each to one query, or shared by all queries of the family. What operators
and hosts need to know of a plan in advance are properties of its nodes, derived from their inputs:

    pattern         the update pattern of the output (`patterns.py`)
    retracts        whether a row may be retracted before its announced expiration
    recomputable    whether the answer can be recomputed from the streams; otherwise it is stored
    initial_answer  whether a new query may have an answer before any tuple arrives
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
    waits: ClassVar[bool] = False  # whether it waits for the clock: its output depends on order or on absent rows

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
        """The per-query windows that are not yet applied to the output."""
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
    """A node whose output is attached, without pending windows."""

    @property
    def attached(self) -> bool:
        return True

    @property
    def pending(self) -> tuple[PendingWindow, ...]:
        return ()


@dataclass(frozen=True)
class _Scan(PhysicalNode):
    source: StreamSource | TableSource

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return tuple(f.type for f in self.source.fields)


@dataclass(frozen=True)
class StreamScan(_Scan):
    """Arriving tuples. A window of constant size sets their expiration; a per-query window stays pending."""

    source: StreamSource

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
class TableScan(_Scan):
    """Changes of a table."""

    source: TableSource

    @property
    def initial_answer(self) -> bool:
        return True


@dataclass(frozen=True)
class CountWindow(_PerQuery):
    """Count windows: each query's window is the newest part of the stream's log."""

    size: Expr
    waits: ClassVar[bool] = True

    @property
    def scan(self) -> StreamScan:
        assert isinstance(self.input, StreamScan), "only streams have count windows"
        return self.input

    @property
    def recomputable(self) -> bool:
        """The log keeps every tuple that is in a window."""
        return True


@dataclass(frozen=True)
class Filter(PhysicalNode):
    """A condition evaluated for each change; a condition with parameters needs an attached input."""

    condition: Expr

    def __post_init__(self) -> None:
        assert self.attached or not params_of(self.condition), "a condition with parameters over shared changes"


@dataclass(frozen=True)
class Attach(_PerQuery):
    """Attaches shared changes to queries: grouped filters match them with the table of queries."""

    condition: Expr | None

    def __post_init__(self) -> None:
        assert not self.input.attached, "attached twice"

    @property
    def deferrable(self) -> bool:
        """Only directly over a stream, without state: the batch and the current queries determine the changes."""
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
class DuplicateElimination(_PerQuery):
    """DISTINCT that keeps, per query and value, only the latest ends of its rows: the input never retracts."""

    waits: ClassVar[bool] = True

    def __post_init__(self) -> None:
        assert not self.input.retracts, "rows that may be retracted must be counted"


@dataclass(frozen=True)
class RangeArgument:
    """The argument of an aggregate over one input of a join, for aggregation without building the joined rows."""

    input: int
    expr: Expr


@dataclass(frozen=True)
class Buffer:
    """How rows are kept: a state buffer and an eviction policy, by their names in the registries of `state/buffers`."""

    kind: str = "sorted segments"
    eviction: str = "expired"


@dataclass(frozen=True)
class GroupBy(_PerQuery):
    """Groups per query. With `range_arguments` the join below is aggregated by ranges without building its rows.

    `buffers` has, by aggregate, where the rows are kept that can be its result; None: only counters are kept."""

    keys: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]
    range_arguments: tuple[RangeArgument | None, ...] | None
    buffers: tuple[Buffer | None, ...]
    ends: Literal["stored", "in log"] = "stored"  # of the rows in windows: whether they are read from the log
    waits: ClassVar[bool] = True

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return tuple(k.type for k in self.keys) + tuple(a.type for a in self.aggregates)

    @property
    def retracts(self) -> bool:
        return True  # a new row of a group retracts the previous one

    @property
    def initial_answer(self) -> bool:
        return not self.keys or self.input.initial_answer


@dataclass(frozen=True)
class Cluster(_PerQuery):
    """One copy of the input per class of queries: queries with equal `params` that have read the same input.

    A change of a class is attached to the members that satisfy `where`."""

    params: tuple[int, ...]
    where: Expr | None


@dataclass(frozen=True)
class Expirations(_PerQuery):
    """Emits a `-` for every row that expires, for emit = 'all'."""


JoinMethod = Literal["hash", "nested loop", "hybrid"]


@dataclass(frozen=True)
class Key:
    """A search key of a SteM: expressions over its rows, and the query if both sides are attached."""

    exprs: tuple[Expr, ...]
    with_query: bool


@dataclass(frozen=True)
class ProbeStep:
    """The next SteM to probe: the number of its key, and the key's expressions over the inputs joined so far."""

    input: int
    key: int
    exprs: tuple[Expr, ...]
    conditions: Expr | None  # checked once this input is joined
    scans: bool = False  # whether equalities are among the conditions, and no key is used


@dataclass(frozen=True)
class StreamInput:
    """An input of a join that reads a stream, with a condition on it alone. Its rows are in the stream's log."""

    scan: StreamScan
    condition: Expr | None


@dataclass(frozen=True)
class CountInput:
    """An input of a join that selects and projects a count window. Its rows are in the stream's log; conditions, those
    shared by all queries and those per query, and the input's columns are expressions over the stream's columns."""

    window: CountWindow
    condition: Expr | None
    per_query: Expr | None
    outputs: tuple[Expr, ...]


@dataclass(frozen=True)
class TableInput:
    """An input of a join that reads a table, with a condition on it alone."""

    scan: TableScan
    condition: Expr | None


@dataclass(frozen=True)
class FirstFilter:
    """Conditions with parameters, or that call functions, over one input alone: they can filter its tuples before they
    probe. `rest` are the other conditions of that kind, over the joined rows.

    `always`: the filter always runs first; otherwise only where measurements show that it is cheaper."""

    condition: Expr
    rest: Expr | None
    always: bool

    @property
    def carries(self) -> bool:
        """Whether the queries of a tuple are those of its joined rows: there are no other conditions."""
        return self.rest is None

    @property
    def calls_functions(self) -> bool:
        return calls_functions(self.condition)


@dataclass(frozen=True)
class StemJoin(PhysicalNode):
    """A join of any number of inputs over SteMs, one per input. Per input: the keys of its SteM; the stream or the
    count window whose log has its rows, or the table that has them, or else the buffer that keeps them; the order in
    which its changes probe the others; its first filter; and its range probe, if it has one."""

    condition: Expr | None  # with parameters, over the joined rows
    windows: tuple[PendingWindow, ...]
    keys: tuple[tuple[Key, ...], ...]
    streams: tuple[StreamInput | None, ...]
    counted: tuple[CountInput | None, ...]
    tables: tuple[TableInput | None, ...]
    buffers: tuple[Buffer, ...]
    probes: tuple[tuple[ProbeStep, ...], ...]
    filters: tuple[FirstFilter | None, ...]
    ranges: tuple[RangeProbe | None, ...]
    frozen_table: int | None = None  # the position of a non-retroactive table: it is probed and never probes
    strategy: str | None = None  # how a tuple finds the queries it affects along its axes; None: estimated for each
    predicate: Expr | None = None  # without parameters, over the joined rows: what keys and conditions of probes check
    method: JoinMethod = "hash"
    forced: tuple[int, ...] | None = None  # all inputs in the order that was asked for; None: it follows the data
    scanned: frozenset[int] = frozenset()  # the inputs that are searched without a key

    @property
    def stored(self) -> tuple[int, ...]:
        """The inputs whose rows are kept: all, or only the non-retroactive table."""
        return tuple(range(len(self.inputs))) if self.frozen_table is None else (self.frozen_table,)

    @property
    def starts(self) -> tuple[int, ...]:
        """The first column of each input, and the number of all columns."""
        return tuple(accumulate((len(i.types) for i in self.inputs), initial=0))

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return tuple(x for i in self.inputs for x in i.types)

    @property
    def attached(self) -> bool:
        # in a join of two inputs, per-query windows alone determine the queries of a joined row
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
    def ranged(self) -> bool:
        """Whether some input can be processed by groups of ranges."""
        return any(r is not None for r in self.ranges)

    @property
    def deferrable(self) -> bool:
        return self.ranged or all(s is not None for s in self.streams)
