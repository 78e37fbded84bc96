"""Records of text files that are too long: the option `max_record_bytes` of JSON, CSV and text sources.

One line of 600 MB, which gzip compresses to 583 kB, would kill the JVM at every restart. Spark silently skips lines
that are longer than its limit, in bounded memory; this module detects them afterwards, so that they can be reported.
Files that cannot exceed the limit, given their size and compression, are not read; the others are scanned in chunks.
"""

from __future__ import annotations

import os
import re

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.errors import CatalogError
from eddyline.spark.input.file_rows import Unread
from eddyline.spark.input.listing import format_of, local_files, option_of
from eddyline.sql.catalog import Stream, Table

OPTION = "max_record_bytes"
FORMATS = ("json", "csv", "text")
DEFAULT = 64 * 10**6  # bytes of a line, including its end
PASSED_OVER = "mapreduce.input.linerecordreader.line.maxlength"  # Hadoop's option: it skips lines of so many bytes
_COMPRESSED = {".gz": 1_100, ".bz2": 1_000_000, ".zst": 1_000_000, ".lz4": 300}  # the highest compression ratio
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_CHUNK = 4 * 2**20


def limit_of(relation: Stream | Table) -> int | None:
    """The largest record in bytes of a source; None if it has no limit. Raises if the declared limit is invalid."""
    given = option_of(relation, OPTION)
    if format_of(relation) not in FORMATS or not local_files(relation):
        if given is not None:
            raise CatalogError(
                f"The source of {relation.name!r} cannot have the option {OPTION!r}.",
                hint=f"It is for files of {', '.join(FORMATS)} on a file system that is mounted here. Remove it.",
            )
        return None
    if given is None:
        return DEFAULT
    parsed = re.fullmatch(r"\s*(\d+)\s*([kmg]?b?)\s*", given.lower())
    count = int(parsed[1]) * _UNITS.get(parsed[2], 0) if parsed else 0
    if not 0 < count < 2**31 - 1:
        raise CatalogError(
            f"Option {OPTION} of the source of {relation.name!r} is a number of bytes below 2 GB, not {given!r}.",
            hint="Write '16 MB'.",
        )
    return count


def long_record(path: str, limit: int, line_end: str | None = None) -> Unread | None:
    """The first record of a file that is too long, if any. None if the file cannot be read: Spark could not either."""
    try:
        if os.path.getsize(path) * _COMPRESSED.get(os.path.splitext(path)[1], 1) <= limit:
            return None
        with pa.input_stream(path) as file:
            number = _first_long(file, limit, None if line_end is None else line_end.encode())
    except (OSError, pa.ArrowException):
        return None
    return None if number is None else Unread(path, f"line {number} has more than {limit:,} bytes ({OPTION})")


def _first_long(file: pa.NativeFile, limit: int, line_end: bytes | None) -> int | None:
    """The number of the first line that is too long, including its end. Memory is bounded by the chunk."""
    lines = partial = 0  # complete lines, and bytes of the incomplete one
    while chunk := file.read(_CHUNK):
        while _ends_inside(chunk, line_end or b"\r\n") and (more := file.read(1)):
            chunk += more
        ends = _ends(chunk, line_end)
        lengths = np.diff(ends, prepend=0)
        lengths[:1] += partial
        too_long = np.flatnonzero(lengths > limit)
        if len(too_long):
            return lines + int(too_long[0]) + 1
        lines += len(ends)
        partial = len(chunk) - int(ends[-1]) if len(ends) else partial + len(chunk)
        if partial > limit:
            return lines + 1
    return None


def _ends_inside(chunk: bytes, line_end: bytes) -> bool:
    return any(chunk.endswith(line_end[:k]) for k in range(1, len(line_end)))


def _ends(chunk: bytes, line_end: bytes | None) -> Ints:
    """Where lines end in a chunk: after the given bytes, or after a line feed, a carriage return, or both."""
    if line_end is not None:
        return np.array([m.end() for m in re.finditer(re.escape(line_end), chunk)], np.int64)
    content = np.frombuffer(chunk, np.uint8)
    is_end = content == ord("\n")
    if b"\r" in chunk:
        alone = content == ord("\r")
        alone[:-1] &= ~is_end[1:]
        is_end |= alone
    return np.flatnonzero(is_end) + 1
