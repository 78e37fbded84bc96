"""Kernel cache: `kernel` compiles a function by Numba when it is first called, and caches the machine code on disk.

Numba recompiles a kernel when its own file changes, but not when a function changes that it calls in another file; the
cached code would then be a mixture of both. So the folder is named by a digest of all files with kernels: every change
leads to another folder, and checkouts with the same files share one. Kernels of another package, such as those of
benchmarks, have a folder named by the files of that package too. Decorating reads only these files; the folder is made
when the first kernel is saved. `eddyline doctor --warm` fills it.

Numba freezes the value of a global that a kernel reads, also in the cached code: nothing may change such a global.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator

F = TypeVar("F", bound=Callable[..., Any])
INDEX = Path(__file__).parent.parent


def kernel(function: F) -> F:
    """Compiles a function of arrays, which runs in parallel with other threads."""
    compiled: F = _cached(numba.njit(nogil=True)(function))
    return compiled


def inlined(function: F) -> F:
    """Compiles a function into the kernels that call it, for what they do once per row or group: a call that passes
    named tuples of arrays costs tens of nanoseconds."""
    return cast(F, numba.njit(nogil=True, forceinline=True)(function))


def dividing_kernel(function: F) -> F:
    """Compiles a kernel that never divides by zero: Numba omits the test."""
    compiled: F = _cached(numba.njit(nogil=True, error_model="numpy")(function))
    return compiled


def _cached(dispatcher: Any) -> Any:
    dispatcher._cache = _KernelCache(dispatcher.py_func)
    return dispatcher


class _KernelLocator(UserProvidedCacheLocator):
    """Keeps the kernels of `index/` in one folder, and those of any other package in one each."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        self._py_file, self._lineno = py_file, py_func.__code__.co_firstlineno
        package = Path(py_file).parent
        self._cache_path = str(kernel_folder() if package.is_relative_to(INDEX) else kernel_folder(package))

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _KernelLocator | None:
        """None where the user has no folder for it; then Numba looks for one."""
        return None if kernel_folder() is None else cls(py_func, py_file)


class _KernelCacheFiles(CompileResultCacheImpl):
    _locator_classes = [_KernelLocator, *CompileResultCacheImpl._locator_classes]  # noqa: RUF012, as Numba has it


class _SignatureFiles(IndexDataCacheFile):
    """One file for each signature of a kernel, named by the signature.

    Numba numbers the files and keeps an index of them. Two processes that compile different signatures of a kernel at
    once can take the same number, and the index then names code for the wrong signature, which gives wrong results.
    """

    def save(self, key: Any, data: Any) -> None:
        self._save_data(self._name(key), data)  # type: ignore[no-untyped-call]

    def load(self, key: Any) -> Any:
        with suppress(OSError):
            return self._load_data(self._name(key))  # type: ignore[no-untyped-call]
        return None

    def _name(self, key: Any) -> str:
        signature = hashlib.sha256(repr((key, self._source_stamp, self._version)).encode())
        return f"{self._index_name.removesuffix('.nbi')}.{signature.hexdigest()[:16]}.nbc"


class _KernelCache(FunctionCache):
    _impl_class = _KernelCacheFiles

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _SignatureFiles(self._cache_path, self._impl.filename_base, stamp)  # type: ignore[no-untyped-call]

    # Where files cannot be read or written, every process compiles for itself.

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        kept = None
        with suppress(OSError):
            kept = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        if kept is None:
            _draw_symbols()
        return kept

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


def _draw_symbols() -> None:
    """Makes the symbols of the kernel that is compiled next differ from those of all other processes.

    Numba tells functions of the same name apart by a number in their symbols, which it counts from 1 in every process.
    A process that loads kernels compiled by several others would link different functions under one symbol, and crash
    or give wrong results (Numba's issue 10486).
    """
    FunctionIdentity._unique_ids = count(secrets.randbits(62))


@cache
def kernel_folder(package: Path = INDEX) -> Path | None:
    """Where the compiled kernels of a package are kept: below NUMBA_CACHE_DIR if that is set, or below the user's cache
    folder."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    home = cache_folder()
    if chosen:
        return Path(chosen) / "eddyline" / digest(package)
    return None if home is None else home / "kernels" / digest(package)


def cache_folder() -> Path | None:
    """The folder for files that can be made again; None if the user has no home, or it cannot be written."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eddyline"
    except RuntimeError:
        return None
    there = next(f for f in (folder, *folder.parents) if f.exists())
    return folder if there.is_dir() and os.access(there, os.W_OK) else None


@cache
def digest(package: Path = INDEX) -> str:
    """A digest of the files of `index/`, of a package whose kernels may call theirs, and of Numba's version."""
    content = hashlib.sha256(numba.__version__.encode())
    for path in sorted({*INDEX.rglob("*.py"), *package.rglob("*.py")}):
        content.update(path.read_bytes())
    return content.hexdigest()[:16]
