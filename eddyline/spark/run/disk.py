"""Turns errors of the file system into StateError: what could not be written, why, and what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from eddyline.errors import StateError

PROBE = 64 * 1024  # free bytes that a checkpoint's disk must have to start a run
_FULL = "Free space on its disk, and do it again."
_DENIED = "Change its permissions, or choose another place."
_HINTS = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: "Raise the limit of file sizes (ulimit -f), and do it again.",
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.EROFS: _DENIED,
    errno.EMFILE: "Raise the limit of open files (ulimit -n).",
}


@contextmanager
def writing(what: str) -> Iterator[None]:
    """Turns an OSError into a StateError about `what`, such as "The catalog 'ck/eddyline/catalog'"."""
    try:
        yield
    except OSError as e:
        raise unwritable(what, e) from e


def unwritable(what: str, error: OSError) -> StateError:
    why = error.strerror or str(error)
    return StateError(f"{what} cannot be written: {why}.", hint=_HINTS.get(error.errno or 0))


def unforeseen(error: OSError) -> StateError:
    """An unexpected error of the file system, with the file that it concerns."""
    about = f" ({error.filename})" if error.filename else ""
    return StateError(f"{error.strerror or error}{about}.", hint=_HINTS.get(error.errno or 0))


def require_space(folder: Path) -> None:
    """Raises if not even a small file can be written to a folder."""
    with writing(f"The checkpoint {str(folder)!r}"), TemporaryFile(dir=folder, prefix=".") as f:
        f.write(bytes(PROBE))
        f.flush()
