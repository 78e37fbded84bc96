"""GROUP BY: the aggregates of each group of each query, as they change when rows begin and end.

Results wait for the clock. Sums follow from counters and the events due (`index/accumulate.py`), extremes from the rows
that can still matter (`extremes.py`). A group's row is sent with the end it is known to have: the next
instant at which one of its sums can change, or its extremes must; a row that still holds then is sent again, one
that changes earlier is taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.aggregates.description import Extreme
from eddyline.index.keys import ColumnCoder, KeyTable
from eddyline.index.upkeep import worth_clearing
from eddyline.index.versions import NONE, send_versions
from eddyline.operators.base import Operator, Step
from eddyline.operators.counter_layout import contributions, layout, results
from eddyline.operators.counters import Counters
from eddyline.operators.counting import made_by
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.operators.extremes import Extremes
from eddyline.operators.range_sums import RangeSums
from eddyline.operators.ranged_join import Probing
from eddyline.operators.slots import Slots, grown
from eddyline.plan.expressions import params_of
from eddyline.sql.bound import Aggregate, Expr
from eddyline.state.delta import MAX, Delta, Ints, join_arrays, query_of
from eddyline.state.timeline import Events, Timeline, join_events

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class History:
    """What happened to the touched groups up to the clock: one entry per group and instant, in that order."""

    slot: Ints
    time: Ints
    exists: Mask
    columns: list[pa.Array]
    last: Mask  # whether it is the group's latest entry
    until: Ints  # for the latest entries: the last instant the row is known to hold

    def __len__(self) -> int:
        return len(self.slot)


class GroupBy(Operator):
    def __init__(self, child: Operator, keys: tuple[Expr, ...], aggregates: tuple[Aggregate, ...]) -> None:
        super().__init__((child,))
        self.keys, self.aggregates = keys, aggregates
        self.attached = self.takes_back = True
        self.types = tuple(k.type for k in keys) + tuple(a.type for a in aggregates)
        arguments = (a.argument for a in aggregates if a.argument is not None)
        self.params_used = {p for e in (*keys, *arguments) for p in params_of(e)}
        self.layout = layout(aggregates)
        self.slots = Slots([k.type for k in keys])
        self.timeline = Timeline(self.layout.ints, self.layout.floats)
        self.counters = Counters(self.layout)
        self.wake: Ints = np.empty(0, np.int64)
        # The row each group has in the answer: its end (below the clock if none), and where its values stand.
        self.out_end: Ints = np.empty(0, np.int64)
        self.out_row: Ints = np.empty(0, np.int64)
        self.out_values: list[pa.Array] = [pa.array([], a.type) for a in aggregates]
        self.out_height = 0
        self.extremes = {
            i: Extremes(form.which, aggregates[i].type, retracts=child.takes_back)
            for i, form in enumerate(self.layout.forms)
            if isinstance(form, Extreme)
        }
        self.counts = len(self.extremes) < len(aggregates) or not aggregates
        self.range_sums = RangeSums.of(child, keys, self.layout)

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
                parts.append(self._fold(step, *piece, touched_by))
            elif len(piece):
                delta = piece.spread()
                slot, new = self._take_in(step, delta)
                parts.append(new)
                touched_by.append((slot, delta.ts, delta.last))
        events = join_events(parts)
        started = self._start_groups(step)
        self._grow()
        soon = events.time <= step.now
        self.timeline.add(events.take(~soon))
        np.minimum.at(self.wake, events.slot[~soon], events.time[~soon])
        due = np.nonzero(self.wake[: len(self.slots)] <= step.now)[0]
        touched = np.unique(np.concatenate([due, started.slot, events.slot[soon]]))
        if not len(touched):
            return self.none()
        new = join_events([started, events.take(soon), self.timeline.due(touched, step.now)])
        history = self._history(step, touched, new)
        changes = self._reconcile(history, touched_by)
        self._clear_away()
        return changes

    # taking in

    def _take_in(self, step: Step, delta: Delta) -> tuple[Ints, Events]:
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
        ints *= delta.sign[:, None]
        floats *= delta.sign[:, None]
        ends = delta.exp < MAX
        return slot, Events(
            np.concatenate([slot, slot[ends]]),
            np.concatenate([delta.ts, delta.exp[ends] + 1]),
            np.concatenate([ints, -ints[ends]]),
            np.concatenate([floats, -floats[ends]]),
        )

    def _fold(self, step: Step, i: int, probing: Probing, touched_by: list[tuple[Ints, Ints, Ints]]) -> Events:
        """As `_take_in`, for tuples whose rows are not listed."""
        assert self.range_sums is not None
        found = self.range_sums.fold(i, probing)
        slot = self.slots.of(step.queries.ids_at(found.query), [])
        self._grow()
        for number, extremes in self.extremes.items():
            rows, query, column = self.range_sums.extremes(i, probing, number)
            extremes.insert(self.slots.of(step.queries.ids_at(query), []), rows, column, step.before)
        begins = found.last >= 0
        touched_by.append((slot[begins], found.time[begins], found.last[begins]))
        return Events(slot, found.time, found.ints, found.floats)

    def _start_groups(self, step: Step) -> Events:
        """Without keys the one group of a query exists from its registration on."""
        if self.keys or step.kind != "replay":
            return self.timeline.none()
        ids = step.queries.ids_at(step.queries.live())
        slot = self.slots.of(ids, [])
        n = len(slot)
        return Events(
            slot, np.full(n, step.now), np.zeros((n, self.layout.ints), np.int64), np.zeros((n, self.layout.floats))
        )

    # what happened

    def _history(self, step: Step, touched: Ints, events: Events) -> History:
        # Every touched group has an entry at the clock it was left at, so that a row that merely ran out is renewed.
        runs_out = self.out_end[touched] + 1
        renewed = (self.out_row[touched] >= 0) & (self.out_end[touched] < step.now)
        n = int(renewed.sum())
        still = Events(
            touched[renewed],
            runs_out[renewed],
            np.zeros((n, self.layout.ints), np.int64),
            np.zeros((n, self.layout.floats)),
        )
        events = join_events([events, still]).sorted()
        at, ints, floats = self.counters.apply(events)
        slot, time = events.slot[at], events.time[at]
        last = np.append(slot[1:] != slot[:-1], True)[: len(slot)]
        until = np.full(len(slot), MAX, np.int64)
        extreme_columns = []
        for extremes in self.extremes.values():
            column, ends = extremes.at(slot, time, last, self._last_known)
            extreme_columns.append(column)
            until = np.minimum(until, ends)
        if self.counts:
            until[last] = np.minimum(until[last], self._last_known(slot[last]))
        columns = results(self.layout, ints, floats, extreme_columns)
        exists = ints[:, 0] > 0 if self.keys else np.ones(len(slot), np.bool_)
        return History(slot, time, exists, columns, last, until)

    def _last_known(self, groups: Ints) -> Ints:
        """The instant before the next event of each group."""
        soonest = self.timeline.next_time(groups)
        return np.where(soonest < MAX, soonest - 1, MAX)

    # what is sent

    def _reconcile(self, h: History, touched_by: Sequence[tuple[Ints, Ints, Ints]]) -> Delta:
        """Compares each entry with the one before it (or the row that is out) and sends the difference."""
        groups = h.slot[h.last]
        entry_at = np.append(0, np.nonzero(h.last)[0] + 1)
        had = self.out_row[groups]
        code, out_code = self._codes(h, had)
        sent, entry, end = send_versions(entry_at, h.time, code, h.until[h.last], out_code, self.out_end[groups])
        is_old = sent[1] == NONE
        old, new = sent[:, is_old], sent[:, ~is_old]
        was, now = pa.array(had[old[0]]), pa.array(new[1])
        columns = [join_arrays([v.take(was), c.take(now)]) for v, c in zip(self.out_values, h.columns, strict=True)]
        self._remember(h, groups, entry, end)
        return self._changes(groups, np.concatenate([old, new], axis=1), columns, touched_by)

    def _codes(self, h: History, out_row: Ints) -> tuple[Ints, Ints]:
        """A number for each version of a row, the same for equal rows; NONE where there is no row."""
        coder = ColumnCoder([c.type for c in h.columns])
        table = KeyTable(coder.width)
        code = table.insert(coder.codes(h.columns, len(h)))
        is_out = out_row >= 0
        where = pa.array(out_row[is_out])
        out_code = np.full(len(out_row), NONE, np.int64)
        out_code[is_out] = table.insert(coder.codes([v.take(where) for v in self.out_values], int(is_out.sum())))
        return np.where(h.exists, code, NONE), out_code

    def _changes(
        self, groups: Ints, sent: Ints, columns: list[pa.Array], touched_by: Sequence[tuple[Ints, Ints, Ints]]
    ) -> Delta:
        slot = groups[sent[0]]
        return Delta(
            (*self.slots.values(slot), *columns),
            None,
            sent[3],
            sent[4],
            sent[2],
            np.full(len(slot), MAX, np.int64),
            made_by(slot, sent[3], touched_by),
            self.slots.query[slot],
        )

    def _remember(self, h: History, groups: Ints, entry: Ints, end: Ints) -> None:
        """Keeps the rows that are out, and when each group must be looked at again."""
        fresh = entry >= 0
        rows = np.where(entry == NONE, NONE, self.out_row[groups])
        rows[fresh] = self.out_height + np.arange(int(fresh.sum()))
        self.out_height += int(fresh.sum())
        where = pa.array(entry[fresh])
        self.out_values = [join_arrays([v, c.take(where)]) for v, c in zip(self.out_values, h.columns, strict=True)]
        self.out_row[groups], self.out_end[groups] = rows, end
        next_event = self.timeline.next_time(groups)
        ends = np.where(end < MAX, end + 1, MAX)
        until = h.until[h.last]
        changes = np.where(until < MAX, until + 1, MAX)
        self.wake[groups] = np.where(entry == NONE, next_event, np.minimum(ends, changes))
        if worth_clearing(self.out_height, np.count_nonzero(self.out_row >= 0)):
            used = np.nonzero(self.out_row >= 0)[0]
            where = pa.array(self.out_row[used])
            self.out_values = [v.take(where) for v in self.out_values]
            self.out_row[used] = np.arange(len(used))
            self.out_height = len(used)

    # state

    def _grow(self) -> None:
        n = len(self.slots)
        self.timeline.grow(n)
        self.counters.grow(n)
        self.wake, self.out_end = grown(self.wake, n, MAX), grown(self.out_end, n, MAX)
        self.out_row = grown(self.out_row, n, NONE)

    def _clear_away(self) -> None:
        """Forgets groups that are empty, once they are most of all."""
        n = len(self.slots)
        if not self.keys or not worth_clearing(n, np.count_nonzero(self.counters.totals[:n, 0])):
            return
        coming = self.timeline.next_time(np.arange(n)) < MAX
        used = (self.counters.totals[:n, 0] != 0) | coming | (self.out_row[:n] >= 0)
        if worth_clearing(n, np.count_nonzero(used)):
            self._keep(used)

    def _keep(self, used: Mask) -> None:
        n = len(self.slots)
        mapping = self.slots.keep(used)
        self.timeline.keep(mapping)
        self.counters.keep(used)
        self.wake, self.out_end, self.out_row = self.wake[:n][used], self.out_end[:n][used], self.out_row[:n][used]
        for extremes in self.extremes.values():
            extremes.stem.move(mapping)
        self._grow()

    def forget(self, queries: Ints) -> None:
        super().forget(queries)
        self._keep(~np.isin(self.slots.query, queries))

    def size(self) -> int:
        return (
            len(self.slots) + sum(len(r) for r in self.timeline.runs) + sum(len(e.stem) for e in self.extremes.values())
        )

    def save(self) -> dict[str, pa.Table]:
        n = len(self.slots)
        groups: dict[str, object] = {"wake": self.wake[:n], "out_end": self.out_end[:n], "out_row": self.out_row[:n]}
        counters, rest = self.counters.save(n)
        tables = {"slots": self.slots.save(), "groups": pa.table(groups | counters)} | self.timeline.save()
        if self.layout.floats:
            tables["rest"] = rest
        tables["out"] = pa.table(
            {"row": np.arange(self.out_height)} | {f"v{i}": v for i, v in enumerate(self.out_values)}
        )
        return tables | {f"extreme{i}": e.stem.save() for i, e in self.extremes.items()}

    def load(self, saved: dict[str, pa.Table], functions: Functions) -> None:
        self.slots.load(saved["slots"])
        self.timeline.load(saved)
        groups = saved["groups"]

        def column(name: str) -> npt.NDArray[Any]:
            return np.array(groups.column(name).to_numpy())

        self.wake, self.out_end, self.out_row = column("wake"), column("out_end"), column("out_row")
        self._grow()
        self.counters.load(groups, saved.get("rest"), self.timeline.later(np.arange(len(self.slots))))
        self.out_height = saved["out"].num_rows
        self.out_values = [saved["out"].column(f"v{i}").combine_chunks() for i in range(len(self.aggregates))]
        for i, extremes in self.extremes.items():
            extremes.stem.load(saved[f"extreme{i}"], lambda rows: [query_of(rows)])
