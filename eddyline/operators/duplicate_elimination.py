"""DISTINCT over an input that never retracts: delta* of document 3, section 5.3.1.

A value is in the answer while some input row covers the present. Since no input row is retracted, the operator stores
no input: for each value of each query, the end of the row in the answer, and the latest end known, up to which the next
row will last. So a value takes at most two rows of state, beside the intervals that begin after the clock and do not
touch earlier ones (`index/timelines/coverage.py`). A step costs O(input rows + values that are due).

The changes are those that counting would send (`counting.py`), in the same order: a row in the answer is never
retracted, and when it ends while its value is still covered, the next one begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints, Mask
from eddyline.index.keys.string_table import enlarged
from eddyline.index.runtime.garbage import worth_compacting
from eddyline.index.timelines.coverage import NOTHING_SENT, extend_coverage
from eddyline.index.timelines.slot_lists import SlotLists
from eddyline.operators.base import Operator, Step
from eddyline.operators.counting import made_by
from eddyline.operators.evaluate import Functions
from eddyline.operators.slots import Slots
from eddyline.operators.twin_classes import SentRows
from eddyline.plan import physical
from eddyline.state.calendar import Calendar
from eddyline.state.delta import MAX, Delta, query_of
from eddyline.state.saved_tables import loaded_ints


class DuplicateElimination(Operator):
    def __init__(self, node: physical.DuplicateElimination, children: Sequence[Operator]) -> None:
        super().__init__(node, children)
        self.slots = Slots(self.types)
        self.out_end: Ints = np.empty(0, np.int64)  # by slot, the end of the last row sent
        self.cover_end: Ints = np.empty(0, np.int64)  # by slot, up to where the value is covered from there on
        self.ahead = SlotLists(2)  # by slot, (begin, end) of the intervals that begin later
        self.calendar = Calendar()
        self._in_use = 0  # slots in use at the last check

    def pull(self, step: Step) -> Delta:
        delta = self.children[0].pull(step).spread()
        assert (delta.sign > 0).all(), "an input that never retracts has retracted a row"
        slot = self.slots.of(query_of(delta), delta.columns) if len(delta) else np.empty(0, np.int64)
        self._grow()
        touched = np.union1d(self.calendar.take(step.now), slot)
        if not len(touched):
            return self.none()
        order = np.lexsort((delta.ts, slot))
        intervals = np.column_stack([delta.ts[order], delta.exp[order]])
        new_at = np.searchsorted(slot[order], np.append(touched, len(self.slots)))
        sent = self._extend(step.now, touched, new_at, intervals)
        changed, n = touched[sent[0]], sent.shape[1]
        changes = Delta(
            tuple(self.slots.values(changed)),
            None,
            sent[1],
            sent[2],
            np.ones(n, np.int64),
            np.full(n, MAX, np.int64),
            made_by(changed, sent[1], [(slot, delta.ts, delta.last)]),
            self.slots.query[changed],
        )
        self._compact(step.now)
        return changes

    def _extend(self, now: int, touched: Ints, new_at: Ints, intervals: Ints) -> Ints:
        """Adds intervals to the touched slots; returns the rows to send (position in `touched`, ts, exp)."""
        out_end, cover_end = self.out_end[touched], self.cover_end[touched]
        sent, at, ahead, wake = extend_coverage(now, out_end, cover_end, *self.ahead.of(touched), new_at, intervals)
        self.out_end[touched], self.cover_end[touched] = out_end, cover_end
        self.ahead.replace(touched, at, ahead)
        self.calendar.schedule(touched, wake)
        return sent

    # state

    def _grow(self) -> None:
        n = len(self.slots)
        have = len(self.out_end)
        if n > have:
            self.out_end, self.cover_end = (enlarged(ends, have, n) for ends in (self.out_end, self.cover_end))
            self.out_end[have:] = self.cover_end[have:] = NOTHING_SENT
        self.ahead.grow(n)
        self.calendar.grow(n)

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
        """The values that occur, now or later."""
        n = len(self.slots)
        used: Mask = (self.cover_end[:n] >= now) | (self.calendar.wake[:n] < MAX)
        return used

    def _keep(self, used: Mask) -> None:
        n = len(self.slots)
        self.slots.keep(used)
        self.out_end, self.cover_end = self.out_end[:n][used], self.cover_end[:n][used]
        self.ahead.keep(used)
        self.calendar.keep(used)
        self._in_use = len(self.slots)
        self._grow()

    def expire(self, step: Step) -> None:
        super().expire(step)
        if not (used := self._used(step.now)).all():
            self._keep(used)

    def forget(self, queries: Ints) -> None:
        super().forget(queries)
        self._keep(~np.isin(self.slots.query, queries))

    def sent(self, queries: Ints) -> SentRows:
        slots = np.nonzero(np.isin(self.slots.query, queries))[0]
        return SentRows(self.slots.query[slots], self.slots.values(slots), self.out_end[slots])

    def size(self) -> int:
        """A row for each value, one more where the value stays covered after its row ends, and the intervals ahead."""
        return len(self.slots) + int(np.count_nonzero(self.cover_end > self.out_end)) + len(self.ahead)

    def nbytes(self) -> int:
        ends = self.out_end.nbytes + self.cover_end.nbytes
        return self.slots.nbytes + ends + self.ahead.nbytes + self.calendar.nbytes

    def save(self) -> dict[str, pa.Table]:
        n = len(self.slots)
        at, ahead = self.ahead.of(np.arange(n))
        slot = np.repeat(np.arange(n), np.diff(at))
        return {
            "slots": self.slots.save(),
            "covers": pa.table({"out_end": self.out_end[:n], "cover_end": self.cover_end[:n]}),
            "ahead": pa.table({"slot": slot, "begin": ahead[:, 0], "end": ahead[:, 1]}),
        }

    def load(self, saved: dict[str, pa.Table], functions: Functions) -> None:
        """Also reads what an earlier version saved, which counted the rows of each value."""
        self.slots.load(saved["slots"])
        self._grow()
        every = np.arange(len(self.slots))
        if "covers" in saved:
            out_end, cover_end = loaded_ints(saved["covers"], "out_end", "cover_end")
            slot, begin, end = loaded_ints(saved["ahead"], "slot", "begin", "end")
        else:
            out_end, slot, begin, end = _from_counts(saved)
            cover_end = out_end
        self.out_end[every], self.cover_end[every] = out_end, cover_end
        # No interval begins at the least instant, so no row is sent: this only computes when to wake each slot.
        new_at = np.searchsorted(slot, np.arange(len(every) + 1))
        self._extend(NOTHING_SENT, every, new_at, np.column_stack([begin, end]))


def _from_counts(saved: Mapping[str, pa.Table]) -> tuple[Ints, Ints, Ints, Ints]:
    """What `counting.py` saved: by slot the end of the row in the answer; and intervals (slot, begin, end), in order,
    that cover the instants at which its counts are above zero."""
    (count,) = loaded_ints(saved["counters"], "left")
    out_end = np.full(len(count), NOTHING_SENT, np.int64)
    out_slot, last = loaded_ints(saved["out"], "slot", "end")
    out_end[out_slot] = last
    present = np.repeat(np.arange(len(count)), count)  # the rows that are counted now
    slot, time, change = loaded_ints(saved["events"], "slot", "time", "i0")
    starts, ends = change > 0, change < 0
    begin_slot, begin = np.concatenate([present, slot[starts]]), np.concatenate([out_end[present], time[starts]])
    order = np.lexsort((begin, begin_slot))
    begin_slot, begin = begin_slot[order], begin[order]
    # Of each slot, the first row that begins is matched with the first end, and so on; some rows have no end.
    order = np.lexsort((time[ends], slot[ends]))
    end_slot = slot[ends][order]
    number = np.arange(len(end_slot)) - np.searchsorted(end_slot, end_slot)
    end = np.full(len(begin), MAX, np.int64)
    end[np.searchsorted(begin_slot, end_slot) + number] = time[ends][order] - 1
    return out_end, begin_slot, begin, end
