"""Three-way joins over many streams with intermediate indexes: the alternative to SteMs in document 1, section 3.3.

For every pair of streams the joined rows are kept, indexed by key, besides the rows of each stream. A new row extends
the pairs of its stream, and probes the pairs of all other streams: one probe answers a three-way join. Every index is
one set of columns sorted by key; an insertion sorts anew and drops expired rows. All windows have one length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import combinations
from typing import Self

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Joined:
    """Rows of one stream or of several: the key, a value per stream, and the latest and the earliest event time."""

    k: Ints
    v: Doubles  # one row per stream, in the order of streams
    latest: Ints
    earliest: Ints

    def __len__(self) -> int:
        return len(self.k)

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, f.name).nbytes for f in fields(self))

    def take(self, which: npt.NDArray[np.generic]) -> Joined:
        return Joined(self.k[which], self.v[:, which], self.latest[which], self.earliest[which])

    def merged(self, new: Self, expired_before: int) -> Joined:
        kept = self.take(self.earliest >= expired_before)
        together = Joined(
            *(np.concatenate([getattr(kept, f.name), getattr(new, f.name)], axis=-1) for f in fields(self))
        )
        return together.take(np.argsort(together.k, kind="stable"))


def empty(streams: int) -> Joined:
    times = np.empty(0, np.int64)
    return Joined(times, np.empty((streams, 0)), times, times)


def matches(new: Joined, index: Joined, window: int) -> tuple[Ints, Ints]:
    """Pairs (row of `new`, row of the sorted `index`) with equal keys whose times are all within one window."""
    low, high = np.searchsorted(index.k, new.k, "left"), np.searchsorted(index.k, new.k, "right")
    counts = high - low
    left = np.repeat(np.arange(len(new)), counts)
    right = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(low, counts)
    latest = np.maximum(new.latest[left], index.latest[right])
    earliest = np.minimum(new.earliest[left], index.earliest[right])
    valid = latest <= earliest + window
    return left[valid], right[valid]


class IntermediateIndexes:
    def __init__(self, streams: int, window: int) -> None:
        self.streams, self.window = streams, window
        self.single = [empty(1) for _ in range(streams)]
        self.pairs = {pair: empty(2) for pair in combinations(range(streams), 2)}
        self.clock = [np.iinfo(np.int64).min // 2] * streams

    def push(self, stream: int, k: Ints, v: Doubles, ts: Ints) -> Iterator[tuple[tuple[int, ...], Joined]]:
        """Results of every three-way join with this stream: the streams in order, and the joined rows."""
        new = Joined(k, v[None, :], ts, ts)
        others = [s for s in range(self.streams) if s != stream]
        for pair in combinations(others, 2):
            yield self._joined(stream, new, pair, self.pairs[pair])
        self.clock[stream] = max(self.clock[stream], int(ts.max(initial=self.clock[stream])))
        expired_before = min(self.clock) - self.window
        for other in others:
            pair, rows = self._joined(stream, new, (other,), self.single[other])
            self.pairs[pair] = self.pairs[pair].merged(rows, expired_before)  # type: ignore[index]
        self.single[stream] = self.single[stream].merged(new, expired_before)

    def _joined(
        self, stream: int, new: Joined, others: tuple[int, ...], index: Joined
    ) -> tuple[tuple[int, ...], Joined]:
        left, right = matches(new, index, self.window)
        streams = (stream, *others)
        order = np.argsort(streams)
        rows = Joined(
            new.k[left],
            np.concatenate([new.v[:, left], index.v[:, right]])[order],
            np.maximum(new.latest[left], index.latest[right]),
            np.minimum(new.earliest[left], index.earliest[right]),
        )
        return tuple(sorted(streams)), rows

    def state(self) -> dict[str, int]:
        """Rows and bytes of the indexes of streams and of pairs."""
        return {
            "stream rows": sum(map(len, self.single)),
            "stream bytes": sum(i.nbytes for i in self.single),
            "pair rows": sum(map(len, self.pairs.values())),
            "pair bytes": sum(i.nbytes for i in self.pairs.values()),
        }
