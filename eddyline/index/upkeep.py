"""When clearing away is worth a pass: once more than half of what is kept is no longer used, and some more.

What is cleared at once was added one by one since the last time, so each addition pays for a constant share.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SPARE = 1000  # what may lie unused in any case


def worth_clearing(total: int, used: int | np.signedinteger[Any]) -> bool:
    return bool(total > 2 * used + SPARE)
