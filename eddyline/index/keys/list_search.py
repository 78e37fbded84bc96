"""Membership tests in sorted lists that are stored end to end: is the value of a row in the list of that row?

Numbers of all types are compared as integers of the same order (`domains.as_integers`), texts by their bytes. A test
costs O(log of the list's length).
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Bytes, Ints, Ints32, Mask
from eddyline.index.filters.domains import compared
from eddyline.index.runtime.kernel_cache import kernel


@kernel
def numbers_in(keys: Ints, start: Ints, stop: Ints, wanted: Ints) -> Mask:
    """Whether wanted[i] is among keys[start[i]:stop[i]], which ascend."""
    is_member = np.zeros(len(wanted), np.bool_)
    for i in range(len(wanted)):
        low, high = start[i], stop[i]
        while low < high:
            middle = (low + high) >> 1
            if keys[middle] < wanted[i]:
                low = middle + 1
            else:
                high = middle
        is_member[i] = low < stop[i] and keys[low] == wanted[i]
    return is_member


@kernel
def texts_in(data: Bytes, ends: Ints, start: Ints, stop: Ints, texts: Bytes, text_ends: Ints, which: Ints32) -> Mask:
    """Whether text which[i] is among the texts start[i]:stop[i] of the lists, which ascend; -1 is none."""
    is_member = np.zeros(len(which), np.bool_)
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
            is_member[i] = compared(data, ends[low], ends[low + 1], texts, text_ends[w], text_ends[w + 1]) == 0
    return is_member
