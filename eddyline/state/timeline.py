"""A timeline: future events, each of which adds to the counters of a slot at an instant.

Counters (of groups, of distinct values) change at the instants when rows begin or end. Events up to the clock are
applied at once; the timeline holds the later ones, in runs sorted by (slot, time) of geometrically growing size.
Invariant: the events of a slot up to the instant `applied[slot]` have been applied; the next merge drops them.

Cost: reading the due events of w slots takes O(w log n) per run, in O(log n) runs; an event is merged O(log n) times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.arrays import Doubles, Ints
from eddyline.index.keys.sorted_runs import event_ranges, spread
from eddyline.index.runtime.garbage import SPARE
from eddyline.state.delta import MAX, MIN, Delta
from eddyline.state.saved_tables import loaded_ints


@dataclass(frozen=True, slots=True)
class Events:
    """Events as columns; `ints` and `floats` have one row per event and one column per counter."""

    slot: Ints
    time: Ints
    ints: Ints
    floats: Doubles

    def __len__(self) -> int:
        return len(self.slot)

    @property
    def nbytes(self) -> int:
        return self.slot.nbytes + self.time.nbytes + self.ints.nbytes + self.floats.nbytes

    def take(self, which: npt.NDArray[np.generic]) -> Events:
        return Events(self.slot[which], self.time[which], self.ints[which], self.floats[which])

    def sorted(self) -> Events:
        return self.take(np.lexsort((self.time, self.slot)))


def interval_events(slot: Ints, rows: Delta, ints: Ints, floats: Doubles) -> Events:
    """The events of rows: each adds its amounts when it begins, and subtracts them after its end."""
    ends = rows.exp < MAX
    return Events(
        np.concatenate([slot, slot[ends]]),
        np.concatenate([rows.ts, rows.exp[ends] + 1]),
        np.concatenate([ints, -ints[ends]]),
        np.concatenate([floats, -floats[ends]]),
    )


def join_events(parts: list[Events]) -> Events:
    parts = [p for p in parts if len(p)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return Events(
        np.concatenate([p.slot for p in parts]),
        np.concatenate([p.time for p in parts]),
        np.concatenate([p.ints for p in parts]),
        np.concatenate([p.floats for p in parts]),
    )


class Timeline:
    def __init__(self, ints: int, floats: int) -> None:
        self.shape = (ints, floats)
        self.runs: list[Events] = []
        self.applied: Ints = np.empty(0, np.int64)
        self._unswept = 0  # events added since the last sweep

    @property
    def nbytes(self) -> int:
        return self.applied.nbytes + sum(r.nbytes for r in self.runs)

    def none(self) -> Events:
        nothing = np.empty(0, np.int64)
        return self.ticks(nothing, nothing)

    def ticks(self, slot: Ints, time: Ints) -> Events:
        """Events that change no counter."""
        return Events(slot, time, np.zeros((len(slot), self.shape[0]), np.int64), np.zeros((len(slot), self.shape[1])))

    def grow(self, slots: int) -> None:
        """Makes room for slots up to this number."""
        if slots > len(self.applied):
            grown = np.full(max(slots, 2 * len(self.applied)), MIN, np.int64)
            grown[: len(self.applied)] = self.applied
            self.applied = grown

    def add(self, events: Events) -> None:
        if len(events):
            self.runs.append(events.sorted())
            self._unswept += len(events)
            if self._worth_sweeping():
                self._unswept = 0
                self.runs = [r.take(r.time > self.applied[r.slot]) for r in self.runs]
            self._merge()

    def _worth_sweeping(self) -> bool:
        """Whether to drop applied events from all runs: once an eighth of many events is new, or a half of few."""
        events = sum(len(r) for r in self.runs)
        return 2 * self._unswept > events or (self._unswept > SPARE and 8 * self._unswept > events)

    def due(self, slots: Ints, upto: int) -> Events:
        """The events of these slots up to an instant that are not yet applied; marks them as applied."""
        events = self._unapplied(slots, upto)
        self.applied[slots] = np.maximum(self.applied[slots], upto)
        return events

    def later(self, slots: Ints) -> Events:
        """The events of these slots that are not yet applied; they stay in the timeline."""
        return self._unapplied(slots, MAX)

    def _unapplied(self, slots: Ints, upto: int) -> Events:
        after = self.applied[slots]
        parts = [r.take(spread(*event_ranges(r.slot, r.time, slots, after, upto))[1]) for r in self.runs]
        return join_events([self.none(), *parts])

    def next_time(self, slots: Ints) -> Ints:
        """The time of the next event of each slot; MAX if none."""
        soonest = np.full(len(slots), MAX, np.int64)
        for run in self.runs:
            low, high = event_ranges(run.slot, run.time, slots, self.applied[slots], MAX)
            some = high > low
            soonest[some] = np.minimum(soonest[some], run.time[low[some]])
        return soonest

    def keep(self, mapping: Ints) -> None:
        """Renumbers the slots; those mapped to -1 are dropped."""
        kept = np.nonzero(mapping >= 0)[0]
        applied = self.applied[: len(mapping)][kept]
        runs = []
        for run in self.runs:
            moved = Events(mapping[run.slot], run.time, run.ints, run.floats)
            runs.append(moved.take((moved.slot >= 0) & (run.time > self.applied[run.slot])).sorted())
        self.applied = applied
        self.runs = [r for r in runs if len(r)]

    def _merge(self) -> None:
        while len(self.runs) >= 2 and len(self.runs[-2]) < 2 * len(self.runs[-1]):
            merged = join_events([self.runs.pop(), self.runs.pop()])
            merged = merged.take(merged.time > self.applied[merged.slot])
            if len(merged):
                self.runs.append(merged.sorted())

    def save(self) -> dict[str, pa.Table]:
        events = join_events([self.none(), *self.runs])
        events = events.take(events.time > self.applied[events.slot])
        data: dict[str, npt.NDArray[np.generic]] = {"slot": events.slot, "time": events.time}
        for name, counters in (("i", events.ints), ("f", events.floats)):
            data |= {f"{name}{i}": column for i, column in enumerate(counters.T)}
        return {"events": pa.table(data), "applied": pa.table({"applied": self.applied})}

    def load(self, saved: dict[str, pa.Table]) -> None:
        (self.applied,) = loaded_ints(saved["applied"], "applied")
        table = saved["events"]
        ints, floats = np.empty((table.num_rows, self.shape[0]), np.int64), np.empty((table.num_rows, self.shape[1]))
        for name, counters in (("i", ints), ("f", floats)):
            for i in range(counters.shape[1]):
                counters[:, i] = table.column(f"{name}{i}").to_numpy()
        self.runs = []
        slot, time = loaded_ints(table, "slot", "time")
        self.add(Events(slot, time, ints, floats))
