"""Verifies the files of a checkpoint: each problem is a sentence that names the file.

Spark's files are compared with their checksum files, the catalog's with their digests. State is complete if every
bucket has a snapshot and all later changes up to the last committed micro-batch.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from eddyline.delivery.marks import folders_of, last_batch, parts_of, read_mark
from eddyline.errors import Error
from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.input.offsets import entry_files, log_entry_of, offset_in, source_offsets
from eddyline.spark.output.epochs import committed, foreign_from, planned
from eddyline.spark.run.checkpoint import require_fixed
from eddyline.spark.run.sink_rewinds import file_sinks

_VERSION = re.compile(r"(\d+)(?:_[^.]*)?\.(zip|changelog)")


def problems(checkpoint: Path) -> Iterator[str]:
    """The problems of a checkpoint; empty if there are none."""
    try:
        known = require_fixed(checkpoint)
    except Error as e:
        yield e.message
        return
    yield from _checksums(checkpoint)
    yield from _catalog(checkpoint)
    yield from _batches(checkpoint)
    yield from _state(checkpoint, known.buckets)
    yield from _sinks(checkpoint, known.identity)


def _checksums(checkpoint: Path) -> Iterator[str]:
    for checksums in sorted(checkpoint.rglob(".*.crc")):
        file = checksums.with_name(checksums.name[1:-4])
        if not file.exists():
            yield f"{file} is missing."
        elif not sum_matches(file, checksums):
            yield f"{file} is damaged: it does not match its checksum."


def sum_matches(file: Path, checksums: Path) -> bool:
    """Whether a file matches Hadoop's checksum file, which has the CRC-32 of every chunk."""
    expected = checksums.read_bytes()
    if expected[:4] != b"crc\0" or len(expected) < 8:
        return False
    (size,) = struct.unpack(">i", expected[4:8])
    sums = []
    with file.open("rb") as f:
        while piece := f.read(size):
            sums.append(zlib.crc32(piece))
    return expected[8:] == struct.pack(f">{len(sums)}I", *sums)


def _catalog(checkpoint: Path) -> Iterator[str]:
    log = CommitLog(checkpoint / "eddyline" / "catalog")
    latest = log.latest()
    base = log.snapshot_before(latest)
    wanted = [(log.read_snapshot, base)] if base else []
    for read, number in (*wanted, *((log.read, n) for n in range(base + 1, latest + 1))):
        try:
            read(number)
        except Error as e:
            yield e.message


def _batches(checkpoint: Path) -> Iterator[str]:
    first, last, done = _first(checkpoint / "offsets"), planned(checkpoint), committed(checkpoint)
    if not last - 1 <= done <= last:
        yield f"Spark has planned micro-batches up to {last} and committed those up to {done}."
    for batch in range(max(first, done), last + 1):
        file = checkpoint / "offsets" / str(batch)
        try:
            commit = offset_in(file.read_text())["commit"]
            if commit > CommitLog(checkpoint / "eddyline" / "catalog").latest():
                yield f"Micro-batch {batch} has commit {commit} of the catalog, which is missing."
            yield from _sources(checkpoint, batch)
        except FileNotFoundError:
            yield f"{file} is missing."
        except (ValueError, KeyError, TypeError):
            yield f"{file} is damaged."
    if done >= 0:
        clocks = checkpoint / "eddyline" / "clocks" / f"{done:09}.json"
        try:
            json.loads(clocks.read_text())
        except FileNotFoundError:
            yield f"{clocks} is missing."
        except ValueError:
            yield f"{clocks} is damaged."


def _sources(checkpoint: Path, batch: int) -> Iterator[str]:
    """Checks that the log of every file source has the entry that the offsets of a micro-batch name."""
    for source, offset in enumerate(source_offsets(checkpoint, batch)):
        files = entry_files(checkpoint, source, log_entry_of(offset))
        if files and not any(f.exists() for f in files):
            yield f"{files[0]} is missing."


def _state(checkpoint: Path, buckets: int) -> Iterator[str]:
    version = committed(checkpoint) + 1
    for bucket in range(buckets if version else 0):
        folder = checkpoint / "state" / "0" / str(bucket)
        versions: dict[str, dict[int, Path]] = {"zip": {}, "changelog": {}}
        for file in folder.glob("*") if folder.is_dir() else ():
            match = _VERSION.fullmatch(file.name)
            if match is not None:
                versions[match[2]][int(match[1])] = file
        base = max((v for v in versions["zip"] if v <= version), default=0)
        for v in range(base + 1, version + 1):
            if v not in versions["changelog"]:
                yield f"{folder / f'{v}.changelog'} is missing: the state after micro-batch {v - 1}."
        if base:
            yield from _snapshot(versions["zip"][base])


def _snapshot(file: Path) -> Iterator[str]:
    try:
        with zipfile.ZipFile(file) as packed:
            bad = packed.testzip()
            metadata = json.loads(packed.read("metadata").partition(b"\n")[2])
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as e:
        yield f"{file} is damaged: {e}."
        return
    if bad is not None:
        yield f"{file} is damaged: {bad} in it."
    for table in metadata.get("sstFiles", []):
        sst_file = file.parent / "SSTs" / table["dfsSstFileName"]
        if not sst_file.exists():
            yield f"{sst_file} is missing."
        elif sst_file.stat().st_size != table["sizeBytes"]:
            yield f"{sst_file} is damaged: it has {sst_file.stat().st_size} bytes, not {table['sizeBytes']}."


def _sinks(checkpoint: Path, identity: str) -> Iterator[str]:
    try:
        sinks = list(file_sinks(checkpoint))
    except Error:
        return  # the unreadable catalog was reported before
    for sink, place in sinks:
        last = last_batch(place)
        try:
            mark = read_mark(place)
        except Error as e:
            yield e.message
            continue
        rewind = f"`eddyline checkpoint rewind --checkpoint {checkpoint}` removes them."
        if last is not None and last > planned(checkpoint):
            yield f"Sink {sink.name!r}: {place} has rows of micro-batch {last}, which was never planned. {rewind}"
        elif last is not None and mark is None:
            yield f"Sink {sink.name!r}: {place} has rows and no mark."
        elif mark is not None and last is not None and mark.identity != identity:
            yield f"Sink {sink.name!r}: {place} has rows of the checkpoint {mark.checkpoint!r}."
        elif last is not None and (first := foreign_from(mark, checkpoint)) is not None:
            yield f"Sink {sink.name!r}: {place} has rows of an unknown run from micro-batch {first} on. {rewind}"
        for part in (p for folder in folders_of(place) for p in parts_of(folder)):
            if not part.path.stat().st_size:
                yield f"Sink {sink.name!r}: {part.path} is empty."


def _first(log: Path) -> int:
    return min((int(f.name) for f in log.glob("*") if f.name.isdigit()), default=0)
