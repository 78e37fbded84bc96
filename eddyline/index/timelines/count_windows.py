"""Count windows over one shared log of rows: what enters and leaves each of them while the log grows.

The log is in the order (event time, arrival). A window holds the n latest rows that its queries have seen, those that
arrived at `since` or later. Where a window has seen all rows of the log, its content is a run of the log, and a row
leaves when the row n places after it enters: nothing is searched. Others are walked back from the end.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eddyline.arrays import Ints
from eddyline.index.runtime.kernel_cache import kernel

_MAX = np.iinfo(np.int64).max


@kernel
def _seen(first: Ints, latest: Ints, begin: int, end: int, n: int, since: int, found: Ints) -> int:
    """The last n rows of begin:end that arrived at `since` or later, the newest first; how many they are.

    `latest` is the largest arrival number up to each row: before it falls below `since`, there may be some."""
    k = 0
    p = end - 1
    while p >= begin and k < n and latest[p] >= since:
        if first[p] >= since:
            found[k] = p
            k += 1
        p -= 1
    return k


@kernel
def enter_and_leave(
    ts: Ints, first: Ints, shown: int, upto: int, size: Ints, since: Ints
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    """The changes of each window while the rows shown:upto of the log enter.

    ts and first: event time and arrival of the rows of the log; size and since: of the windows.
    Returns (window, sign, row, ts, exp, the row that made the change), of each window first what enters, then what
    leaves. Rows that enter and leave within the call are sent with their ends, and not at all if they have no instant.
    O(changes) for a window that has seen the whole log, plus O(size + rows not seen) for one that has not.
    """
    latest = np.empty(upto, np.int64)
    earliest = high = np.int64(_MAX)
    for p in range(upto):
        high = first[p] if p == 0 else max(high, first[p])
        latest[p] = high
        earliest = min(earliest, first[p])
    room = 0
    for w in range(len(size)):
        if size[w] > 0:
            room += 2 * (upto - shown)
    window, sign, row, begin, end, cause = (
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
    )
    back = np.empty(shown + 1, np.int64)
    seen = np.empty(upto + 1, np.int64)
    k = 0
    for w in range(len(size)):
        n = size[w]
        if n <= 0:
            continue
        whole = since[w] <= earliest
        if whole:
            start, held, count = max(shown - n, 0), shown - max(shown - n, 0), upto - max(shown - n, 0)
        else:
            start, held = 0, _seen(first, latest, 0, shown, n, since[w], back)
            for j in range(held):
                seen[j] = back[held - 1 - j]
            count = held
            for p in range(shown, upto):
                if first[p] >= since[w]:
                    seen[count] = p
                    count += 1
        for j in range(held, count):
            p = start + j if whole else seen[j]
            leaves = _MAX
            if j + n < count:
                leaves = ts[start + j + n if whole else seen[j + n]]
            if leaves > ts[p]:
                window[k], sign[k], row[k], begin[k], cause[k] = w, 1, p, ts[p], p
                end[k] = leaves - 1 if leaves < _MAX else _MAX
                k += 1
        for j in range(min(held, count - n)):
            p = start + j if whole else seen[j]
            pushed_by = start + j + n if whole else seen[j + n]
            window[k], sign[k], row[k], begin[k], end[k], cause[k] = w, -1, p, ts[pushed_by], _MAX, pushed_by
            k += 1
    return window[:k], sign[:k], row[:k], begin[:k], end[:k], cause[:k]


@kernel
def in_windows(first: Ints, shown: int, size: Ints, since: Ints) -> npt.NDArray[np.bool_]:
    """Which rows of the log a window holds, or will: those from `shown` on. O(rows + size of windows that have not
    seen the whole log)."""
    kept = np.ones(len(first), np.bool_)
    latest = np.empty(shown, np.int64)
    earliest = np.int64(_MAX)
    for p in range(shown):
        kept[p] = False
        latest[p] = first[p] if p == 0 else max(latest[p - 1], first[p])
        earliest = min(earliest, first[p])
    back = np.empty(shown + 1, np.int64)
    widest = 0
    for w in range(len(size)):
        if since[w] <= earliest:
            widest = max(widest, size[w])
        else:
            for j in range(_seen(first, latest, 0, shown, size[w], since[w], back)):
                kept[back[j]] = True
    for p in range(max(shown - widest, 0), shown):
        kept[p] = True
    return kept
