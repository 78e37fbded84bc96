"""Watermarks and lateness: each stream's own, from the tuples in the order they arrive.

The watermark is the largest event time seen less the declared delay, or what `advance` set, whichever is later. A tuple
behind the watermark at the moment it arrives is late, whatever batch it comes in. A stream may declare how far its
tuples may be ahead of the wall clock (FUTURE LIMIT): one that is further ahead is set apart like a late one, and moves
no watermark.
"""

from __future__ import annotations

import time
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
    future: int | None = None  # microseconds that a tuple may be ahead of the wall clock
    ahead: int = 0  # tuples that were further ahead

    @property
    def watermark(self) -> int:
        return max(self.floor, self.high - self.delay if self.high > MIN + self.delay else MIN)

    def arrive(self, ts: Ints) -> npt.NDArray[np.bool_]:
        """Which of these tuples are set apart: late, or too far ahead; moves the watermark past the rest."""
        if not len(ts):
            return np.zeros(0, np.bool_)
        if self.future is not None and int(ts.max()) > wall_clock() + self.future:
            return self._arrive_without(ts > wall_clock() + self.future, ts)
        before = np.maximum.accumulate(np.concatenate([[self.high], ts[:-1]]))
        mark = np.where(before > MIN + self.delay, before - self.delay, MIN)
        late = ts < np.maximum(mark, self.floor)
        self.high = max(self.high, int(ts.max()))
        self.arrived += len(ts)
        self.late += int(late.sum())
        return late

    def _arrive_without(self, ahead: npt.NDArray[np.bool_], ts: Ints) -> npt.NDArray[np.bool_]:
        apart = ahead.copy()
        apart[~ahead] = self.arrive(ts[~ahead])
        self.arrived += int(ahead.sum())
        self.ahead += int(ahead.sum())
        return apart

    def advance(self, to: int) -> None:
        self.floor = max(self.floor, to)


def wall_clock() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000
