"""Versions of a row over time, as changes to send: the kernel behind GROUP BY.

A group has at each of its instants a version of its row (a code), or none. Between instants the version stays. The
kernel compares them with the version that was sent before, which expires at a known instant unless it is retracted.
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.runtime.kernel_cache import kernel

NONE = -1
_MAX = np.iinfo(np.int64).max


@kernel
def send_versions(
    entry_at: Ints, time: Ints, code: Ints, until: Ints, out_code: Ints, out_end: Ints
) -> tuple[Ints, Ints, Ints]:
    """Group g has entries entry_at[g]:entry_at[g+1]; until[g] is the last instant its latest version is known to hold.

    Returns the changes (group, entry or NONE for the row sent before, sign, ts, exp); and per group the entry whose row
    is out afterwards (NONE: none is; -2: still the row sent before) and its end. O(entries).
    """
    groups = len(out_code)
    sent = np.empty((5, 2 * (len(time) + groups) + 1), np.int64)
    out = np.full(groups, NONE, np.int64)
    end_of = np.full(groups, _MAX, np.int64)
    n = 0
    for g in range(groups):
        now, end, entry, start, is_out = out_code[g], out_end[g], -2, 0, True
        for e in range(entry_at[g], entry_at[g + 1]):
            t = time[e]
            if now != NONE and is_out and end < t:
                now = NONE  # it expired
            if code[e] == now:
                continue
            if now != NONE and is_out:
                sent[0, n], sent[1, n], sent[2, n], sent[3, n], sent[4, n] = g, NONE, -1, t, end
                n += 1
            elif now != NONE and start < t:
                sent[0, n], sent[1, n], sent[2, n], sent[3, n], sent[4, n] = g, entry, 1, start, t - 1
                n += 1
            now, entry, start, is_out = code[e], e, t, False
        if now == NONE:
            continue
        if not is_out:
            end = until[g]
            sent[0, n], sent[1, n], sent[2, n], sent[3, n], sent[4, n] = g, entry, 1, start, end
            n += 1
        out[g], end_of[g] = entry, end
    return sent[:, :n], out, end_of


@kernel
def holds_until(value: Ints, time: Ints, at: Ints, stop: Ints) -> Ints:
    """From position at[i] on, the last instant before the value changes; no later than position stop[i]. O(walk)."""
    until = np.full(len(at), _MAX, np.int64)
    for i in range(len(at)):
        for p in range(at[i] + 1, stop[i]):
            if value[p] != value[at[i]]:
                until[i] = time[p] - 1
                break
    return until
