"""What Spark has written of a micro-batch before its rows are delivered: its offsets, its input and its new state.

Spark leaves it to the operating system when these files reach the disk. If power failed, a sink could have rows of a
micro-batch that nobody has planned. So they are put on the disk while rows are delivered, before the batch is
announced.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from eddyline.delivery.durable import fsync_all


def sync_plan(checkpoint: Path, batch: int) -> None:
    """Waits until what Spark has written of a micro-batch is on the disk; it costs a few milliseconds."""
    files = [f for f in plan_files(checkpoint, batch) if f.exists()]
    with suppress(FileNotFoundError):  # Spark has removed it since: then newer ones stand for it
        fsync_all(files, {f.parent for f in files})


def plan_files(checkpoint: Path, batch: int) -> Iterator[Path]:
    offsets = checkpoint / "offsets" / str(batch)
    yield offsets
    lines = offsets.read_text().splitlines()[2:] if offsets.exists() else []
    for source, line in enumerate(lines):
        entry = json.loads(line).get("logOffset") if line.startswith("{") else None
        if entry is not None:
            yield checkpoint / "sources" / str(source) / str(entry)
            yield checkpoint / "sources" / str(source) / f"{entry}.compact"
    yield from checkpoint.glob(f"state/*/[0-9]*/{batch + 1}.changelog")
    yield from checkpoint.glob(f"state/*/[0-9]*/{batch + 1}.zip")
