"""When clearing away is worth a pass: once more than half of what is kept is no longer used, and some more.

What is cleared at once was added one by one since the last time, so each addition pays for a constant share.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

SPARE = 1000  # what may lie unused in any case


@cache
def _trim() -> Any:
    """The C library's way to give memory back; None where it has none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def give_back() -> None:
    """What making something large took and let go returns to the system. Takes some milliseconds.

    After the index of a million queries, of 17 bytes each, 470 bytes a query would stay with the process otherwise."""
    trim = _trim()
    if trim is not None:
        trim(0)


def worth_clearing(total: int, used: int | np.signedinteger[Any]) -> bool:
    return bool(total > 2 * used + SPARE)
