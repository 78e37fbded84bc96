"""Reads Spark's own logs in a checkpoint without Spark: the planned and committed micro-batches and their offsets.

A file `offsets/N` has the offsets of micro-batch N: a line with its version, one with its time, then one per source.
A file `commits/N` exists when it has ended. Spark writes both by renaming, so only a disk fault can damage one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

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


def source_offsets(checkpoint: Path, batch: int) -> list[Any]:
    """The offsets of all sources in a micro-batch, in order; empty if it was not planned.

    A source of files has an object with `logOffset`, the number of the last entry in its log; -1: there is none.
    """
    file = checkpoint / "offsets" / str(batch)
    lines = file.read_text().splitlines()[2:] if file.exists() else []
    return [json.loads(line) if line.startswith("{") else line for line in lines]


def log_entry_of(offset: Any) -> int:
    """The last entry in the log of a source of files; -1 if there is none, or the source has no files."""
    return int(offset.get("logOffset", -1)) if isinstance(offset, dict) else -1


def entry_files(checkpoint: Path, source: int, entry: int) -> list[Path]:
    """Where an entry of a source's log may be: Spark regularly writes all entries so far in place of the last one."""
    log = checkpoint / "sources" / str(source)
    return [log / str(entry), log / f"{entry}.compact"] if entry >= 0 else []


def files_between(checkpoint: Path, source: int, before: int, last: int) -> Iterator[str]:
    """The files that Spark listed for a source in the entries of its log after `before`, up to `last`."""
    seen: set[str] = set()
    for entry in range(before + 1, last + 1):
        file = next((f for f in entry_files(checkpoint, source, entry) if f.exists()), None)
        for line in file.read_text().splitlines()[1:] if file is not None else ():
            listed = json.loads(line)
            if before < listed["batchId"] <= last and listed["path"] not in seen:
                seen.add(listed["path"])
                yield unquote(urlparse(listed["path"]).path)


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
