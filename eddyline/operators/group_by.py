"""GROUP BY: the aggregates of each group of each query, as they change when rows begin, end and are retracted.

Results wait for the clock. Aggregates in the form `Counted` are computed from counters and due events (`counters.py`),
those in the form `Extreme` from the rows that can still be the extreme (`extremes.py`). A group's row is sent with its
known end: the instant before its counters may change or its extremes will. A row that still holds then is sent again;
one that changes earlier is retracted. A step costs O(due events * log) for the groups they touch, however many groups
there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.aggregates.description import Extreme
from eddyline.arrays import Ints, Mask
from eddyline.index.runtime.garbage import worth_compacting
from eddyline.index.timelines.versions import NONE
from eddyline.operators.base import Operator, Step
from eddyline.operators.counter_layout import contributions, layout, results
from eddyline.operators.counters import Counters
from eddyline.operators.counting import made_by
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.operators.extremes import Extremes
from eddyline.operators.group_rows import GroupRows, Versions
from eddyline.operators.joins.ranged import Probing
from eddyline.operators.logged_ends import LoggedEnds, without_ends
from eddyline.operators.range_sums import RangeSums
from eddyline.operators.scan import StreamScan
from eddyline.operators.slots import Slots
from eddyline.operators.twin_classes import SentRows
from eddyline.plan import physical
from eddyline.plan.expressions import params_of
from eddyline.state.calendar import Calendar
from eddyline.state.delta import MAX, Delta, query_of
from eddyline.state.store.stored_table import StoredTable
from eddyline.state.store.stream_log import StreamLog
from eddyline.state.timeline import Events, Timeline, interval_events, join_events


class GroupBy(Operator):
    def __init__(self, node: physical.GroupBy, children: Sequence[Operator], log: StreamLog | None = None) -> None:
        """`log` is that of the stream below, if it is shared and ends are to be read from it."""
        super().__init__(node, children)
        self.keys, self.aggregates = keys, aggregates = node.keys, node.aggregates
        arguments = (a.argument for a in aggregates if a.argument is not None)
        self.params_used = {p for e in (*keys, *arguments) for p in params_of(e)}
        self.layout = layout(aggregates)
        self.slots = Slots([k.type for k in keys])
        self.timeline = Timeline(self.layout.ints, self.layout.floats)
        self.counters = Counters(self.layout)
        self.calendar = Calendar()
        self._in_use = 0  # groups in use at the last check
        self.rows = GroupRows([a.type for a in aggregates])
        self.extremes = {
            i: Extremes(form.which, aggregates[i].type, buffer, retracts=node.input.retracts)
            for i, (form, buffer) in enumerate(zip(self.layout.forms, node.buffers, strict=True))
            if isinstance(form, Extreme) and buffer is not None
        }
        self.uses_counters = len(self.extremes) < len(aggregates) or not aggregates
        self.range_sums = RangeSums.of(node, children[0], self.layout)
        self.ends: LoggedEnds | None = None
        if log is not None and isinstance(node.input, physical.Attach):
            (scan,) = (o for o in children[0].walk() if isinstance(o, StreamScan))
            self.ends = LoggedEnds(node.input.condition, scan, log, self.layout)

    def pull(self, step: Step) -> Delta:
        pieces: Sequence[tuple[int, Probing] | Delta]
        if self.range_sums is not None and step.kind == "arrivals":
            pieces = self.range_sums.join.pieces(step)
        else:
            pieces = (self.children[0].pull(step),)
        touched_by: list[tuple[Ints, Ints, Ints]] = []
        parts = [self.timeline.none()]
        for piece in pieces:
            if not isinstance(piece, Delta):
                parts.append(self._add_unlisted(step, *piece, touched_by))
            elif len(piece):
                delta = piece.spread()
                slot, new = self._add_rows(step, delta)
                parts.append(new)
                touched_by.append((slot, delta.ts, delta.last))
        events = join_events(parts)
        started = self._start_groups(step)
        self._grow()
        soon = events.time <= step.now
        self.timeline.add(events.take(~soon))
        self.calendar.hasten(events.slot[~soon], events.time[~soon])
        # A group that is due has an event, or its row has ended: so each of them has a version, and is scheduled anew.
        touched = np.unique(np.concatenate([self.calendar.take(step.now), started.slot, events.slot[soon]]))
        if not len(touched):
            return self.none()
        ending = [self.timeline.due(touched, step.now)]
        if self.ends is not None:
            ending.append(self.ends.due(touched, self.slots.query[touched], step.now, step.queries, step.functions))
        new = join_events([started, events.take(soon), *ending])
        changes = self._send(self._versions(step, touched, new), touched_by)
        self._compact()
        return changes

    # input: changes of rows become events of counters

    def _add_rows(self, step: Step, delta: Delta) -> tuple[Ints, Events]:
        """The slot of each change, and its events: it adds to counters when it begins, and subtracts after its end."""
        n, query = len(delta), query_of(delta)
        params: Sequence[Any] = ()
        if self.params_used:
            params = step.queries.params_at(self.params_used, step.queries.positions(query))
        keys = [evaluate(k, delta.columns, params, n, step.functions, query) for k in self.keys]
        arguments = [
            None if a.argument is None else evaluate(a.argument, delta.columns, params, n, step.functions, query)
            for a in self.aggregates
        ]
        slot = self.slots.of(query, keys)
        self._grow()
        for i, extremes in self.extremes.items():
            extremes.insert(slot, delta, arguments[i], step.before)
        ints, floats = contributions(self.layout, arguments, n)
        sign = delta.sign[:, None]
        if self.ends is not None:
            self.ends.expect(slot, delta)
            self.calendar.hasten(slot, self.ends.next[slot])
            delta = without_ends(delta)
        return slot, interval_events(slot, delta, ints * sign, floats * sign)

    def _add_unlisted(self, step: Step, i: int, probing: Probing, touched_by: list[tuple[Ints, Ints, Ints]]) -> Events:
        """The events of the joined rows of arriving tuples of input i; the joined rows are not built."""
        assert self.range_sums is not None
        folded = self.range_sums.fold(i, probing)
        slot = self.slots.of(step.queries.ids_at(folded.query), [])
        self._grow()
        for number, extremes in self.extremes.items():
            rows, query, column = self.range_sums.extremes(i, probing, number)
            extremes.insert(self.slots.of(step.queries.ids_at(query), []), rows, column, step.before)
        begins = folded.last >= 0
        touched_by.append((slot[begins], folded.time[begins], folded.last[begins]))
        return Events(slot, folded.time, folded.ints, folded.floats)

    def _start_groups(self, step: Step) -> Events:
        """Without keys, the single group of a query exists from its registration on."""
        if self.keys or step.kind != "replay":
            return self.timeline.none()
        ids = step.queries.ids_at(step.queries.live())
        return self.timeline.ticks(self.slots.of(ids, []), np.full(len(ids), step.now))

    # output: versions of the groups' rows become changes

    def _versions(self, step: Step, touched: Ints, events: Events) -> Versions:
        # A row that has reached its end gets an event just after it, so that it is sent again if it still holds.
        ended = touched[(self.rows.place[touched] >= 0) & (self.rows.end[touched] < step.now)]
        events = join_events([events, self.timeline.ticks(ended, self.rows.end[ended] + 1)]).sorted()
        at, ints, floats = self.counters.apply(events)
        slot, time = events.slot[at], events.time[at]
        last = np.append(slot[1:] != slot[:-1], True)[: len(slot)]
        until = np.full(len(slot), MAX, np.int64)
        extreme_columns = []
        for extremes in self.extremes.values():
            column, ends = extremes.at(slot, time, last, self._last_known)
            extreme_columns.append(column)
            until = np.minimum(until, ends)
        if self.uses_counters:
            until[last] = np.minimum(until[last], self._last_known(slot[last]))
        columns = results(self.layout, ints, floats, extreme_columns)
        exists = ints[:, 0] > 0 if self.keys else np.ones(len(slot), np.bool_)
        return Versions(slot, time, exists, columns, last, until)

    def _last_known(self, groups: Ints) -> Ints:
        """The instant before the next event of each group."""
        soonest = self._next_time(groups)
        return np.where(soonest < MAX, soonest - 1, MAX)

    def _next_time(self, groups: Ints) -> Ints:
        """The next event of each group."""
        soonest = self.timeline.next_time(groups)
        return soonest if self.ends is None else np.minimum(soonest, self.ends.next[groups])

    def _send(self, versions: Versions, touched_by: Sequence[tuple[Ints, Ints, Ints]]) -> Delta:
        slot, (sign, ts, exp), columns = self.rows.update(versions)
        self._set_wake(versions.slot[versions.last], versions.until[versions.last])
        return Delta(
            (*self.slots.values(slot), *columns),
            None,
            ts,
            exp,
            sign,
            np.full(len(slot), MAX, np.int64),
            made_by(slot, ts, touched_by),
            self.slots.query[slot],
        )

    def _set_wake(self, groups: Ints, until: Ints) -> None:
        """A group with a row wakes when the row ends or may change; one without wakes at its next event."""
        end = np.minimum(self.rows.end[groups], until)
        changes = np.where(end < MAX, end + 1, MAX)
        has_row = self.rows.place[groups] != NONE
        self.calendar.schedule(groups, np.where(has_row, changes, self._next_time(groups)))

    # state

    def _grow(self) -> None:
        n = len(self.slots)
        self.timeline.grow(n)
        self.counters.grow(n)
        self.rows.grow(n)
        self.calendar.grow(n)
        if self.ends is not None:
            self.ends.grow(n)

    def _compact(self) -> None:
        """Removes empty groups, once they may be the majority."""
        n = len(self.slots)
        if not self.keys or not worth_compacting(n, self._in_use):
            return
        used = self._used()
        self._in_use = int(np.count_nonzero(used))
        if worth_compacting(n, self._in_use):
            self._keep(used)

    def _used(self) -> Mask:
        """The groups that have rows, now or later."""
        n = len(self.slots)
        coming = self._next_time(np.arange(n)) < MAX
        used: Mask = (self.counters.totals[:n, 0] != 0) | coming | (self.rows.place[:n] >= 0)
        return used

    def expire(self, step: Step) -> None:
        super().expire(step)
        for extremes in self.extremes.values():
            extremes.stem.expire(step.now)
        if self.keys and not (used := self._used()).all():
            self._keep(used)

    def _keep(self, used: Mask) -> None:
        mapping = self.slots.keep(used)
        self.timeline.keep(mapping)
        self.counters.keep(used)
        self.rows.keep(used)
        self.calendar.keep(used)
        if self.ends is not None:
            self.ends.keep(used)
        for extremes in self.extremes.values():
            extremes.stem.move(mapping)
        self._grow()

    def forget(self, queries: Ints) -> None:
        super().forget(queries)
        self._keep(~np.isin(self.slots.query, queries))

    def sent(self, queries: Ints) -> SentRows:
        slots = np.nonzero(np.isin(self.slots.query, queries))[0]
        slots = slots[self.rows.place[slots] != NONE]
        columns = [*self.slots.values(slots), *self.rows.of(slots)]
        return SentRows(self.slots.query[slots], columns, self.rows.end[slots])

    def size(self) -> int:
        return (
            len(self.slots) + sum(len(r) for r in self.timeline.runs) + sum(len(e.stem) for e in self.extremes.values())
        )

    def shared_stores(self) -> list[StreamLog | StoredTable]:
        return [] if self.ends is None else [self.ends.log]

    def nbytes(self) -> int:
        kept = self.slots, self.timeline, self.counters, self.rows, self.calendar
        ends = 0 if self.ends is None else self.ends.next.nbytes
        return sum(k.nbytes for k in kept) + sum(e.stem.nbytes for e in self.extremes.values()) + ends

    def save(self) -> dict[str, pa.Table]:
        n = len(self.slots)
        counters, rest = self.counters.save(n)
        rows, values = self.rows.save(n)
        groups = pa.table({"wake": self.calendar.wake[:n]} | rows | counters)
        tables = {"slots": self.slots.save(), "groups": groups} | self.timeline.save()
        if self.layout.floats:
            tables["rest"] = rest
        if self.ends is not None:
            tables["ends"] = self.ends.save(n)
        return tables | {"out": values} | {f"extreme{i}": e.stem.save() for i, e in self.extremes.items()}

    def load(self, saved: dict[str, pa.Table], functions: Functions) -> None:
        self.slots.load(saved["slots"])
        self.timeline.load(saved)
        groups = saved["groups"]
        self.calendar.load(np.array(groups.column("wake").to_numpy()))
        self.rows.load(groups, saved)
        if self.ends is not None:
            self.ends.load(saved.get("ends"))
        self._grow()
        self.counters.load(groups, saved.get("rest"), self.timeline.later(np.arange(len(self.slots))))
        for i, extremes in self.extremes.items():
            extremes.stem.load(saved[f"extreme{i}"], lambda rows: [query_of(rows)])
