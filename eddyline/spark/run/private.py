"""Files, folders and locks that only the owner can access.

A user who can open a file can lock it for as long as they like, so only the owner can access the folder `eddyline` of a
checkpoint. Waiting for a lock logs a message that names its holder.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal
from uuid import uuid4

PATIENCE = 3.0  # seconds of waiting for a lock before a message is logged
log = logging.getLogger("eddyline")


def make_private(folder: Path) -> None:
    """Creates a folder that only its owner can access, or restricts an existing one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _tighten(folder, 0o700)


def open_private(file: Path, flags: int) -> int:
    """A descriptor of a file that only its owner can access; creates the file if it does not exist."""
    handle = os.open(file, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    _tighten(handle, 0o600)
    return handle


def create_secret(file: Path) -> None:
    """Creates a file with a random key, readable only by its owner, unless another process has created it."""
    temporary = file.with_name(f".{uuid4().hex}")
    with os.fdopen(open_private(temporary, os.O_WRONLY | os.O_EXCL), "w") as f:
        f.write(secrets.token_hex(32))
        f.flush()
        os.fsync(f.fileno())
    with suppress(FileExistsError):
        os.link(temporary, file)
    temporary.unlink()


def _tighten(place: Path | int, mode: int) -> None:
    status = os.stat(place)
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) & 0o077:
        with suppress(OSError):  # the file system has no modes
            os.chmod(place, mode)


@contextmanager
def locked(handle: int, file: Path, busy: Literal["wait", "skip"] = "wait") -> Iterator[bool]:
    """Holds the lock of an open file, across processes, and closes the file.

    If another process holds the lock, waits for it, or with "skip" yields False without the lock.
    """
    try:
        held = _try(handle)
        if not held and busy == "wait":
            message = threading.Timer(PATIENCE, _log_holder, (file, handle))
            message.daemon = True
            message.start()
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
            finally:
                message.cancel()
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


def _log_holder(file: Path, handle: int) -> None:
    with suppress(OSError):  # the lock was taken at this moment
        log.warning("Waiting for the lock %s, held by %s.", file, holder(handle) or "a process that is not known here")


def holder(handle: int) -> str:
    """The process that holds the lock of an open file, according to Linux; empty if unknown."""
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
        command = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "of another user or machine"
    return f"{command[:80]}…" if len(command) > 80 else command
