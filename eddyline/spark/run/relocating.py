"""Corrects the absolute paths in a checkpoint that was moved.

Only the files in `state/OPERATOR/_metadata` contain absolute paths: Spark stores the paths of its state schemas there
(`stateSchemaFilePaths`), and would read them from the old folder.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from eddyline.delivery.durable import fsync_folder, replace_file
from eddyline.errors import StateError

_BELOW = re.compile(r"/(state/\d+/_stateSchema/.+)$")
_LISTS = ("stateSchemaFilePaths",)


def relocate(checkpoint: Path) -> int:
    """Replaces the paths of Spark's state schemas by the current ones; returns the number of changed files."""
    changed = 0
    for file in metadata_files(checkpoint):
        version, _, body = file.read_text(encoding="utf-8").partition("\n")
        try:
            content = json.loads(body)
            for store in content["stateStoreInfo"]:
                for key in _LISTS:
                    store[key] = list(dict.fromkeys(_here(p, checkpoint) for p in store.get(key, [])))
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
