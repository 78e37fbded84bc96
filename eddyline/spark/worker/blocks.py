"""Blocks: Arrow tables with a small JSON header, encoded as bytes for exchange between stages and for Spark's state.

A block describes itself: its header is in the schema metadata of an Arrow stream.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

LARGEST = 4 * 2**20  # bytes: Spark's state store and the JVM's heap want values of a few MB
_HEADER = b"eddyline"


def encode(header: Mapping[str, Any], table: pa.Table | None = None) -> bytes:
    table = pa.table({}) if table is None else table
    schema = table.schema.with_metadata({_HEADER: json.dumps(header)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(table.cast(schema) if table.schema.metadata else table)
    return bytes(sink.getvalue())


def decode(block: bytes) -> tuple[dict[str, Any], pa.Table]:
    table = pa.ipc.open_stream(pa.py_buffer(block)).read_all()
    return json.loads(table.schema.metadata[_HEADER]), table


def encode_parts(header: Mapping[str, Any], table: pa.Table) -> Iterator[bytes]:
    """A table as blocks of at most about LARGEST bytes; none for no rows."""
    rows = max(1, table.num_rows * LARGEST // max(1, table.nbytes))
    for start in range(0, table.num_rows, rows):
        yield encode(header, table.slice(start, rows))


def join(parts: Sequence[bytes]) -> bytes:
    """Concatenates byte strings after a list of their lengths; `split` is the inverse."""
    sizes = b"".join(len(p).to_bytes(8, "little") for p in parts)
    return len(parts).to_bytes(8, "little") + sizes + b"".join(parts)


def split(joined: bytes) -> list[bytes]:
    count = int.from_bytes(joined[:8], "little")
    offset = 8 + 8 * count
    if offset > len(joined):
        raise ValueError("it is cut off, or something else")
    parts = []
    for i in range(count):
        size = int.from_bytes(joined[8 + 8 * i : 16 + 8 * i], "little")
        parts.append(joined[offset : offset + size])
        offset += size
    if offset != len(joined):
        raise ValueError(f"it has {len(joined)} bytes instead of {offset}")
    return parts


def digest(*parts: bytes) -> str:
    """A name for content: equal only for equal content."""
    hasher = hashlib.blake2b(digest_size=16)
    for p in parts:
        hasher.update(len(p).to_bytes(8, "little"))
        hasher.update(p)
    return hasher.hexdigest()
