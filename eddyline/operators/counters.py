"""The counters of a grouping, per slot: integers, and exact sums of doubles; and their saved form.

Exact sums are saved as doubles that add up to them. Two are enough for most groups: the columns `high` and `low`,
scaled by 2**-32. The table `rest` has the others. State that was saved before sums were exact has no such table and may
have lost digits; they are recovered where every row of a group has an end, because the future events then subtract
exactly the group's sum.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.arrays import Doubles, Ints, Mask
from eddyline.index.sums.exact_sums import ExactSums
from eddyline.index.timelines.accumulate import accumulate
from eddyline.operators.counter_layout import Layout
from eddyline.operators.slots import grown
from eddyline.state.timeline import Events

SCALE = 2.0**-32


class Counters:
    """`totals` has one row per slot and one column per integer counter; the first counts the rows of the group."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.totals = np.zeros((0, layout.ints), np.int64)
        self.sums = ExactSums(layout.floats)

    @property
    def nbytes(self) -> int:
        return self.totals.nbytes + self.sums.nbytes

    def grow(self, slots: int) -> None:
        self.totals = grown(self.totals, slots, 0)
        self.sums.grow(slots)

    def keep(self, used: Mask) -> None:
        self.totals = self.totals[: len(used)][used]
        self.sums.keep(used)

    def apply(self, events: Events) -> tuple[Ints, Ints, Doubles]:
        """Applies events sorted by slot and time. Returns the last event of each instant, and the counters after it."""
        self.sums.reserve(events.slot, events.floats)
        after = accumulate(
            events.slot,
            events.time,
            events.ints,
            events.floats,
            self.totals,
            self.layout.upper_halves,
            self.sums.arrays,
            self.layout.divisors,
        )
        self.sums.release(events.slot)
        return after

    def save(self, slots: int) -> tuple[dict[str, npt.NDArray[np.generic]], pa.Table]:
        """Columns by slot, and the rest of the sums."""
        slot, values = self.sums.expansions(slots)
        number = np.arange(len(slot)) - np.searchsorted(slot, slot)  # of a double among those of its slot
        scaled = values * SCALE
        # A double below 2**-990 may lose bits when it is scaled.
        in_columns = (scaled / SCALE == values) & (number < 2)[:, None]
        pair = np.zeros((slots, 2, self.layout.floats))
        early = number < 2
        pair[slot[early], number[early]] = np.where(in_columns, scaled, 0.0)[early]
        rest = np.where(in_columns, 0.0, values)
        some = rest.any(axis=1)
        columns: dict[str, npt.NDArray[np.generic]] = {
            f"total{i}": self.totals[:slots, i] for i in range(self.layout.ints)
        }
        for c in range(self.layout.floats):
            columns |= {f"high{c}": pair[:, 0, c], f"low{c}": pair[:, 1, c]}
        floats = {f"f{c}": rest[some, c] for c in range(self.layout.floats)}
        return columns, pa.table({"slot": slot[some]} | floats)

    def load(self, groups: pa.Table, rest: pa.Table | None, coming: Events) -> None:
        """Restores saved counters; `coming` are all events that are not yet applied."""
        n = groups.num_rows
        self.grow(n)
        for i in range(self.layout.ints):
            self.totals[:n, i] = groups.column(f"total{i}").to_numpy()
        if not self.layout.floats:
            return
        slot, values = self._columns(groups)
        if rest is not None:
            more = [rest.column(f"f{c}").to_numpy() for c in range(self.layout.floats)]
            slot = np.concatenate([slot, rest.column("slot").to_numpy()])
            values = np.concatenate([values, np.column_stack(more)])
        else:
            rows = self.totals[:n, 0].copy()
            np.add.at(rows, coming.slot, coming.ints[:, 0])
            ends = rows == 0
            undone, other = ends[coming.slot], ~ends[slot]
            slot = np.concatenate([slot[other], coming.slot[undone]])
            values = np.concatenate([values[other], -coming.floats[undone]])
        order = np.argsort(slot, kind="stable")
        nothing = np.zeros((len(slot), self.layout.ints), np.int64)
        self.apply(Events(slot[order], np.zeros(len(slot), np.int64), nothing, values[order]))

    def _columns(self, groups: pa.Table) -> tuple[Ints, Doubles]:
        """The contents of the saved columns: (slot, doubles of all columns)."""
        slots, lines = [np.empty(0, np.int64)], [np.empty((0, self.layout.floats))]
        for c in range(self.layout.floats):
            for part in ("high", "low"):
                scaled = groups.column(f"{part}{c}").to_numpy()
                slot = np.nonzero(scaled)[0]
                slot, values = _unscaled(slot, scaled[slot])
                line = np.zeros((len(slot), self.layout.floats))
                line[:, c] = values
                slots.append(slot)
                lines.append(line)
        return np.concatenate(slots), np.concatenate(lines)


def _unscaled(slot: Ints, scaled: Doubles) -> tuple[Ints, Doubles]:
    """Saved doubles without their scale; one that would overflow is split into several."""
    with np.errstate(over="ignore"):
        values = scaled / SCALE
    beyond = np.isinf(values)
    if not beyond.any():
        return slot, values
    half_slot, half = _unscaled(slot[beyond], scaled[beyond] / 2)
    return (
        np.concatenate([slot[~beyond], half_slot, half_slot]),
        np.concatenate([values[~beyond], half, half]),
    )
