"""Exact sums of doubles for many slots, in little memory where values are of similar magnitude.

All slots have a narrow window of limbs (`limbs.py`), which covers the magnitudes of usual values with up to NARROW
limbs: prices need 4, of 8 bytes. A slot with a value that does not fit also has a wide row, with a window of up to 67
limbs, until that value has been subtracted. A sum is the total of both. An outlier therefore costs memory in its own
slot only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Doubles, Ints, Mask
from eddyline.index.runtime.garbage import worth_compacting
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.sums.limbs import expand, fits, limb_range

NARROW = 8
OUTLIERS = 0.01  # the share of values at either end of the magnitudes that does not widen the narrow window
SAMPLE = 1000  # values from which the usual magnitudes are estimated


class SumArrays(NamedTuple):
    """Arrays for kernels: limbs by slot or wide row, column and limb; `wide_row` is -1 for slots that have none."""

    narrow_base: int
    narrow: Ints
    wide_base: int
    wide: Ints
    wide_row: Ints


class ExactSums:
    """One sum for each slot and column. Kernels add to `arrays` only values that `reserve` has made memory for."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        nothing = np.zeros((0, columns, 0), np.int64)
        self.arrays = SumArrays(0, nothing, 0, nothing, np.empty(0, np.int64))

    @property
    def nbytes(self) -> int:
        return self.arrays.narrow.nbytes + self.arrays.wide.nbytes + self.arrays.wide_row.nbytes

    def grow(self, slots: int) -> None:
        """Makes memory for this number of slots."""
        a = self.arrays
        if slots > len(a.wide_row):
            capacity = max(slots, 2 * len(a.wide_row))
            narrow = np.zeros((capacity, *a.narrow.shape[1:]), np.int64)
            narrow[: len(a.narrow)] = a.narrow
            wide_row = np.full(capacity, -1, np.int64)
            wide_row[: len(a.wide_row)] = a.wide_row
            self.arrays = a._replace(narrow=narrow, wide_row=wide_row)

    def reserve(self, slot: Ints, values: Doubles) -> None:
        """Makes memory for values that will be added to slots, one line of columns each."""
        low, high = limb_range(values)
        a = self.arrays
        if low > high or (a.narrow_base <= low and high + 1 < a.narrow_base + a.narrow.shape[2]):
            return
        if not self._widen_narrow(low, high):
            low, high = limb_range(_usual(values))
            self._widen_narrow(max(low - 1, 0), high + 1)  # values at the edge of the usual ones are no outliers
            a = self.arrays
            outside = _outside(values, a.narrow_base, a.narrow.shape[2])
            self._reserve_wide(np.unique(slot[outside]), *limb_range(values[outside]))

    def _widen_narrow(self, low: int, high: int) -> bool:
        """Extends the narrow window to these limbs, unless it becomes too long; whether it did."""
        a = self.arrays
        base, size = _window(a.narrow_base, a.narrow.shape[2], low, high)
        if size > NARROW:
            return False
        self.arrays = a._replace(narrow_base=base, narrow=_moved(a.narrow, a.narrow_base, base, size))
        return True

    def _reserve_wide(self, slots: Ints, low: int, high: int) -> None:
        a = self.arrays
        fresh = slots[a.wide_row[slots] < 0]
        a.wide_row[fresh] = len(a.wide) + np.arange(len(fresh))
        base, size = _window(a.wide_base, a.wide.shape[2], low, high)
        wide = _moved(a.wide, a.wide_base, base, size)
        if len(fresh):
            wide = np.concatenate([wide, np.zeros((len(fresh), *wide.shape[1:]), np.int64)])
        self.arrays = a._replace(wide_base=base, wide=wide)

    def release(self, slots: Ints) -> None:
        """Frees the wide rows of these slots that are 0."""
        a = self.arrays
        if not len(a.wide):
            return
        with_row = np.unique(slots[a.wide_row[slots] >= 0])
        empty = with_row[~a.wide[a.wide_row[with_row]].any(axis=(1, 2))]
        a.wide_row[empty] = -1
        if len(empty) and worth_compacting(len(a.wide), np.count_nonzero(a.wide_row >= 0)):
            self._pack_wide()

    def _pack_wide(self) -> None:
        """Compacts the wide rows: drops those that no slot has, and limbs at either end that are 0 in all rows."""
        a = self.arrays
        used = np.nonzero(a.wide_row >= 0)[0]
        wide = a.wide[a.wide_row[used]]
        a.wide_row[used] = np.arange(len(used))
        limbs = np.nonzero(wide.any(axis=(0, 1)))[0]
        low, end = (int(limbs[0]), int(limbs[-1]) + 2) if len(limbs) else (0, 0)
        end = min(end, wide.shape[2])
        self.arrays = a._replace(wide_base=a.wide_base + low, wide=np.ascontiguousarray(wide[:, :, low:end]))

    def keep(self, used: Mask) -> None:
        """Keeps the slots under the mask, in their order."""
        a, n = self.arrays, len(used)
        self.arrays = a._replace(narrow=a.narrow[:n][used], wide_row=a.wide_row[:n][used])
        self._pack_wide()

    def expansions(self, slots: int) -> tuple[Ints, Doubles]:
        """The sums of the first slots as doubles that add up to them: (slot, doubles of all columns), by slot."""
        a = self.arrays
        slot, values = expand(a.narrow[:slots], a.narrow_base)
        with_row = np.nonzero(a.wide_row[:slots] >= 0)[0]
        row, more = expand(a.wide[a.wide_row[with_row]], a.wide_base)
        slot, values = np.concatenate([slot, with_row[row]]), np.concatenate([values, more])
        order = np.argsort(slot, kind="stable")
        return slot[order], values[order]


def _window(base: int, size: int, low: int, high: int) -> tuple[int, int]:
    """The base and size of a window extended to the limbs low to high, and one above them."""
    if low > high:
        return base, size
    start, end = (min(base, low), max(base + size, high + 2)) if size else (low, high + 2)
    return start, end - start


def _moved(limbs: Ints, base: int, to_base: int, size: int) -> Ints:
    """The sums in a window that covers their present one."""
    had = limbs.shape[2]
    if (base, had) == (to_base, size):
        return limbs
    moved = np.zeros((*limbs.shape[:2], size), np.int64)
    if had:
        moved[:, :, base - to_base : base - to_base + had] = limbs
    return moved


def _usual(values: Doubles) -> Doubles:
    """A sample of the values, without the outliers of least and of greatest magnitude."""
    some = values[values != 0.0]
    magnitudes = np.sort(np.abs(some[:: len(some) // SAMPLE + 1]))
    few = int(OUTLIERS * len(magnitudes))
    return magnitudes[few : len(magnitudes) - few, None]


@kernel
def _outside(values: Doubles, base: int, size: int) -> Mask:
    """By line, whether some value does not fit a window."""
    outside = np.zeros(values.shape[0], np.bool_)
    for i in range(values.shape[0]):
        for c in range(values.shape[1]):
            if not fits(values[i, c], base, size):
                outside[i] = True
    return outside
