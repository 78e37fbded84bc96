"""DISTINCT, EXCEPT ALL and INTERSECT ALL: answers that depend on how often a value occurs (document 3, section 2.1).

The operator counts the occurrences of each value of each query on each side; `index/timelines/multiplicities.py`
computes the changes that are due at the clock. Results wait for the clock, because a later tuple could invalidate them.
A step costs O(input rows + values that are due), and for these values the rows that are in the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints, Mask
from eddyline.index.keys.sorted_runs import last_at
from eddyline.index.runtime.garbage import worth_compacting
from eddyline.index.timelines.multiplicities import DISTINCT, INTERSECT, NEGATION, reconcile
from eddyline.index.timelines.slot_lists import SlotLists
from eddyline.operators.base import Operator, Step
from eddyline.operators.evaluate import Functions
from eddyline.operators.slots import Slots, grown
from eddyline.operators.twin_classes import SentRows
from eddyline.plan import physical
from eddyline.state.calendar import Calendar
from eddyline.state.delta import MAX, NO_ARRIVAL, Delta, query_of
from eddyline.state.saved_tables import loaded_ints
from eddyline.state.timeline import Events, Timeline, interval_events, join_events

_KINDS = {"distinct": DISTINCT, "negation": NEGATION, "intersect": INTERSECT}


class SetOperation(Operator):
    def __init__(self, node: physical.SetOperation, children: Sequence[Operator]) -> None:
        super().__init__(node, children)
        self.kind = node.kind
        self.slots = Slots(self.types)
        self.timeline = Timeline(2, 0)
        self.counts = np.zeros((0, 2), np.int64)
        self.calendar = Calendar()
        self.out = SlotLists(1)  # by slot, the ends of its rows in the answer
        self._in_use = 0  # slots in use at the last check

    def pull(self, step: Step) -> Delta:
        parts, touched_by = [self.timeline.none()], []
        for side, child in enumerate(self.children):
            delta = child.pull(step).spread()
            if len(delta):
                slot = self.slots.of(query_of(delta), delta.columns)
                counts = np.zeros((len(slot), 2), np.int64)
                counts[:, side] = delta.sign
                parts.append(interval_events(slot, delta, counts, np.empty((len(slot), 0))))
                touched_by.append((slot, delta.ts, delta.last))
        self._grow()
        events = join_events(parts)
        soon = events.time <= step.now
        self.timeline.add(events.take(~soon))
        touched = np.union1d(self.calendar.take(step.now), events.slot)
        if not len(touched):
            return self.none()
        return self._advance(step, touched, events.take(soon), touched_by)

    def _advance(self, step: Step, touched: Ints, new: Events, touched_by: Sequence[tuple[Ints, Ints, Ints]]) -> Delta:
        known = join_events([new, self.timeline.due(touched, step.now), self.timeline.later(touched)])
        place = np.searchsorted(touched, known.slot)
        order = np.lexsort((known.time, place))
        event_at = np.searchsorted(place[order], np.arange(len(touched) + 1))
        out_at, out_ends = self.out.of(touched)
        sent, out, wake, counts = reconcile(
            _KINDS[self.kind],
            step.now,
            self.counts[touched],
            event_at,
            known.time[order],
            known.ints[order],
            out_at,
            out_ends.ravel(),
        )
        self.counts[touched] = counts
        self.calendar.schedule(touched, wake)
        self.out.replace(touched, np.searchsorted(out[0], np.arange(len(touched) + 1)), out[1][:, None])
        changed = touched[sent[0]]
        delta = Delta(
            tuple(self.slots.values(changed)),
            None,
            sent[2],
            sent[3],
            sent[1],
            np.full(len(changed), MAX, np.int64),
            made_by(changed, sent[2], touched_by),
            self.slots.query[changed],
        )
        self._compact(step.now)
        return delta

    def _grow(self) -> None:
        n = len(self.slots)
        self.timeline.grow(n)
        self.counts = grown(self.counts, n, 0)
        self.calendar.grow(n)
        self.out.grow(n)

    def _compact(self, now: int) -> None:
        """Removes values that no longer occur, once they may outnumber the others."""
        n = len(self.slots)
        if not worth_compacting(n, self._in_use):
            return
        used = self._used(now)
        self._in_use = int(np.count_nonzero(used))
        if worth_compacting(n, self._in_use):
            self._keep(used)

    def _used(self, now: int) -> Mask:
        """The values that occur, now or later.

        A value whose rows end at their known ends is not touched by a step, so its due events are applied first.
        """
        every = np.arange(len(self.slots))
        quiet = self.timeline.due(every, now)
        np.add.at(self.counts, quiet.slot, quiet.ints)
        slot, end = self._rows_out()
        slot, end = slot[end >= now], end[end >= now]
        self.out.replace(every, np.searchsorted(slot, np.append(every, len(every))), end[:, None])
        used: Mask = self.counts[: len(every)].any(axis=1) | (self.timeline.next_time(every) < MAX)
        used[slot] = True
        return used

    def _rows_out(self) -> tuple[Ints, Ints]:
        """The rows in the answer, by slot, and their ends."""
        every = np.arange(len(self.slots))
        at, ends = self.out.of(every)
        return np.repeat(every, np.diff(at)), ends.ravel()

    def expire(self, step: Step) -> None:
        super().expire(step)
        if not (used := self._used(step.now)).all():
            self._keep(used)

    def _keep(self, used: Mask) -> None:
        n = len(self.slots)
        mapping = self.slots.keep(used)
        self.timeline.keep(mapping)
        self.counts = self.counts[:n][used]
        self.calendar.keep(used)
        self.out.keep(used)
        self._grow()

    def forget(self, queries: Ints) -> None:
        super().forget(queries)
        self._keep(~np.isin(self.slots.query, queries))

    def sent(self, queries: Ints) -> SentRows:
        slots = np.nonzero(np.isin(self.slots.query, queries))[0]
        at, ends = self.out.of(slots)
        slots = np.repeat(slots, np.diff(at))
        return SentRows(self.slots.query[slots], self.slots.values(slots), ends.ravel())

    def size(self) -> int:
        return len(self.slots) + len(self.out) + sum(len(r) for r in self.timeline.runs)

    def nbytes(self) -> int:
        kept = self.slots.nbytes + self.timeline.nbytes + self.counts.nbytes
        return kept + self.calendar.nbytes + self.out.nbytes

    def save(self) -> dict[str, pa.Table]:
        n = len(self.slots)
        counters = {"left": self.counts[:n, 0], "right": self.counts[:n, 1], "wake": self.calendar.wake[:n]}
        slot, end = self._rows_out()
        out = pa.table({"slot": slot, "end": end})
        return {"slots": self.slots.save(), "counters": pa.table(counters), "out": out} | self.timeline.save()

    def load(self, saved: dict[str, pa.Table], functions: Functions) -> None:
        self.slots.load(saved["slots"])
        self.timeline.load(saved)
        left, right, wake = loaded_ints(saved["counters"], "left", "right", "wake")
        self.counts = np.column_stack([left, right])
        self.calendar.load(wake)
        self._grow()
        slot, end = loaded_ints(saved["out"], "slot", "end")
        every = np.arange(len(self.slots))
        self.out.replace(every, np.searchsorted(slot, np.append(every, len(every))), end[:, None])


def made_by(slot: Ints, ts: Ints, touched_by: Sequence[tuple[Ints, Ints, Ints]]) -> Ints:
    """The latest arrival of this step that touched a slot at the instant of its change; NO_ARRIVAL if none did."""
    made = np.full(len(slot), NO_ARRIVAL, np.int64)
    for at_slot, at_ts, arrival in touched_by:
        order = np.lexsort((arrival, at_ts, at_slot))
        place = last_at(at_slot[order], at_ts[order], slot, ts)
        touched = place >= 0
        made[touched] = np.maximum(made[touched], arrival[order][place[touched]])
    return made
