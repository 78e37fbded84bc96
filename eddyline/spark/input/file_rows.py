"""Rows of parquet files, read where they are packed.

Spark lists the files of a micro-batch and does not open them: its reader passes over a file whose types differ, and
tells nobody. A file gives the declared columns by name, whatever the case; a column that it lacks is NULL, or stands in
the name of a folder (`day=2026-01-31`). Rows with values that the declared types cannot hold are malformed. The same
files give the same rows, in the same order.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eddyline import types as t
from eddyline.errors import DataError
from eddyline.operators.casts import cast
from eddyline.spark.input.checking import spread
from eddyline.spark.input.exact import exactly, readable
from eddyline.spark.input.listing import INSERT, OTHER_NAMES, Operations
from eddyline.sql.bound import Field

ROWS = 200_000  # read at once
PIECE = 64 * 2**20  # bytes of rows that are packed at once
_FINAL = (None, errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP)  # the file, not the machine
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class Unreadable(Exception):
    """Why a file, or the rest of it, cannot be read."""


@dataclass(frozen=True)
class Unread:
    """A file of which not all rows were read."""

    path: str
    why: str
    rows: int = 0  # of it that were read before


def local(address: str) -> str:
    """The path of a file as Spark lists it: `file:/…`."""
    scheme, _, path = address.partition(":")
    if scheme != "file":
        raise DataError(
            f"The file {address!r} is not on a file system that is mounted here.",
            hint=f"Declare the path of its source with the scheme, {scheme}://…, so that Spark reads it.",
        )
    return "/" + path.lstrip("/")


@contextmanager
def _blamed_on_the_file() -> Iterator[None]:
    """What Arrow finds wrong with a file makes it unreadable; what is wrong with the machine ends the run."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, OverflowError) as e:
        if isinstance(e, OSError) and e.errno not in _FINAL:
            raise
        raise Unreadable((str(e).splitlines() or [type(e).__name__])[0]) from None


class FileReader:
    """Reads files of one stream or table; keeps account of those it could not read."""

    def __init__(self, fields: Sequence[Field], root: str | None = None, operations: Operations = "given") -> None:
        """`root`: the folder of the source, if columns may stand in the names of the folders below it.

        `operations`: whether the first field, of a table, is in the files; if it is not, their rows are inserts.
        """
        self.fields = fields
        self.root = root
        self.operations = operations
        self.unread: list[Unread] = []

    def pieces(self, paths: Sequence[str]) -> Iterator[pa.Table]:
        """The declared columns, the text of malformed rows, and the file of each row; small files go together."""
        waiting: list[pa.RecordBatch] = []
        size = 0
        for path in paths:
            for batch in self._file(path):
                waiting.append(batch)
                size += batch.nbytes
                if size >= PIECE:
                    yield pa.Table.from_batches(waiting)
                    waiting, size = [], 0
        if waiting:
            yield pa.Table.from_batches(waiting)

    def _file(self, path: str) -> Iterator[pa.RecordBatch]:
        rows = 0
        try:
            for given, count, in_folders in self._given(path):
                rows += count
                yield self._declared(given, count, in_folders, path)
        except FileNotFoundError:
            self.unread.append(Unread(path, "it was deleted before it was read", rows))
        except Unreadable as e:
            self.unread.append(Unread(path, str(e), rows))

    def _given(self, path: str) -> Iterator[tuple[list[pa.Array | None], int, dict[str, str]]]:
        """The declared columns that a file has, piece by piece, and those in the names of its folders."""
        in_folders = _in_folders(path, self.root)
        with _blamed_on_the_file():
            # not mapped into memory: a file that is cut off while it is read must not end the process
            file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
            schema = file.schema_arrow
            names = schema.names
        with file:
            where = self._where(schema, in_folders)
            wanted = [names[i] for i in where if i is not None]
            for group in range(file.num_row_groups):  # one by one, so that those before a damaged one are read
                batches = file.iter_batches(ROWS, [group], wanted, use_threads=False)
                while True:
                    with _blamed_on_the_file():
                        batch = next(batches, None)
                    if batch is None:
                        break
                    yield [None if i is None else batch.column(names[i]) for i in where], batch.num_rows, in_folders

    def _where(self, schema: pa.Schema, in_folders: dict[str, str]) -> list[int | None]:
        """The place in the file of each declared column that is to be read from there."""
        have: dict[str, list[int]] = {}
        for i, name in enumerate(schema.names):
            have.setdefault(name.lower(), []).append(i)
        places: list[int | None] = []
        for f in self.fields:
            found = have.get(f.name.lower(), [])
            if not places and not found and self.operations == "perhaps":
                _require_plain(schema.names)
            if f.name.lower() in in_folders or not found:
                places.append(None)
                continue
            if len(found) > 1:
                raise Unreadable(f"it has column {f.name!r} {len(found)} times")
            given = schema.types[found[0]]
            if not readable(given, f.type):
                raise Unreadable(f"column {f.name!r} is {given}, not {t.name_of(f.type)}")
            places.append(found[0])
        return places

    def _declared(
        self, given: Sequence[pa.Array | None], count: int, in_folders: dict[str, str], path: str
    ) -> pa.RecordBatch:
        columns: list[pa.Array] = []
        malformed = pa.nulls(count, pa.string())
        for f, column in zip(self.fields, given, strict=True):
            if column is None and not columns and self.operations != "given":
                columns.append(pa.repeat(INSERT, count))
                continue
            if column is None:
                columns.append(_constant(f, in_folders.get(f.name.lower()), count))
                continue
            converted, lost = exactly(column, f.type)
            columns.append(converted)
            if lost is not None:
                text = _text(f, column, lost)
                malformed = pc.coalesce(pc.binary_join_element_wise(malformed, text, ", "), malformed, text)
        place = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), pa.array([path]))
        names = [str(i) for i in range(len(columns) + 2)]
        return pa.record_batch([*columns, malformed, place], names=names)


def _require_plain(names: Sequence[str]) -> None:
    """A changelog must not be taken for a plain table: its deletes would become inserts."""
    other = next((n for n in names if n.lower() in OTHER_NAMES), None)
    if other is not None:
        raise Unreadable(f"it has no column 'op', but {other!r}: say which it is by OPTIONS (op {other!r})")


def _text(f: Field, column: pa.Array, lost: pa.Array) -> pa.Array:
    """For the rows whose value was lost: what it was, and what it should have been."""
    values = column.filter(lost)
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_timestamp(kind):
        values = [f"{n} {kind.unit} since 1970" for n in values.cast(pa.int64()).to_pylist()]
    else:
        values = values.to_pylist()
    texts = pa.array([f"{f.name} = {v} ({kind}), which no {t.name_of(f.type)} is" for v in values], pa.string())
    return spread(lost, texts)


def _constant(f: Field, text: str | None, count: int) -> pa.Array:
    """A column that the file does not have: NULL, or what the name of a folder says."""
    if text is None or text == _NO_VALUE:
        return pa.nulls(count, f.type)
    value = cast(f.type, pa.array([text], t.STRING))[0]
    if not value.is_valid:
        raise Unreadable(f"its folder says {f.name} = {text!r}, which is no {t.name_of(f.type)}")
    return pa.repeat(value, count)


def _in_folders(path: str, root: str | None) -> dict[str, str]:
    """The columns that the folders between the source and a file name, in lower case."""
    if root is None or not path.startswith(root.rstrip("/") + "/"):
        return {}
    folders = os.path.relpath(path, root).split("/")[:-1]
    named = (f.split("=", 1) for f in folders if "=" in f)
    return {name.lower(): unquote(value) for name, value in named}
