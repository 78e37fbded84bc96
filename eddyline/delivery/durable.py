"""Durability: what is announced is on the disk first.

A file survives a loss of power once its content has been synchronised, and its name once its folder has. Each of the
two takes some milliseconds on a disk; calls that run at the same time share most of that, so several files are
synchronised by several threads.
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
HIDDEN = "."  # with this at the beginning of its name, readers of data pass a file over


def fsync_file(file: Path) -> None:
    """Waits until the content of a file is on the disk."""
    _fsync(file, os.O_RDONLY)


def fsync_folder(folder: Path) -> None:
    """Waits until the names in a folder are on the disk."""
    _fsync(folder, os.O_RDONLY | os.O_DIRECTORY)


def fsync_all(files: Iterable[Path], folders: Iterable[Path] = ()) -> None:
    """Files first, then folders, each several at a time."""
    for sync, paths in ((fsync_file, list(files)), (fsync_folder, list(folders))):
        if len(paths) < 2:
            for path in paths:
                sync(path)
        else:
            with ThreadPoolExecutor(min(THREADS, len(paths))) as pool:
                list(pool.map(sync, paths))


def make_folder(folder: Path) -> None:
    """Makes a folder, with those above it, so that it is there after a loss of power."""
    missing = [f for f in (folder, *folder.parents) if not f.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in reversed(missing):
        fsync_folder(made.parent)


def _fsync(path: Path, flags: int) -> None:
    handle = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(file: Path, text: str, durability: Durability = "fsync") -> None:
    """Writes a file that is there whole, as it was or as it is now, also after a loss of power.

    Its new content may only be certain once its folder is synchronised.
    """
    beside = file.with_name(f"{HIDDEN}{file.name.lstrip('.')}-{uuid4().hex}")
    try:
        with beside.open("w", encoding="utf-8") as f:
            f.write(text)
            f.flush()
            if durability == "fsync":
                os.fsync(f.fileno())
        os.replace(beside, file)
    finally:
        beside.unlink(missing_ok=True)
