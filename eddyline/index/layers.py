"""Multiplicities over time as rows that come and go: the kernel behind DISTINCT, EXCEPT ALL and INTERSECT ALL.

A slot (one value of one query) has counts (left, right) that change at events; the answer holds it m(left, right)
times. Rows already sent have an end of their own; the kernel walks the instants, lets rows end by themselves, sends `+`
where m exceeds what is out, `-` where it falls below, and gives new rows the end that the events known now predict.
Where prediction and what was sent part in the future, the slot is to be woken then.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]

DISTINCT, NEGATION, INTERSECT = 0, 1, 2
_MAX = np.iinfo(np.int64).max


@njit(cache=True, nogil=True)
def _multiplicity(kind: int, left: int, right: int) -> int:
    if kind == 0:
        return 1 if left > 0 else 0
    if kind == 1:
        return max(left - right, 0)
    return max(min(left, right), 0)


@njit(cache=True, nogil=True)
def reconcile(
    kind: int, now: int, counts: Ints, event_at: Ints, times: Ints, changes: Ints, out_at: Ints, out_ends: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Brings slots up to `now`.

    Slot i has counts[i] = (left, right), its events at event_at[i]:event_at[i+1] in time order (the coming ones too),
    and the ends of its rows that are out at out_at[i]:out_at[i+1]. `counts` is updated in place.
    Returns the changes (slot, sign, ts, exp), the rows out afterwards (slot, end), and when to wake each slot.
    O(events + rows out) per slot, times the multiplicity where rows must be taken back.
    """
    n = len(counts)
    room = len(out_ends) + 1
    for j in range(len(changes)):
        room += abs(changes[j, 0]) + abs(changes[j, 1])
    sent = np.empty((4, 2 * room), np.int64)
    out = np.empty((2, room), np.int64)
    wake = np.full(n, _MAX, np.int64)
    start = np.empty(room, np.int64)
    end = np.empty(room, np.int64)
    known = np.empty(room, np.bool_)
    s = o = 0
    for i in range(n):
        k = 0  # rows out at the instant reached
        for j in range(out_at[i], out_at[i + 1]):
            start[k], end[k], known[k] = 0, out_ends[j], True
            k += 1
        left, right = counts[i, 0], counts[i, 1]
        e = event_at[i]
        # up to now: what happens is sent
        while True:
            t = times[e] if e < event_at[i + 1] else _MAX
            for j in range(k):
                if end[j] < _MAX and end[j] + 1 < t:
                    t = end[j] + 1
            if t > now or t == _MAX:
                break
            while e < event_at[i + 1] and times[e] <= t:
                left += changes[e, 0]
                right += changes[e, 1]
                e += 1
            kept = 0
            for j in range(k):
                if end[j] >= t:
                    start[kept], end[kept], known[kept] = start[j], end[j], known[j]
                    kept += 1
            k = kept
            m = _multiplicity(kind, left, right)
            while k < m:
                start[k], end[k], known[k] = t, _MAX, False
                k += 1
            while k > m:
                longest = k - 1
                for j in range(k - 2, -1, -1):
                    if end[j] > end[longest] or (end[j] == end[longest] and known[longest] and not known[j]):
                        longest = j
                if known[longest]:
                    sent[0, s], sent[1, s], sent[2, s], sent[3, s] = i, -1, t, end[longest]
                    s += 1
                elif start[longest] < t:
                    sent[0, s], sent[1, s], sent[2, s], sent[3, s] = i, 1, start[longest], t - 1
                    s += 1
                k -= 1
                start[longest], end[longest], known[longest] = start[k], end[k], known[k]
        counts[i, 0], counts[i, 1] = left, right
        # beyond now: new rows get their predicted end, the first disagreement is the time to wake
        alive = k  # rows out in the future walked so far, of which the open ones have no end yet
        owed = 0  # rows that will have to be sent later
        done = np.zeros(k, np.bool_)
        while alive > 0 or e < event_at[i + 1]:
            t = times[e] if e < event_at[i + 1] else _MAX
            for j in range(k):
                if not done[j] and end[j] < _MAX and end[j] + 1 < t:
                    t = end[j] + 1
            if t == _MAX:
                break
            while e < event_at[i + 1] and times[e] <= t:
                left += changes[e, 0]
                right += changes[e, 1]
                e += 1
            for j in range(k):
                if not done[j] and end[j] < t:
                    done[j] = True
                    alive -= 1
            m = _multiplicity(kind, left, right)
            if m > alive + owed:
                wake[i] = min(wake[i], t)
                owed = m - alive
            elif m < alive + owed:
                spare = alive + owed - m
                less = min(owed, spare)
                owed -= less
                spare -= less
                for j in range(k - 1, -1, -1):
                    if spare > 0 and not done[j] and not known[j] and end[j] == _MAX:
                        end[j] = t - 1
                        done[j] = True
                        alive -= 1
                        spare -= 1
                if spare > 0:
                    wake[i] = min(wake[i], t)
                for j in range(k):
                    if spare > 0 and not done[j]:
                        done[j] = True
                        alive -= 1
                        spare -= 1
        for j in range(k):
            if not known[j]:
                sent[0, s], sent[1, s], sent[2, s], sent[3, s] = i, 1, start[j], end[j]
                s += 1
            out[0, o], out[1, o] = i, end[j]
            o += 1
    return sent[:, :s], out[:, :o], wake, counts
