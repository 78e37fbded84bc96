"""Result memory: buffers for large results, reused once no array refers to them any more.

The system clears new pages when they are first touched, which for 13 kB a row takes longer than finding the row's
matches. Allocators return memory to the system some milliseconds after it was freed; here up to `MOST_KEPT` bytes of it
are kept for the next result. Smaller buffers are left to the allocator, which reuses them itself.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.arrays import Words

MOST_KEPT = 256 << 20  # bytes
LEAST_KEPT = 1 << 20  # bytes of a buffer

_lock = threading.RLock()  # a garbage collection inside `result_words` may end a lease in the same thread
_free: list[pa.Buffer] = []


class _Lease:
    """A buffer in use by arrays; when the last of them is deleted, the buffer is free for the next lease."""

    def __init__(self, buffer: pa.Buffer, words: int) -> None:
        self.buffer = buffer
        self.__array_interface__ = {"shape": (words,), "typestr": "<u8", "data": (buffer.address, False), "version": 3}

    def __del__(self) -> None:
        if self.buffer.size < LEAST_KEPT:
            return
        with _lock:
            if sum(b.size for b in _free) + self.buffer.size <= MOST_KEPT:
                _free.append(self.buffer)


def result_words(words: int) -> Words:
    """An uninitialized array of so many words."""
    with _lock:
        fitting: Any = min((b for b in _free if b.size >= 8 * words), key=lambda b: b.size, default=None)
        if fitting is not None and fitting.size <= 16 * words + 4096:
            _free.remove(fitting)
        else:
            fitting = None
    return np.asarray(_Lease(fitting if fitting is not None else pa.allocate_buffer(8 * words), words))
