"""Syncs Spark's files of a micro-batch to disk: its offsets, its input and its new state.

Spark does not sync them. After a power failure, a sink could have rows of a micro-batch that is not planned. The files
are therefore synced during delivery, before the batch is published.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from eddyline.delivery.durable import fsync_all


def sync_plan(checkpoint: Path, batch: int) -> None:
    """Syncs Spark's files of a micro-batch; it costs a few milliseconds."""
    files = [f for f in plan_files(checkpoint, batch) if f.exists()]
    with suppress(FileNotFoundError):  # Spark has removed it meanwhile: newer files replace it
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
