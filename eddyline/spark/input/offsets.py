"""Reads Spark's own logs in a checkpoint without Spark: the planned and committed micro-batches and their offsets.

A file `offsets/N` has the offsets of micro-batch N: a line with its version, one with its time, then one per source.
A file `commits/N` exists when it has ended. Spark writes both by renaming, so only a disk fault can damage one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eddyline.errors import StateError

MARK = "eddyline"  # a key that identifies the control source's offset


def last_batch(log: Path) -> int | None:
    """The last micro-batch in the log `offsets` or `commits`; None if there is none."""
    return max((int(f.name) for f in log.glob("*") if f.name.isdigit()), default=None)


def read_offset(checkpoint: Path, batch: int) -> dict[str, Any]:
    """The control source's offset in a micro-batch: its commit, and the time."""
    file = checkpoint / "offsets" / str(batch)
    try:
        return offset_in(file.read_text())
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise _damaged(checkpoint, file, e) from None


def check_logs(checkpoint: Path) -> None:
    """Raises if the last files of Spark's logs cannot be read."""
    planned, committed = (last_batch(checkpoint / log) for log in ("offsets", "commits"))
    if planned is not None:
        read_offset(checkpoint, planned)
    files = [checkpoint / "commits" / str(committed)] if committed is not None else []
    files += [checkpoint / "metadata"] if planned is not None and (checkpoint / "metadata").exists() else []
    for file in files:
        try:
            text = file.read_text().strip()
            if not text:
                raise ValueError("it is empty")
            json.loads(text.splitlines()[-1])
        except (OSError, ValueError) as e:
            raise _damaged(checkpoint, file, e) from None


def offset_in(text: str) -> dict[str, Any]:
    """The control source's offset in a file of Spark's offset log, with the time of the micro-batch.

    Spark writes that time beside the offsets. The source's own time is older if another source triggered the batch.
    """
    lines = text.splitlines()
    if len(lines) < 3:
        raise ValueError("it is cut off" if lines else "it is empty")
    _, batch, *offsets = lines
    for line in offsets:
        if line.startswith("{") and (offset := json.loads(line)).get(MARK) == 1:
            return {**offset, "now": max(offset["now"], json.loads(batch)["batchTimestampMs"])}
    raise ValueError("it does not have the catalog's offset")


def _damaged(checkpoint: Path, file: Path, error: Exception) -> StateError:
    why = error.strerror if isinstance(error, OSError) else str(error).partition("\n")[0]
    hint = "Restore the whole checkpoint from a backup."
    if file.parent.name == "offsets" and not (checkpoint / "commits" / file.name).exists():
        crc = file.with_name(f".{file.name}.crc")
        also = f" and {str(crc)!r}" if crc.exists() else ""
        hint = (
            f"Micro-batch {file.name} has not ended. Remove {str(file)!r}{also}, then run `eddyline checkpoint rewind"
        )
        hint += f" --checkpoint {checkpoint}`, which removes what file sinks have of it: the next run plans it anew."
        hint += " Rows that it may have sent elsewhere come again."
    return StateError(f"Spark's file {str(file)!r} is damaged: {why}.", hint=hint)
