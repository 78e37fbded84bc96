"""The memory that this process may use: that of the machine, or the limit of its container."""

from __future__ import annotations

import os
from pathlib import Path

from eddyline.engine.family import MOST_BYTES

_LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a container


def machine_bytes() -> int:
    """All memory, in use or not, so that the result does not vary."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in _LIMIT_FILES:
        try:
            limits.append(int(Path(file).read_text()))
        except (OSError, ValueError):  # the file is missing, or says "max"
            continue
    return min(limits)


def most_step_bytes() -> int:
    """The default limit of the bytes that one family may build in one step."""
    return max(MOST_BYTES, machine_bytes() // 4)
