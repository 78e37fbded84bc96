"""Count windows over one shared log of rows: which rows enter and leave each window while the log grows.

The log is in the order (event time, arrival). A window contains the n latest rows that are visible to its queries:
those that arrived at `since` or later. Where all rows of the log are visible, a window is a run of the log, and a row
leaves when the row n places after it enters; nothing is searched. Other windows are walked back from the end of the
log.
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Ints, Mask
from eddyline.index.runtime.kernel_cache import kernel

_MAX = np.iinfo(np.int64).max


@kernel
def enter_and_leave(
    ts: Ints, first: Ints, shown: int, upto: int, size: Ints, since: Ints
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    """The changes of each window while the rows shown:upto of the log enter.

    ts and first: event time and arrival of the rows of the log; size and since: of the windows.
    Returns (window, sign, row, ts, exp, the row that made the change), of each window first the rows that enter, then
    those that leave. Rows that enter and leave within the call are sent with their ends, and not at all if they have no
    instant. O(changes) for a window to which the whole log is visible, plus O(size + invisible rows) for others.
    """
    latest, earliest = _arrivals(first, upto)
    changes = np.empty((6, 2 * (upto - shown) * np.count_nonzero(size > 0)), np.int64)
    window, sign, row, begin, end, cause = changes[0], changes[1], changes[2], changes[3], changes[4], changes[5]
    back = np.empty(shown + 1, np.int64)
    content = np.empty(upto + 1, np.int64)  # the rows of a window and those that enter it, if some are not visible
    k = 0
    for w in range(len(size)):
        n = size[w]
        if n <= 0:
            continue
        whole = since[w] <= earliest
        if whole:
            start, held, count = max(shown - n, 0), shown - max(shown - n, 0), upto - max(shown - n, 0)
        else:
            start, held = 0, _visible(first, latest, shown, n, since[w], back)
            for j in range(held):
                content[j] = back[held - 1 - j]
            count = held
            for p in range(shown, upto):
                if first[p] >= since[w]:
                    content[count] = p
                    count += 1
        for j in range(held, count):
            p = start + j if whole else content[j]
            leaves = _MAX
            if j + n < count:
                leaves = ts[start + j + n if whole else content[j + n]]
            if leaves > ts[p]:
                window[k], sign[k], row[k], begin[k], cause[k] = w, 1, p, ts[p], p
                end[k] = leaves - 1 if leaves < _MAX else _MAX
                k += 1
        for j in range(min(held, count - n)):
            p = start + j if whole else content[j]
            pushed_by = start + j + n if whole else content[j + n]
            window[k], sign[k], row[k], begin[k], end[k], cause[k] = w, -1, p, ts[pushed_by], _MAX, pushed_by
            k += 1
    return window[:k], sign[:k], row[:k], begin[:k], end[:k], cause[:k]


@kernel
def in_windows(first: Ints, shown: int, size: Ints, since: Ints) -> Mask:
    """Which rows of the log some window contains, or will contain: those from `shown` on. O(rows + size of windows to
    which not the whole log is visible)."""
    kept = np.ones(len(first), np.bool_)
    kept[:shown] = False
    latest, earliest = _arrivals(first, shown)
    back = np.empty(shown + 1, np.int64)
    widest = 0
    for w in range(len(size)):
        if since[w] <= earliest:
            widest = max(widest, size[w])
        else:
            for j in range(_visible(first, latest, shown, size[w], since[w], back)):
                kept[back[j]] = True
    kept[max(shown - widest, 0) : shown] = True
    return kept


@kernel
def _arrivals(first: Ints, rows: int) -> tuple[Ints, int]:
    """The latest arrival up to each row of the log, and the earliest of all."""
    latest = np.empty(rows, np.int64)
    earliest = _MAX
    for p in range(rows):
        latest[p] = first[p] if p == 0 else max(latest[p - 1], first[p])
        earliest = min(earliest, first[p])
    return latest, earliest


@kernel
def _visible(first: Ints, latest: Ints, end: int, n: int, since: int, rows: Ints) -> int:
    """Writes the last n rows before `end` that arrived at `since` or later, the newest first; returns their number.

    Where the latest arrival up to a row is before `since`, no earlier row is visible either."""
    k = 0
    p = end - 1
    while p >= 0 and k < n and latest[p] >= since:
        if first[p] >= since:
            rows[k] = p
            k += 1
        p -= 1
    return k
