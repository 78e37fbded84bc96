"""Membership in sorted lists that lie end to end: is each value in the list of its row?

Numbers of all types are compared as integers of the same order (`domains.as_integers`), texts by their bytes. A lookup
costs O(log of the list's length).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eddyline.arrays import Bytes, Ints, Mask
from eddyline.index.filters.domains import compared
from eddyline.index.runtime.kernel_cache import kernel


@kernel
def numbers_in(keys: Ints, start: Ints, stop: Ints, wanted: Ints) -> Mask:
    """Whether wanted[i] is among keys[start[i]:stop[i]], which ascend."""
    found = np.zeros(len(wanted), np.bool_)
    for i in range(len(wanted)):
        low, high = start[i], stop[i]
        while low < high:
            middle = (low + high) >> 1
            if keys[middle] < wanted[i]:
                low = middle + 1
            else:
                high = middle
        found[i] = low < stop[i] and keys[low] == wanted[i]
    return found


@kernel
def texts_in(
    data: Bytes, ends: Ints, start: Ints, stop: Ints, texts: Bytes, text_ends: Ints, which: npt.NDArray[np.int32]
) -> Mask:
    """Whether text which[i] is among the texts start[i]:stop[i] of the lists, which ascend; -1 is none."""
    found = np.zeros(len(which), np.bool_)
    for i in range(len(which)):
        w = which[i]
        if w < 0:
            continue
        low, high = start[i], stop[i]
        while low < high:
            middle = (low + high) >> 1
            order = compared(data, ends[middle], ends[middle + 1], texts, text_ends[w], text_ends[w + 1])
            if order < 0:
                low = middle + 1
            else:
                high = middle
        if low < stop[i]:
            found[i] = compared(data, ends[low], ends[low + 1], texts, text_ends[w], text_ends[w + 1]) == 0
    return found
