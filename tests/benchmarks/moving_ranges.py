"""Random updates of ranges, a plain record of what is there, and the least number of groups in five plain lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

import numpy as np

from benchmarks.yardsticks.range_updates import Batch, batch

LEAST, GREATEST = -(2**63), 2**63 - 1
Range = tuple[int, int]


def ordered(a: int, b: int) -> Range:
    return min(a, b), max(a, b)


def around(random: Random, centre: int, spread: int) -> Range:
    return centre - random.randrange(spread), centre + random.randrange(spread)


SHAPES: dict[str, Callable[[Random], Range]] = {
    "clustered": lambda random: around(random, 10_000 * random.randrange(-5, 6), 6_000),
    "scattered": lambda random: around(random, random.randrange(-(10**9), 10**9), 1_000_000),
    "uniform": lambda random: around(random, random.randrange(-100_000, 100_000), 5_000),
    "of few values": lambda random: ordered(random.randrange(-4, 5), random.randrange(-4, 5)),
    "points": lambda random: (random.randrange(-20, 20),) * 2,
    "points without end": lambda random: (random.randrange(LEAST, GREATEST),) * 2,
    "extreme": lambda random: ordered(*random.choices((LEAST, LEAST + 1, -1, 0, 1, GREATEST - 1, GREATEST), k=2)),
    "skewed": lambda random: around(random, int(random.paretovariate(0.7)) % 10_000 * 100, 60),
}


def ends(held: dict[int, Range]) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.array(list(held.values()), np.int64).reshape(-1, 2).T
    return low, high


class MovingRanges:
    def __init__(self, seed: int, shape: str) -> None:
        self.random = Random(seed)
        self.shape = shape
        self.held: dict[int, Range] = {}
        self._ids: list[int] = []
        self._free: list[int] = []

    def updates(self, count: int, inserts: float) -> Batch:
        """The next updates, of which about a share inserts; recorded as made."""
        made = [
            self._insert() if not self._ids or self.random.random() < inserts else self._remove() for _ in range(count)
        ]
        return batch(*zip(*made, strict=True))

    def _insert(self) -> tuple[bool, int, int, int]:
        fresh = not self._free or self.random.random() < 0.2
        number = len(self._ids) + len(self._free) if fresh else self._free.pop(self.random.randrange(len(self._free)))
        self._ids.append(number)
        self.held[number] = low, high = SHAPES[self.shape](self.random)
        return True, number, low, high

    def _remove(self) -> tuple[bool, int, int, int]:
        i = self.random.randrange(len(self._ids))
        self._ids[i], self._ids[-1] = self._ids[-1], self._ids[i]
        number = self._ids.pop()
        self._free.append(number)
        del self.held[number]
        return False, number, 0, 0


def fewest(ranges: Iterable[Range]) -> int:
    """How many points it takes to have one in every range: the least high end of those that have none, and so on."""
    points, last = 0, LEAST - 1
    for low, high in sorted(ranges, key=lambda r: r[1]):
        if low > last:
            points, last = points + 1, high
    return points
