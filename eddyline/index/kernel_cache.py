"""Where compiled kernels are kept: in a folder named by the content of all files that have any.

Numba compiles a kernel anew when its own file changes, but not when a function changes that it calls in another file;
the code it kept would then be a mixture of both. With every change of these files the folder is another one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from functools import cache
from pathlib import Path

import numba

KEPT_FOR = 30 * 24 * 3600  # seconds without use


def keep_kernels() -> None:
    """Chooses the folder, unless the user has, or it cannot be written; then Numba does as it likes."""
    home = cache_folder()
    if os.environ.get("NUMBA_CACHE_DIR") or home is None:
        return
    folder = home / "kernels" / digest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.touch()
        for other in folder.parent.iterdir():
            if other.stat().st_mtime < time.time() - KEPT_FOR:
                shutil.rmtree(other, ignore_errors=True)
    except OSError:
        return
    if os.access(folder, os.W_OK):
        numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]


def cache_folder() -> Path | None:
    """Where this user keeps what can be made again; None if no home is known."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eddyline"
    except RuntimeError:
        return None


@cache
def digest() -> str:
    """Of all files that have kernels, and of what compiles them."""
    found = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]
