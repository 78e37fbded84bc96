"""Encodes names of streams, families and sinks as names of files and folders."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote

_LONGEST = 200  # bytes of a folder's name; file systems allow 255


def folder_name(name: str) -> str:
    """The name of a folder, without path separators and not hidden from readers of data."""
    plain = re.sub(r"[\x00-\x1f/\\:%]", lambda m: quote(m[0], safe=""), name)
    plain = f"%{ord(plain[0]):02X}{plain[1:]}" if plain[:1] in (".", "_") else plain
    if len(plain.encode()) > _LONGEST:
        whole = len(name.encode()).to_bytes(8, "little") + name.encode()
        digest = hashlib.blake2b(whole, digest_size=16).hexdigest()
        return f"{plain.encode()[: _LONGEST - 40].decode(errors='ignore')}%{digest}"
    return plain


def file_name(name: str) -> str:
    """The first part of a file's name: unchanged unless it contains a path separator."""
    return folder_name(name) if "/" in name or "\0" in name else name
