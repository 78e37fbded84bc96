"""The SteM of an input that is not a stream: the changes of a table or a subquery, in a state buffer of this join."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.index.keys.sorted_runs import spread
from eddyline.index.runtime.garbage import worth_compacting
from eddyline.operators.base import Step
from eddyline.operators.evaluate import Functions
from eddyline.operators.joins.leaving import first_to_leave
from eddyline.operators.joins.stem import Matches, Retracting
from eddyline.operators.joins.stem_keys import StemKey
from eddyline.plan.physical import Buffer, Key, PhysicalNode
from eddyline.state.buffers import build_buffer
from eddyline.state.buffers.segment import KeyMatches, Segment
from eddyline.state.delta import MAX, MIN, Delta
from eddyline.state.pages import Saved


class BufferStem:
    def __init__(self, plan: Buffer, source: PhysicalNode, keys: Sequence[Key]) -> None:
        self.keys = [StemKey(k) for k in keys]
        attached, retracts = source.attached, source.retracts
        self.buffer = build_buffer(plan, source.types, len(keys), attached=attached, retracts=retracts)

    def __len__(self) -> int:
        return len(self.buffer)

    @property
    def shared_store(self) -> None:
        return None

    @property
    def nbytes(self) -> int:
        return self.buffer.nbytes

    def prepare(self, step: Step, delta: Delta) -> None:
        """Rows are stored when they are shown."""

    def show(self, step: Step, delta: Delta) -> None:
        if not len(delta):
            return
        self.buffer.insert(delta, self._slots(step.functions, delta), step.before)
        if any(worth_compacting(len(k.table), len(self.buffer)) for k in self.keys):  # most keys have no rows
            self.keys = [StemKey(k.plan) for k in self.keys]
            self.buffer.renumber(partial(self._slots, step.functions))

    def retract(self, delta: Delta) -> None:
        self.buffer.retract(delta)

    def forget_leaving(self) -> None:
        self.buffer.forget_leaving()

    def _slots(self, functions: Functions, rows: Delta) -> list[Ints]:
        return [k.slots(functions, rows) for k in self.keys]

    def add_keys(self, keys: Sequence[Key]) -> None:
        assert len(keys) == len(self.keys), "rows of a buffer have the slots of the keys they were stored with"

    def wanted(self, step: Step, key: int, values: Sequence[pa.Array], query: Ints | None, n: int) -> Ints:
        return self.keys[key].wanted(values, query, n)

    def search(self, step: Step, key: int, wanted: Ints, least: int) -> BufferSearch:
        starts = np.cumsum([0, *(len(s) for s in self.buffer.segments)])
        first = {id(s): int(start) for s, start in zip(self.buffer.segments, starts[:-1], strict=True)}
        parts = [(first[id(m.segment)], m) for m in self.buffer.probe(key, wanted)]
        return BufferSearch(parts, len(wanted))

    def arrivals_at(self, rows: Ints) -> Ints | None:
        return None

    def column(self, i: int, rows: Ints) -> pa.Array:
        segments = self.buffer.segments
        if len(segments) == 1:
            return segments[0].rows.columns[i].take(pa.array(rows))
        starts = np.cumsum([0, *(len(s) for s in segments)])
        order = np.argsort(rows, kind="stable")
        cuts = np.searchsorted(rows[order], starts)
        parts = [
            s.rows.columns[i].take(pa.array(rows[order[a:b]] - start))
            for s, start, a, b in zip(segments, starts[:-1], cuts[:-1], cuts[1:], strict=True)
            if a < b
        ]
        where = np.empty(len(rows), np.int64)
        where[order] = np.arange(len(rows))
        return pa.concat_arrays(parts).take(pa.array(where)) if parts else pa.array([], self.buffer.types[i])

    def segments(self, step: Step, key: int) -> list[BufferStemSegment]:
        return [BufferStemSegment(key, _fixed(s), s.slots[key], s.derived) for s in self.buffer.segments]

    def expire(self, step: Step) -> None:
        self.buffer.expire(step.now)

    def forget(self, queries: Ints) -> None:
        if self.buffer.attached:
            self.buffer.forget(queries)

    def save(self) -> Saved | None:
        return self.buffer.save()

    @property
    def restores_exactly(self) -> bool:
        return True

    def load(self, saved: pa.Table, functions: Functions) -> None:
        """Slots are assigned again from the rows, so they are not saved."""
        self.buffer.load(saved, partial(self._slots, functions))


@dataclass(frozen=True)
class BufferSearch:
    parts: Sequence[tuple[int, KeyMatches]]  # the number of a segment's first row, and the matches in it
    wanted: int

    @cached_property
    def counts(self) -> Ints:
        counts: Ints = sum((m.high - m.low for _, m in self.parts), np.zeros(self.wanted, np.int64))
        return counts

    def times(self) -> tuple[int, int]:
        rows = [m.segment.rows for _, m in self.parts]
        return max((int(r.ts.max()) for r in rows), default=MIN), min((int(r.exp.min()) for r in rows), default=MAX)

    def matches(self, start: int, stop: int, retracting: Retracting | None = None) -> Matches:
        none = np.empty(0, np.int64)
        some = [self._in_segment(first, m, start, stop, retracting) for first, m in self.parts]
        if not some:
            return Matches(none, none, none, none, none, none, None)
        if len(some) == 1:
            return some[0]
        query = None if some[0].query is None else np.concatenate([m.query for m in some if m.query is not None])
        probing, rows, ts, exp, first_, last = (np.concatenate([m[i] for m in some]) for i in range(6))
        return Matches(probing, rows, ts, exp, first_, last, query)

    def _in_segment(self, first: int, m: KeyMatches, start: int, stop: int, retracting: Retracting | None) -> Matches:
        segment, rows = m.segment, m.segment.rows
        probing, position = spread(m.low[start:stop], m.high[start:stop])
        row = segment.orders[m.key][position]
        exp = rows.exp[row]
        if retracting is not None:
            probing, row, exp = first_to_leave(segment, probing, row, retracting)
        query = None if rows.query is None else rows.query[row]
        return Matches(probing, row + first, rows.ts[row], exp, rows.first[row], rows.last[row], query)


@dataclass(frozen=True)
class BufferStemSegment:
    key: int
    rows: Delta
    slots: Ints
    derived: dict[Hashable, Any]
    ends: Hashable = None

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: Ints) -> Delta:
        return self.rows.take(rows).spread()


def _fixed(segment: Segment) -> Delta:
    """The rows with ends that a later retraction does not change; cached until there is one."""
    rows = segment.rows
    if rows.exp is segment.born:
        return rows
    if "rows" not in segment.derived:
        segment.derived["rows"] = replace(rows, exp=rows.exp.copy())
    fixed: Delta = segment.derived["rows"]
    return fixed
