"""Durability: files are synced to disk before they are published.

A file survives a power failure once its content is synced, and its name once its folder is. Each sync takes some
milliseconds on a disk; concurrent calls share most of that, so several files are synced by several threads.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal
from uuid import uuid4

Durability = Literal["fsync", "none"]
THREADS = 8
HIDDEN = "."  # the first character of names that readers of data ignore


def fsync_file(file: Path) -> None:
    """Waits until the content of a file is on the disk."""
    _fsync(file, os.O_RDONLY)


def fsync_folder(folder: Path) -> None:
    """Waits until the names in a folder are on the disk."""
    _fsync(folder, os.O_RDONLY | os.O_DIRECTORY)


def fsync_all(files: Iterable[Path], folders: Iterable[Path] = ()) -> None:
    """Syncs files, then folders, several at a time."""
    for sync, paths in ((fsync_file, files), (fsync_folder, folders)):
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(sync, paths))


def make_folder(folder: Path) -> None:
    """Creates a folder and its parents, so that they survive a power failure."""
    missing = [f for f in (folder, *folder.parents) if not f.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for created in reversed(missing):
        fsync_folder(created.parent)


def _fsync(path: Path, flags: int) -> None:
    handle = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(file: Path, text: str, durability: Durability = "fsync") -> None:
    """Replaces a file atomically: after a power failure it has the old or the new content.

    The new content is only certain once its folder is synced.
    """
    temporary = file.with_name(f"{HIDDEN}{file.name.lstrip('.')}-{uuid4().hex}")
    try:
        with temporary.open("w", encoding="utf-8") as f:
            f.write(text)
            f.flush()
            if durability == "fsync":
                os.fsync(f.fileno())
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
