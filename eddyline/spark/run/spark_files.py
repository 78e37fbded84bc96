"""Spark's own files in a checkpoint: synced to disk with every micro-batch, and corrected if the checkpoint was moved.

Spark does not sync its files. After a power failure, a sink could have rows of a micro-batch that is not planned. The
files of a micro-batch (its offsets, its input and its new state) are therefore synced during delivery, before the batch
is published, which costs a few milliseconds.

Only the files in `state/OPERATOR/_metadata` contain absolute paths: Spark stores the paths of its state schemas there,
and would read them from the old folder of a checkpoint that was moved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from eddyline.delivery.durable import fsync_all, fsync_folder, replace_file
from eddyline.errors import StateError
from eddyline.spark.input.offsets import entry_files, log_entry_of, source_offsets

_BELOW = re.compile(r"/(state/\d+/_stateSchema/.+)$")


def sync_plan(checkpoint: Path, batch: int) -> None:
    """Syncs Spark's files of a micro-batch."""
    files = [f for f in plan_files(checkpoint, batch) if f.exists()]
    with suppress(FileNotFoundError):  # Spark has removed it meanwhile: newer files replace it
        fsync_all(files, {f.parent for f in files})


def plan_files(checkpoint: Path, batch: int) -> Iterator[Path]:
    yield checkpoint / "offsets" / str(batch)
    for source, offset in enumerate(source_offsets(checkpoint, batch)):
        yield from entry_files(checkpoint, source, log_entry_of(offset))
    yield from checkpoint.glob(f"state/*/[0-9]*/{batch + 1}.changelog")
    yield from checkpoint.glob(f"state/*/[0-9]*/{batch + 1}.zip")


def relocate(checkpoint: Path) -> int:
    """Replaces the paths of Spark's state schemas by the current ones; returns the number of changed files."""
    changed = 0
    for file in metadata_files(checkpoint):
        version, _, body = file.read_text(encoding="utf-8").partition("\n")
        try:
            content = json.loads(body)
            for store in content["stateStoreInfo"]:
                paths = store.get("stateSchemaFilePaths", [])
                store["stateSchemaFilePaths"] = list(dict.fromkeys(_here(p, checkpoint) for p in paths))
        except (ValueError, KeyError, TypeError):
            raise StateError(f"{str(file)!r} is damaged.", hint="Restore the whole checkpoint.") from None
        new = f"{version}\n{json.dumps(content, separators=(',', ':'))}"
        if json.loads(body) != content:
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)  # Spark's checksum of the old content
            replace_file(file, new)
            fsync_folder(file.parent)
            changed += 1
    return changed


def metadata_files(checkpoint: Path) -> list[Path]:
    return sorted(f for f in checkpoint.glob("state/*/_metadata/v2/*") if f.name.isdigit())


def _here(path: str, checkpoint: Path) -> str:
    below = _BELOW.search(path)
    return path if below is None else f"file:{checkpoint}/{below[1]}"
