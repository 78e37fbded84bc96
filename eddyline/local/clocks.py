"""Watermarks and lateness: each stream's own, from the tuples in the order they arrive.

The watermark is the largest event time seen less the declared delay, or what `advance` set, whichever is later. A tuple
behind the watermark at the moment it arrives is late, whatever batch it comes in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eddyline.state.delta import MIN, Ints


@dataclass
class StreamClock:
    delay: int
    high: int = MIN  # the largest event time seen
    floor: int = MIN  # where `advance` set the watermark
    arrived: int = 0
    late: int = 0

    @property
    def watermark(self) -> int:
        return max(self.floor, self.high - self.delay if self.high > MIN + self.delay else MIN)

    def arrive(self, ts: Ints) -> npt.NDArray[np.bool_]:
        """Which of these tuples are late; moves the watermark past the rest."""
        if not len(ts):
            return np.zeros(0, np.bool_)
        before = np.maximum.accumulate(np.concatenate([[self.high], ts[:-1]]))
        mark = np.where(before > MIN + self.delay, before - self.delay, MIN)
        late = ts < np.maximum(mark, self.floor)
        self.high = max(self.high, int(ts.max()))
        self.arrived += len(ts)
        self.late += int(late.sum())
        return late

    def advance(self, to: int) -> None:
        self.floor = max(self.floor, to)
