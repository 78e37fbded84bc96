"""The memory of processes, by /proc."""

from __future__ import annotations

import os
from pathlib import Path


def memory(jvm: int) -> tuple[float, float]:
    """Resident set sizes in MB: of the JVM, and of all residents it has."""
    residents = 0.0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            said = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"eddyline.spark.worker.resident" in said and str(jvm).encode() in said:
            residents += _rss(int(process.name))
    return _rss(jvm), residents


def _rss(process: int) -> float:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return float(next((line.split()[1] for line in lines if line.startswith("VmRSS")), "0")) / 1024


def own_jvm() -> int:
    """The JVM that this process has started."""
    own = str(os.getpid())
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (process / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if name.startswith("java") and rest.split()[1] == own:
            return int(process.name)
    raise RuntimeError("there is no JVM")


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(_rss(os.getpid()) * 1024 * 1024)
