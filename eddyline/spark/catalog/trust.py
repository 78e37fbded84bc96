"""Approval of functions: a function of a checkpoint is loaded only if this user has approved it.

A function's body is a pickle, and loading a pickle runs code. Bodies therefore stay bytes until a query calls the
function, and are loaded only if the checkpoint has an approval: a file named by the HMAC of the function under a key
derived from the user's own key and the identity of the checkpoint. Someone who can write to the checkpoint can add a
function but not approve it. Defining a function approves it; `allow_functions` approves all functions present.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import pickle
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eddyline.delivery.durable import fsync_folder
from eddyline.errors import StateError
from eddyline.spark.run.private import create_secret

if TYPE_CHECKING:
    from eddyline.engine.actions import DefineFunction

KEY_FILE = "EDDYLINE_KEY_FILE"  # environment variable: the user's key file, if it is not in the settings folder


def key_file() -> Path:
    """The file of the user's own key."""
    chosen = os.environ.get(KEY_FILE)
    if chosen:
        return Path(chosen)
    settings = os.environ.get("XDG_CONFIG_HOME")
    return (Path(settings) if settings else Path.home() / ".config") / "eddyline" / "key"


def checkpoint_key(identity: str, *, create: bool) -> bytes | None:
    """The key for one checkpoint, derived from the user's own; None if the user has none yet and none is created."""
    file = key_file()
    if create and not file.exists():
        _create(file)
    try:
        status = file.stat()
        if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise StateError(
                f"The key {str(file)!r} is open to other users, or belongs to one.",
                hint="chmod 600 it, or remove it and approve functions anew (--allow-functions).",
            )
        return hmac.digest(file.read_bytes(), identity.encode(), hashlib.sha256)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise StateError(f"The key {str(file)!r} cannot be read: {e.strerror}.") from None


def _create(file: Path) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_secret(file)
        fsync_folder(file.parent)
    except OSError as e:
        raise StateError(
            f"The key {str(file)!r}, by which functions are approved, cannot be written: {e.strerror}.",
            hint=f"Name another file in {KEY_FILE}.",
        ) from None


class Approvals:
    """The approvals in a checkpoint. `key` is that of the checkpoint; without one, it is derived when it is needed."""

    def __init__(self, own: Path, identity: str, key: bytes = b"") -> None:
        self.folder = own / "functions"
        self.identity = identity
        self._key = key

    def key(self, *, create: bool = False) -> bytes | None:
        if not self._key:
            self._key = checkpoint_key(self.identity, create=create) or b""
        return self._key or None

    def approve(self, function: DefineFunction) -> None:
        key = self.key(create=True)
        assert key is not None
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.folder / _mac(key, function)).touch(mode=0o600)
        fsync_folder(self.folder)

    def has(self, function: DefineFunction) -> bool:
        key = self.key()
        return key is not None and (self.folder / _mac(key, function)).exists()

    def load(self, function: DefineFunction) -> Callable[..., Any]:
        """The body of an approved function."""
        if not self.has(function):
            raise self.refusal(function)
        try:
            body: Callable[..., Any] = pickle.loads(function.body)
        except Exception as e:
            raise StateError(
                f"The function {function.name!r} cannot be loaded here: {type(e).__name__}: {e}.",
                hint="Install what it imports, on every machine, or define it anew.",
            ) from None
        return body

    def refusal(self, function: DefineFunction) -> StateError:
        return StateError(
            f"The function {function.name!r} in the checkpoint {str(self.folder.parent.parent)!r} is not approved: its"
            " code was put there by another user or program, or by an earlier version.",
            hint="If you trust the checkpoint, run with --allow-functions (Pipeline(…, allow_functions=True));"
            " or define the function again in your program.",
        )


class ApprovedBodies(Mapping[str, Callable[..., Any]]):
    """The bodies of approved functions by name, in lower case, loaded on first use. Immutable."""

    def __init__(self, approvals: Approvals, functions: Mapping[str, DefineFunction] | None = None) -> None:
        self._approvals = approvals
        self._functions = functions or {}
        self._loaded: dict[str, Callable[..., Any]] = {}

    def plus(self, function: DefineFunction) -> ApprovedBodies:
        name = function.name.lower()
        bodies = ApprovedBodies(self._approvals, {**self._functions, name: function})
        bodies._loaded = {n: body for n, body in self._loaded.items() if n != name}
        return bodies

    def mapping(self) -> Mapping[str, Callable[..., Any]]:
        return self

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name not in self._loaded:
            self._loaded[name] = self._approvals.load(self._functions[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)


def _mac(key: bytes, function: DefineFunction) -> str:
    parts = [function.name.lower(), function.kind, str(len(function.takes)), *function.takes, function.gives]
    texts = [p.upper().encode() for p in parts] + [function.body]
    content = b"".join(len(t).to_bytes(8, "little") + t for t in texts)
    return hmac.new(key, content, hashlib.sha256).hexdigest()
