"""Multiplicities over time as rows that come and go: the kernel behind DISTINCT, EXCEPT ALL and INTERSECT ALL.

A slot (one value of one query) has counts (left, right) that change at events; the answer holds it m(left, right)
times. Rows already sent have an end of their own; the kernel walks the instants, lets rows end by themselves, sends `+`
where m exceeds what is out, `-` where it falls below, and gives new rows the end that the events known now predict.
Where prediction and what was sent part in the future, the slot is to be woken then.
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.runtime.kernel_cache import kernel

DISTINCT, NEGATION, INTERSECT = 0, 1, 2
_MAX = np.iinfo(np.int64).max


@kernel
def _multiplicity(kind: int, left: int, right: int) -> int:
    if kind == 0:
        return 1 if left > 0 else 0
    if kind == 1:
        return max(left - right, 0)
    return max(min(left, right), 0)


@kernel
def _sort(ends: Ints) -> None:
    for j in range(1, len(ends)):
        if ends[j] < ends[j - 1]:
            ends.sort()
            return


@kernel
def reconcile(
    kind: int, now: int, counts: Ints, event_at: Ints, times: Ints, changes: Ints, out_at: Ints, out_ends: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Brings slots up to `now`.

    Slot i has counts[i] = (left, right), its events at event_at[i]:event_at[i+1] in time order (the coming ones too),
    and the ends of its rows that are out at out_at[i]:out_at[i+1]. `counts` is updated in place.
    Returns the changes (slot, sign, ts, exp), the rows out afterwards (slot, end), and when to wake each slot.

    Rows sent earlier are a queue in the order of their ends: they expire at its front and are retracted at its back.
    Rows of this call are a stack: the latest is the first to go, before any row sent earlier, and none has an end yet.
    Rows out are returned in the order of their ends, and sorted here if they are not. Per slot O(events + rows out +
    rows that come and go), plus that sort.
    """
    n = len(counts)
    room = len(out_ends) + 1
    for j in range(len(changes)):
        room += abs(changes[j, 0]) + abs(changes[j, 1])
    sent = np.empty((4, 2 * room), np.int64)
    out = np.empty((2, room), np.int64)
    wake = np.full(n, _MAX, np.int64)
    queue = out_ends.copy()
    start = np.empty(room, np.int64)
    end = np.empty(room, np.int64)
    s = o = 0
    for i in range(n):
        front, back = out_at[i], out_at[i + 1]
        _sort(queue[front:back])
        new = 0  # rows of this call
        left, right = counts[i, 0], counts[i, 1]
        e = event_at[i]
        # up to now: what happens is sent
        while True:
            t = times[e] if e < event_at[i + 1] else _MAX
            if front < back and queue[front] < _MAX:
                t = min(t, queue[front] + 1)
            if t > now or t == _MAX:
                break
            while e < event_at[i + 1] and times[e] <= t:
                left += changes[e, 0]
                right += changes[e, 1]
                e += 1
            while front < back and queue[front] < t:
                front += 1
            m = _multiplicity(kind, left, right)
            while back - front + new < m:
                start[new] = t
                new += 1
            while back - front + new > m:
                if new > 0:
                    new -= 1
                    if start[new] < t:
                        sent[0, s], sent[1, s], sent[2, s], sent[3, s] = i, 1, start[new], t - 1
                        s += 1
                else:
                    back -= 1
                    sent[0, s], sent[1, s], sent[2, s], sent[3, s] = i, -1, t, queue[back]
                    s += 1
        counts[i, 0], counts[i, 1] = left, right
        # beyond now: new rows get their predicted end, the first disagreement is the time to wake
        first_out = front
        open_rows = new  # the new rows below this position have no end yet
        end[:new] = _MAX
        owed = 0  # rows that will have to be sent later
        while open_rows > 0 or wake[i] == _MAX:
            t = times[e] if e < event_at[i + 1] else _MAX
            if front < back and queue[front] < _MAX:
                t = min(t, queue[front] + 1)
            if t == _MAX:
                break
            while e < event_at[i + 1] and times[e] <= t:
                left += changes[e, 0]
                right += changes[e, 1]
                e += 1
            while front < back and queue[front] < t:
                front += 1
            alive = back - front + open_rows
            m = _multiplicity(kind, left, right)
            if m > alive + owed:
                wake[i] = min(wake[i], t)
                owed = m - alive
            elif m < alive + owed:
                owed = max(m - alive, 0)
                while open_rows > 0 and back - front + open_rows > m:
                    open_rows -= 1
                    end[open_rows] = t - 1
                if back - front + open_rows > m:  # rows sent earlier are too many; no new one is left to end
                    wake[i] = min(wake[i], t)
        for j in range(new):
            sent[0, s], sent[1, s], sent[2, s], sent[3, s] = i, 1, start[j], end[j]
            s += 1
        front = first_out
        while front < back or new > 0:  # new rows on top of the stack end first
            out[0, o] = i
            if new == 0 or (front < back and queue[front] <= end[new - 1]):
                out[1, o] = queue[front]
                front += 1
            else:
                new -= 1
                out[1, o] = end[new]
            o += 1
    return sent[:, :s], out[:, :o], wake, counts
