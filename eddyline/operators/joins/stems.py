"""The state modules (SteMs) of a join, one per input. (Document 1, section 3.3.)"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy

import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.operators.base import Operator, Step
from eddyline.operators.evaluate import Functions
from eddyline.operators.joins.buffer_stem import BufferStem
from eddyline.operators.joins.count_stem import CountStem
from eddyline.operators.joins.log_stem import LogStem
from eddyline.operators.joins.route_counts import RouteCounts
from eddyline.operators.joins.routes import Layout, Partial, follow
from eddyline.operators.joins.stem import Stem
from eddyline.operators.joins.table_stem import TableStem
from eddyline.operators.room import byte_text
from eddyline.operators.rows_window import CountWindow
from eddyline.operators.scan import StreamScan
from eddyline.plan import physical
from eddyline.plan.physical import ProbeStep
from eddyline.state.delta import Delta
from eddyline.state.pages import Saved
from eddyline.state.store.stored_table import StoredTable
from eddyline.state.store.stream_log import StreamLog

Logs = Callable[[str], StreamLog | None]  # the log of a stream that families share; None: the join has its own
Tables = Callable[[str], StoredTable | None]  # the rows of a table that families share; None: the join keeps its own


def own_log(stream: str) -> StreamLog | None:
    """Every join has logs of its own."""
    return None


def own_table(table: str) -> StoredTable | None:
    """Every join keeps the rows of tables."""
    return None


class Stems:
    def __init__(self, node: physical.StemJoin, children: Sequence[Operator], logs: Logs, tables: Tables) -> None:
        self.node = node
        self._children = tuple(children)
        self.counts = RouteCounts()
        self._tables = tables
        self.stems = self.empty(logs)

    def replan(self, node: physical.StemJoin) -> None:
        """Takes a plan with other probes. No row is touched: the index of a new key of a log is made when it is first
        probed."""
        self.node = node
        for stem, keys in zip(self.stems, node.keys, strict=True):
            stem.add_keys(keys)

    def as_planned(self) -> Stems:
        """The same SteMs with the present probes, also after they are planned anew."""
        return copy(self)

    def empty(self, logs: Logs = own_log) -> list[Stem]:
        """SteMs without visible rows, except those of shared logs."""
        return [self._stem(i, logs) for i in range(len(self.node.inputs))]

    def _stem(self, i: int, logs: Logs) -> Stem:
        source, counted, keys = self.node.streams[i], self.node.counted[i], self.node.keys[i]
        if counted is not None:
            (window,) = (o for o in self._children[i].walk() if isinstance(o, CountWindow))
            return CountStem(counted, window, keys)
        table = self.node.tables[i]
        if table is not None and (rows := self._tables(table.scan.source.table.lower())) is not None:
            return TableStem(table, keys, rows)
        if source is None:
            return BufferStem(self.node.buffers[i], self.node.inputs[i], keys)
        (scan,) = (o for o in self._children[i].walk() if isinstance(o, StreamScan))
        return LogStem(source, scan, keys, logs(scan.stream) if i in self.node.stored else None)

    @property
    def layout(self) -> Layout:
        return Layout(self.stems, self.node.starts)

    def results(
        self, step: Step, i: int, delta: Delta, *, retracting: bool = False, counts: RouteCounts | None = None
    ) -> Iterator[Partial]:
        """The changes of an input joined with all rows they match.

        `retracting`: they are retractions, and other inputs retract rows in the same step. `counts`: what is to count
        them, if not the counters of the join."""
        origin, route = Partial.of(self.layout, i, delta), self.node.probes[i]
        counts, all_needed = counts or self.counts, self.node.condition is None
        return follow(step, origin, route, counts, retracting=retracting, all_needed=all_needed)

    def wanted(self, step: Step, i: int, probe: ProbeStep, delta: Delta) -> Ints:
        """The slots that changes of an input probe first."""
        values = Partial.of(self.layout, i, delta).values(step, probe.exprs)
        return self.stems[probe.input].wanted(step, probe.key, values, delta.query, len(delta))

    def forget(self, queries: Ints) -> None:
        for stem in self.stems:
            stem.forget(queries)

    def details(self) -> list[str]:
        """Lines for EXPLAIN ANALYZE."""
        return [f"input {i + 1} {_description(self.stems[i])}" for i in self.node.stored]

    def __len__(self) -> int:
        """The number of rows that only this join has."""
        return sum(len(s) for s in self.stems if s.shared_store is None)

    def shared_stores(self) -> list[StreamLog | StoredTable]:
        return [store for s in self.stems if (store := s.shared_store) is not None]

    def save(self) -> dict[str, Saved]:
        saved = {i: table for i, s in enumerate(self.stems) if (table := s.save()) is not None}
        kept = pa.table({"input": pa.array(list(saved), pa.int64())})  # so that no join is saved without a table
        return {"kept": kept} | {f"stem{i}": table for i, table in saved.items()}

    def load(self, saved: dict[str, pa.Table], functions: Functions) -> None:
        for i, stem in enumerate(self.stems):
            if f"stem{i}" in saved:
                stem.load(saved[f"stem{i}"], functions)


def _description(stem: Stem) -> str:
    if stem.shared_store is None:
        return f"has {len(stem):,} rows in {byte_text(stem.nbytes)} of state"
    return f"reads {len(stem.shared_store):,} rows in {byte_text(stem.nbytes)} of shared state"
