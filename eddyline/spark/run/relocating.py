"""A checkpoint that lies elsewhere than it did: the one thing in it that names its old place is put right.

Of all files in a checkpoint only those below `state/OPERATOR/_metadata` name it by absolute paths: Spark notes there
where the schemas of state are (`stateSchemaFilePaths`), and would look for them at the old place.
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
    """Lets Spark find the schemas of its state where they are now; returns how many files were changed."""
    changed = 0
    for file in metadata_files(checkpoint):
        version, _, body = file.read_text(encoding="utf-8").partition("\n")
        try:
            said = json.loads(body)
            for store in said["stateStoreInfo"]:
                for key in _LISTS:
                    store[key] = list(dict.fromkeys(_here(p, checkpoint) for p in store.get(key, [])))
        except (ValueError, KeyError, TypeError):
            raise StateError(f"{str(file)!r} is damaged.", hint="Restore the whole checkpoint.") from None
        new = f"{version}\n{json.dumps(said, separators=(',', ':'))}"
        if json.loads(body) != said:
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)  # Spark's checksum of what it was
            replace_file(file, new)
            fsync_folder(file.parent)
            changed += 1
    return changed


def metadata_files(checkpoint: Path) -> list[Path]:
    return sorted(f for f in checkpoint.glob("state/*/_metadata/v2/*") if f.name.isdigit())


def _here(path: str, checkpoint: Path) -> str:
    below = _BELOW.search(path)
    return path if below is None else f"file:{checkpoint}/{below[1]}"
