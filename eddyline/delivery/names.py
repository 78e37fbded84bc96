"""Names of things as names of files: whatever a stream, family or sink is called, its files stay in one folder."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote

_LONGEST = 200  # bytes of a folder's name; file systems take 255


def folder_name(name: str) -> str:
    """A name as that of one folder that readers of data do not pass over: nothing in it leads elsewhere."""
    plain = re.sub(r"[\x00-\x1f/\\:%]", lambda m: quote(m[0], safe=""), name)
    plain = f"%{ord(plain[0]):02X}{plain[1:]}" if plain[:1] in (".", "_") else plain
    if len(plain.encode()) > _LONGEST:
        return f"{plain.encode()[: _LONGEST - 40].decode(errors='ignore')}%{_digest(name.encode())}"
    return plain


def file_name(name: str) -> str:
    """A name as the first part of a file's: as it is, unless it leads elsewhere."""
    return folder_name(name) if "/" in name or "\0" in name else name


def _digest(name: bytes) -> str:
    return hashlib.blake2b(len(name).to_bytes(8, "little") + name, digest_size=16).hexdigest()
