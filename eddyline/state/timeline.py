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
from eddyline.state.delta import MAX, MIN


@dataclass(frozen=True, slots=True)
class Events:
    """Events as columns; `ints` and `floats` have one row per event and one column per counter."""

    slot: Ints
    time: Ints
    ints: Ints
    floats: Doubles

    def __len__(self) -> int:
        return len(self.slot)

    def take(self, which: npt.NDArray[np.generic]) -> Events:
        return Events(self.slot[which], self.time[which], self.ints[which], self.floats[which])

    def sorted(self) -> Events:
        return self.take(np.lexsort((self.time, self.slot)))


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

    def none(self) -> Events:
        ints, floats = self.shape
        nothing = np.empty(0, np.int64)
        return Events(nothing, nothing, np.empty((0, ints), np.int64), np.empty((0, floats), np.float64))

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
            if 2 * self._unswept > sum(len(r) for r in self.runs):  # so that old runs do not keep applied events
                self._unswept = 0
                self.runs = [r.take(r.time > self.applied[r.slot]) for r in self.runs]
            self._merge()

    def due(self, slots: Ints, upto: int) -> Events:
        """The events of these slots up to an instant that are not yet applied; marks them as applied."""
        parts = []
        after = self.applied[slots]
        for run in self.runs:
            low, high = event_ranges(run.slot, run.time, slots, after, upto)
            _, position = spread(low, high)
            parts.append(run.take(position))
        self.applied[slots] = np.maximum(after, upto)
        return join_events(parts) if parts else self.none()

    def later(self, slots: Ints) -> Events:
        """The events of these slots that are not yet applied; they stay in the timeline."""
        parts = []
        for run in self.runs:
            low, high = event_ranges(run.slot, run.time, slots, self.applied[slots], MAX)
            parts.append(run.take(spread(low, high)[1]))
        return join_events(parts) if parts else self.none()

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
        events = join_events(self.runs) if self.runs else self.none()
        events = events.take(events.time > self.applied[events.slot])
        names, data = ["slot", "time"], [pa.array(events.slot), pa.array(events.time)]
        for i in range(self.shape[0]):
            names.append(f"i{i}")
            data.append(pa.array(events.ints[:, i]))
        for i in range(self.shape[1]):
            names.append(f"f{i}")
            data.append(pa.array(events.floats[:, i]))
        return {"events": pa.table(data, names=names), "applied": pa.table({"applied": pa.array(self.applied)})}

    def load(self, saved: dict[str, pa.Table]) -> None:
        self.applied = np.array(saved["applied"].column("applied").to_numpy(), np.int64)
        table = saved["events"]

        def matrix(prefix: str, width: int, dtype: type) -> npt.NDArray[np.generic]:
            out = np.empty((table.num_rows, width), dtype)
            for i in range(width):
                out[:, i] = table.column(f"{prefix}{i}").to_numpy()
            return out

        ints, floats = self.shape
        slot, time = (np.array(table.column(n).to_numpy(), np.int64) for n in ("slot", "time"))
        self.runs = []
        self.add(Events(slot, time, matrix("i", ints, np.int64), matrix("f", floats, np.float64)))  # type: ignore[arg-type]
