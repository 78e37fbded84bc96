"""Watermarks, lateness and clocks: a watermark per stream, and the clock of a query, which depends on them.

The watermark is the largest event time seen minus the declared delay, or the time that `advance` set, whichever is
later. A tuple behind the watermark when it arrives is late, however tuples are divided into batches. A stream may limit
how far its tuples are ahead of the wall clock (FUTURE LIMIT): a tuple beyond the limit is set apart like a late one,
and moves no watermark.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from eddyline.arrays import Ints
from eddyline.sql.catalog import Stream
from eddyline.state.delta import MIN


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
        """A mask of the tuples that are late or too far ahead; advances the watermark by the others."""
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


class Clocks:
    """The clocks of all streams, and the one rule for the clock of a query."""

    def __init__(self, policy: Literal["min", "max"] = "min") -> None:
        self.policy = policy
        self.streams: dict[str, StreamClock] = {}  # by name, in lower case
        self.advanced = MIN  # the latest time that `advance` was given
        self._heard: dict[str, int] = {}  # by stream: wall clock of its last rows, in milliseconds

    def define(self, stream: Stream) -> None:
        self.streams[stream.name.lower()] = StreamClock(stream.delay, floor=self.advanced, future=stream.future)

    def remove(self, stream: str) -> None:
        self.streams.pop(stream, None)
        self._heard.pop(stream, None)

    def of(self, streams: Collection[str]) -> int:
        """The clock of a query: the smallest or largest watermark among its streams, by policy. A query without streams
        has the latest known time."""
        if not streams:
            return max([self.advanced, *(c.watermark for c in self.streams.values())])
        choose = min if self.policy == "min" else max
        return choose(self.streams[s].watermark for s in streams)

    def advance(self, to: int) -> None:
        self.advanced = max(self.advanced, to)
        for clock in self.streams.values():
            clock.advance(to)

    def hear(self, stream: str, high: int | None, rows: int, now: int) -> None:
        """Counts rows of a stream that another process has checked for lateness; `high` is their latest event time."""
        clock = self.streams.get(stream)
        if clock is not None and high is not None:
            clock.high = max(clock.high, high)
            clock.arrived += rows
            self._heard[stream] = now

    def pass_time(self, now: int, limits: Mapping[str, int]) -> None:
        """Advances idle streams, which got no rows for longer than their limit (IDLE AFTER, in microseconds), so that
        they do not hold back the clock: with the wall clock, and at least to the least watermark of the others."""
        silent = {s: now - self._heard.setdefault(s, now) - limit // 1000 for s, limit in limits.items()}
        idle = {s: over for s, over in silent.items() if over >= 0}
        others = [c.watermark for s, c in self.streams.items() if s not in idle]
        for s, over in idle.items():
            clock = self.streams[s]
            if clock.high > MIN + clock.delay:
                clock.advance(clock.high - clock.delay + over * 1000)
            if others:
                clock.advance(min(others))

    def save(self) -> tuple[dict[str, dict[str, Any]], dict[str, int]]:
        """The clocks, and the wall clock of the last rows of each stream."""
        return {s: dict(vars(c)) for s, c in self.streams.items()}, dict(self._heard)

    def load(self, clocks: Mapping[str, Mapping[str, Any]], heard: Mapping[str, int]) -> None:
        self.streams = {s: StreamClock(**c) for s, c in clocks.items()}
        self._heard = dict(heard)
