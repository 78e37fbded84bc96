"""Coverage of instants by intervals that are never retracted, as rows that do not overlap: the kernel behind delta*.

A slot (one value of one query) is in the answer while some interval covers the present; intervals that touch are one.
Rows are sent in time order, each with the latest end that is known when it begins, so all that matters of the past is
where the last row ends (`out_end`) and how far intervals cover without a gap from there (`cover_end`; the same if
nothing follows the row). Intervals that begin later, after a gap, are *ahead*; they are kept merged and in order.
(Document 3, section 5.3.1.)
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.runtime.kernel_cache import kernel

NOTHING_SENT = np.iinfo(np.int64).min  # the end of the last row, and of what it covers, if there was none
_MAX = np.iinfo(np.int64).max


@kernel
def extend_coverage(
    now: int, out_end: Ints, cover_end: Ints, ahead_at: Ints, ahead: Ints, new_at: Ints, new: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Adds new intervals to slots, and sends the rows that begin up to `now`.

    Slot i has the last row's end out_end[i], cover_end[i] >= out_end[i], the intervals ahead[ahead_at[i]:ahead_at[i+1]]
    (begin, end) and the new ones new[new_at[i]:new_at[i+1]], both in the order of their beginnings. `out_end` and
    `cover_end` are updated in place. Returns the rows to send (slot, ts, exp) in the order of slots and time; the
    intervals still ahead as (at, intervals); and when to wake each slot. O(slots + intervals given).
    """
    n = len(out_end)
    sent = np.empty((3, n + len(ahead) + len(new)), np.int64)
    left_at = np.zeros(n + 1, np.int64)
    left = np.empty((len(ahead) + len(new), 2), np.int64)
    wake = np.full(n, _MAX, np.int64)
    s = k = 0
    for i in range(n):
        first = k  # of the intervals ahead of this slot
        a, b = ahead_at[i], new_at[i]
        while a < ahead_at[i + 1] or b < new_at[i + 1]:
            if b == new_at[i + 1] or (a < ahead_at[i + 1] and ahead[a, 0] <= new[b, 0]):
                begin, end = ahead[a, 0], ahead[a, 1]
                a += 1
            else:
                begin, end = new[b, 0], new[b, 1]
                b += 1
            if end < begin:
                continue
            if begin - 1 <= cover_end[i]:
                cover_end[i] = max(cover_end[i], end)
            elif k > first and begin - 1 <= left[k - 1, 1]:
                left[k - 1, 1] = max(left[k - 1, 1], end)
            else:
                left[k, 0], left[k, 1] = begin, end
                k += 1
        due = first
        while True:
            if cover_end[i] > out_end[i]:
                begin = out_end[i] + 1
                if begin > now:
                    wake[i] = begin
                    break
            elif due < k:
                begin = left[due, 0]
                if begin > now:
                    wake[i] = begin
                    break
                cover_end[i] = left[due, 1]
                due += 1
            else:
                break
            sent[0, s], sent[1, s], sent[2, s] = i, begin, cover_end[i]
            out_end[i] = cover_end[i]
            s += 1
        for j in range(due, k):  # rows that were sent leave the list
            left[first + j - due] = left[j]
        k = first + k - due
        left_at[i + 1] = k
    return sent[:, :s], left_at, left[:k], wake
