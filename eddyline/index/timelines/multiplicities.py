"""Multiplicities over time, as rows with a beginning and an end: the kernel behind DISTINCT, EXCEPT ALL, INTERSECT ALL.

A slot (one value of one query) has counts (left, right), which change at events; the answer contains the value
m(left, right) times. A row that was sent has an end and expires by itself. The kernel walks through the instants of a
slot: it sends `+` where m exceeds the number of rows that are out, `-` where it falls below, and gives new rows the end
that the events known now predict. Where prediction and the rows sent disagree in the future, the slot must be woken.
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.runtime.kernel_cache import kernel

DISTINCT, NEGATION, INTERSECT = 0, 1, 2
_MAX = np.iinfo(np.int64).max


@kernel
def reconcile(
    kind: int, now: int, counts: Ints, event_at: Ints, times: Ints, changes: Ints, out_at: Ints, out_ends: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Brings slots up to `now`.

    Slot i has counts[i] = (left, right), its events at event_at[i]:event_at[i+1] in time order (future ones too), and
    the ends of its rows that are out at out_at[i]:out_at[i+1]. `counts` is updated in place.
    Returns the changes (slot, sign, ts, exp), the rows out afterwards (slot, end), and when to wake each slot.

    Rows sent earlier are a queue in the order of their ends: they expire at its front and are retracted at its back.
    Rows of this call are a stack: the latest is the first to end, before any row sent earlier, and none has an end yet.
    Rows out are returned in the order of their ends, and sorted here if they are not. Per slot O(events + rows out +
    rows that begin or end), plus that sort.
    """
    n = len(counts)
    most = len(out_ends) + 1
    for j in range(len(changes)):
        most += abs(changes[j, 0]) + abs(changes[j, 1])
    sent = np.empty((4, 2 * most), np.int64)
    out = np.empty((2, most), np.int64)
    wake = np.full(n, _MAX, np.int64)
    queue = out_ends.copy()
    start, end = np.empty(most, np.int64), np.empty(most, np.int64)  # of the rows of this call
    s = o = 0
    for i in range(n):
        front, back = out_at[i], out_at[i + 1]
        _sort(queue[front:back])
        new = 0  # rows of this call
        e, stop = event_at[i], event_at[i + 1]
        # up to now: changes are sent
        while True:
            t = _next_instant(times, e, stop, queue, front, back)
            if t > now or t == _MAX:
                break
            e = _apply(times, changes, e, stop, t, counts[i])
            front = _expire(queue, front, back, t)
            m = _multiplicity(kind, counts[i])
            while back - front + new < m:
                start[new] = t
                new += 1
            while back - front + new > m:
                if new == 0:
                    back -= 1
                    sent[0, s], sent[1, s], sent[2, s], sent[3, s] = i, -1, t, queue[back]
                    s += 1
                    continue
                new -= 1
                if start[new] < t:
                    sent[0, s], sent[1, s], sent[2, s], sent[3, s] = i, 1, start[new], t - 1
                    s += 1
        wake[i] = _predict(kind, counts[i], times[e:stop], changes[e:stop], queue[front:back], end[:new])
        for j in range(new):
            sent[0, s], sent[1, s], sent[2, s], sent[3, s] = i, 1, start[j], end[j]
            s += 1
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


@kernel
def _predict(kind: int, now: Ints, times: Ints, changes: Ints, queue: Ints, end: Ints) -> int:
    """Writes the ends of new rows that future events predict; returns the first instant at which these and the queue
    of rows sent earlier disagree with the counts."""
    counts = now.copy()
    wake = _MAX
    front, back, e = 0, len(queue), 0
    open_rows = len(end)  # the new rows below this position have no end yet
    end[:] = _MAX
    owed = 0  # rows that will have to be sent later
    while open_rows > 0 or wake == _MAX:
        t = _next_instant(times, e, len(times), queue, front, back)
        if t == _MAX:
            break
        e = _apply(times, changes, e, len(times), t, counts)
        front = _expire(queue, front, back, t)
        alive = back - front + open_rows
        m = _multiplicity(kind, counts)
        if m > alive + owed:
            wake = min(wake, t)
            owed = m - alive
        elif m < alive + owed:
            owed = max(m - alive, 0)
            while open_rows > 0 and back - front + open_rows > m:
                open_rows -= 1
                end[open_rows] = t - 1
            if back - front + open_rows > m:  # rows sent earlier are too many, and no new row is left to end
                wake = min(wake, t)
    return wake


@kernel
def _next_instant(times: Ints, e: int, stop: int, queue: Ints, front: int, back: int) -> int:
    """The next instant at which an event happens or a row has expired; _MAX if there is none."""
    t = times[e] if e < stop else _MAX
    if front < back and queue[front] < _MAX:
        t = min(t, queue[front] + 1)
    return t


@kernel
def _apply(times: Ints, changes: Ints, e: int, stop: int, t: int, counts: Ints) -> int:
    """Applies the events up to an instant to the counts of a slot; returns the first event after it."""
    while e < stop and times[e] <= t:
        counts[0] += changes[e, 0]
        counts[1] += changes[e, 1]
        e += 1
    return e


@kernel
def _expire(queue: Ints, front: int, back: int, t: int) -> int:
    """The front of the queue without the rows that ended before an instant."""
    while front < back and queue[front] < t:
        front += 1
    return front


@kernel
def _multiplicity(kind: int, counts: Ints) -> int:
    left, right = int(counts[0]), int(counts[1])
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
