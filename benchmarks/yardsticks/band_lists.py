"""The ranges of a stabbing group in order of low end, and of high end: BJ-SSI's structure (document 4, section 3.1.2).

All ranges of a group hold a point. Between two neighbouring rows around the point, a range is affected if it reaches
down to the one or up to the other: a first part of the ranges with low ends ascending, and one with high ends
descending.

Structure: two sorted lists in columns with room to grow, ordered by (key, id); the keys of the second are ~high, which
ascend as high ends descend and do not overflow. An update searches the place and moves what lies behind, each part
at most once for a batch of any size: O(k log k + k log n) steps and O(n) moves for k of n ranges.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.yardsticks.shifts import close_gap, first_place, longer, open_gap
from eddyline.arrays import Ints, Ints32
from eddyline.index.runtime.kernel_cache import kernel


class SortedRanges:
    """Ids by (key, id), and another key with each."""

    def __init__(self, ids: Ints, keys: Ints, others: Ints) -> None:
        order = np.lexsort((ids, keys))
        self._keys, self._others, self._ids = keys[order], others[order], ids[order].astype(np.int32)
        self._count = len(ids)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._others.nbytes + self._ids.nbytes

    def columns(self) -> tuple[Ints, Ints, Ints32]:
        """Keys, other keys and ids, not to be changed."""
        return self._keys[: self._count], self._others[: self._count], self._ids[: self._count]

    def up_to(self, key: int) -> int:
        """How many have no greater key."""
        return int(np.searchsorted(self._keys[: self._count], key, side="right"))

    def insert(self, ids: Ints, keys: Ints, others: Ints) -> None:
        total = self._count + len(ids)
        if total > len(self._keys):
            room = max(total, 2 * len(self._keys), 8)
            self._keys, self._others, self._ids = (longer(c, room) for c in (self._keys, self._others, self._ids))
        if len(ids) > 1:
            order = np.lexsort((ids, keys))
            ids, keys, others = ids[order], keys[order], others[order]
        _insert(self._keys, self._others, self._ids, self._count, keys, others, ids)
        self._count = total

    def remove(self, ids: Ints, keys: Ints) -> None:
        if len(ids) > 1:
            order = np.lexsort((ids, keys))
            ids, keys = ids[order], keys[order]
        _remove(self._keys, self._others, self._ids, self._count, keys, ids)
        self._count -= len(ids)
        if len(self._keys) > 4 * self._count + 64:
            room = 2 * self._count
            self._keys, self._others = self._keys[:room].copy(), self._others[:room].copy()
            self._ids = self._ids[:room].copy()


class BandLists:
    def __init__(self, ids: Ints, low: Ints, high: Ints) -> None:
        self._by_low = SortedRanges(ids, low, ~high)
        self._by_high = SortedRanges(ids, ~high, low)

    def __len__(self) -> int:
        return len(self._by_low)

    @property
    def nbytes(self) -> int:
        return self._by_low.nbytes + self._by_high.nbytes

    def insert(self, ids: Ints, low: Ints, high: Ints) -> None:
        self._by_low.insert(ids, low, ~high)
        self._by_high.insert(ids, ~high, low)

    def remove(self, ids: Ints, low: Ints, high: Ints) -> None:
        self._by_low.remove(ids, low)
        self._by_high.remove(ids, ~high)

    def affected(self, below: int | None, above: int | None) -> Ints32:
        """The ids of ranges with low <= below or high >= above, each once; None where there is no such row.
        O(log n + those found)."""
        _, _, ids = self._by_low.columns()
        found = ids[: self._by_low.up_to(below)] if below is not None else ids[:0]
        if above is None:
            return found.copy()
        _, lows, ids = self._by_high.columns()
        reach = self._by_high.up_to(~above)
        if below is None:
            return ids[:reach].copy()
        return np.concatenate((found, ids[:reach][lows[:reach] > below]))


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _insert(
    keys: Ints,
    others: Ints,
    ids: Ints32,
    count: int,
    new_keys: Ints,
    new_others: Ints,
    new_ids: npt.NDArray[np.int64],
) -> None:
    """Puts some in, which are sorted, the last first: what lies behind each moves to its final place."""
    end = count
    for j in range(len(new_ids) - 1, -1, -1):
        at = first_place(keys, ids, 0, end, new_keys[j], new_ids[j])
        open_gap(keys, at, end, j + 1)
        open_gap(others, at, end, j + 1)
        open_gap(ids, at, end, j + 1)
        keys[at + j], others[at + j], ids[at + j] = new_keys[j], new_others[j], new_ids[j]
        end = at


@kernel
def _remove(keys: Ints, others: Ints, ids: Ints32, count: int, gone_keys: Ints, gone_ids: Ints) -> None:
    """Takes some out, which are sorted, the first first: what lies between two moves to its final place."""
    at = first_place(keys, ids, 0, count, gone_keys[0], gone_ids[0])
    for j in range(len(gone_ids)):
        end = count
        if j + 1 < len(gone_ids):
            end = first_place(keys, ids, at + 1, count, gone_keys[j + 1], gone_ids[j + 1])
        close_gap(keys, at + 1, end, j + 1)
        close_gap(others, at + 1, end, j + 1)
        close_gap(ids, at + 1, end, j + 1)
        at = end
