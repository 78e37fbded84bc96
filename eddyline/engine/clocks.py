"""Watermarks, lateness and clocks: a watermark per stream, and from these the clock of a query.

The watermark is the largest event time seen less the declared delay, or what `advance` set, whichever is later. A tuple
behind the watermark at the moment it arrives is late, whatever batch it comes in. A stream may declare how far its
tuples may be ahead of the wall clock (FUTURE LIMIT): one that is further ahead is set apart like a late one, and moves
no watermark.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from eddyline.sql.catalog import Stream
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


class Clocks:
    """The clocks of all streams, and the one rule for the clock of a query."""

    def __init__(self, policy: Literal["min", "max"] = "min") -> None:
        self.policy = policy
        self.streams: dict[str, StreamClock] = {}  # by name, in lower case
        self.advanced = MIN  # the latest time that `advance` was given
        self._heard: dict[str, int] = {}  # by stream: when its last rows came, in milliseconds of the wall clock

    def define(self, stream: Stream) -> None:
        self.streams[stream.name.lower()] = StreamClock(stream.delay, floor=self.advanced, future=stream.future)

    def remove(self, stream: str) -> None:
        self.streams.pop(stream, None)
        self._heard.pop(stream, None)

    def of(self, streams: Collection[str]) -> int:
        """The clock of a query: the smallest watermark among its streams, or the largest, by policy. A query without
        streams has the latest time that is known."""
        if not streams:
            return max([self.advanced, *(c.watermark for c in self.streams.values())])
        choose = min if self.policy == "min" else max
        return choose(self.streams[s].watermark for s in streams)

    def advance(self, to: int) -> None:
        self.advanced = max(self.advanced, to)
        for clock in self.streams.values():
            clock.advance(to)

    def hear(self, stream: str, high: int | None, rows: int, now: int) -> None:
        """Rows of a stream were judged elsewhere: so many, the latest of them at `high`."""
        clock = self.streams.get(stream)
        if clock is not None and high is not None:
            clock.high = max(clock.high, high)
            clock.arrived += rows
            self._heard[stream] = now

    def pass_time(self, now: int, limits: Mapping[str, int]) -> None:
        """A stream that is silent for longer than its limit (IDLE AFTER, in microseconds) no longer holds back the
        clock: its watermark moves with the wall clock, and at least to that of the slowest stream that is not idle."""
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
        """The clocks, and when each stream was last heard of."""
        return {s: dict(vars(c)) for s, c in self.streams.items()}, dict(self._heard)

    def load(self, clocks: Mapping[str, Mapping[str, Any]], heard: Mapping[str, int]) -> None:
        self.streams = {s: StreamClock(**c) for s, c in clocks.items()}
        self._heard = dict(heard)
