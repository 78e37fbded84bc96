"""Files and folders of the pipeline's own that no other user may read, and locks that no reader can hold.

Whoever can open a file can take a lock on it, for as long as they like. So the folder `eddyline` of a checkpoint is its
owner's alone. A lock that others hold nevertheless is waited for with a message that says who holds it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

PATIENCE = 3.0  # seconds of waiting for a lock without a word
log = logging.getLogger("eddyline")


def make_private(folder: Path) -> None:
    """Makes a folder that is its owner's alone, or makes one of ours so."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _tighten(folder, 0o700)


def open_private(file: Path, flags: int) -> int:
    """A descriptor of a file that is its owner's alone; it is created if it is not there."""
    handle = os.open(file, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    _tighten(handle, 0o600)
    return handle


def _tighten(place: Path | int, mode: int) -> None:
    found = os.stat(place)
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & 0o077:
        with suppress(OSError):  # of a file system that has no modes
            os.chmod(place, mode)


@contextmanager
def locked(handle: int, file: Path, busy: Literal["wait", "skip"] = "wait") -> Iterator[bool]:
    """Holds the lock of an open file over all processes, and closes it.

    If another holds the lock, waits for it; or gives False and holds nothing.
    """
    try:
        held = _try(handle)
        if not held and busy == "wait":
            said = threading.Timer(PATIENCE, _say, (file, handle))
            said.daemon = True
            said.start()
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
            finally:
                said.cancel()
            held = True
        yield held
    finally:
        os.close(handle)


def _try(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _say(file: Path, handle: int) -> None:
    with suppress(OSError):  # it was taken this moment
        log.warning("Waiting for the lock %s, held by %s.", file, holder(handle) or "a process that is not known here")


def holder(handle: int) -> str:
    """Who holds the lock of an open file, as Linux tells it; empty if it does not."""
    inode = os.fstat(handle).st_ino
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        words = line.split()
        if "->" not in words and words[1:2] == ["FLOCK"] and words[5].rpartition(":")[2] == str(inode):
            return f"process {words[4]} ({_command(words[4])})"
    return ""


def _command(process: str) -> str:
    try:
        said = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "of another user or machine"
    return f"{said[:80]}…" if len(said) > 80 else said
