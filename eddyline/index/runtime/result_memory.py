"""Rooms: memory for large results, reused when no array refers to it any more.

Pages from the system are cleared when they are first touched, which for 13 kB a row takes longer than finding the row's
matches. Allocators give memory back to the system some milliseconds after it was freed; here some of it is kept.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

MOST_KEPT = 256 << 20  # bytes

_lock = threading.RLock()  # a collection of garbage inside `room` may end a lease in the same thread
_free: list[pa.Buffer] = []


class _Lease:
    """Memory in use by arrays; when the last of them goes, it is free for the next."""

    def __init__(self, buffer: pa.Buffer, words: int) -> None:
        self.buffer = buffer
        self.__array_interface__ = {"shape": (words,), "typestr": "<u8", "data": (buffer.address, False), "version": 3}

    def __del__(self) -> None:
        with _lock:
            if sum(b.size for b in _free) + self.buffer.size <= MOST_KEPT:
                _free.append(self.buffer)


def room(words: int) -> npt.NDArray[np.uint64]:
    """Room for so many words, with whatever is in it."""
    with _lock:
        fitting: Any = min((b for b in _free if b.size >= 8 * words), key=lambda b: b.size, default=None)
        if fitting is not None and fitting.size <= 16 * words + 4096:
            _free.remove(fitting)
        else:
            fitting = None
    return np.asarray(_Lease(fitting if fitting is not None else pa.allocate_buffer(8 * words), words))
