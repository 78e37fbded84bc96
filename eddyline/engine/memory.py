"""The memory this process may have: that of the machine, or less where a container limits it."""

from __future__ import annotations

import os
from pathlib import Path

from eddyline.engine.family import MOST_BYTES

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a container


def machine_bytes() -> int:
    """All memory there is, in use or not: the same each time."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in _LIMITS:
        try:
            found.append(int(Path(limit).read_text()))
        except (OSError, ValueError):  # there is no such file, or it says "max"
            continue
    return min(found)


def most_step_bytes() -> int:
    """How much one family may build in one step, unless its options say."""
    return max(MOST_BYTES, machine_bytes() // 4)
