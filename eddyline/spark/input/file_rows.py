"""Reads the rows of parquet files in packers.

Spark only lists the files of a micro-batch: its own reader silently skips a file whose types differ. Declared columns
are matched by name, ignoring case; a missing column is NULL, or its value is in the name of a folder
(`day=2026-01-31`). Rows with values that the declared types cannot represent are malformed. The same files give the
same rows, in the same order.
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
PIECE = 64 * 2**20  # bytes: rows are packed in pieces of this size
_FINAL = (None, errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP)  # faults of the file
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class Unreadable(Exception):
    """Why a file, or the rest of it, cannot be read."""


@dataclass(frozen=True)
class Unread:
    """A file of which not all rows were read."""

    path: str
    why: str
    rows: int = 0  # rows of it that were read before the error


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
def _errors_of_the_file() -> Iterator[None]:
    """Turns errors of the file into Unreadable; errors of the machine end the run."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, OverflowError) as e:
        if isinstance(e, OSError) and e.errno not in _FINAL:
            raise
        raise Unreadable((str(e).splitlines() or [type(e).__name__])[0]) from None


class FileReader:
    """Reads files of one stream or table; `unread` lists those it could not read."""

    def __init__(self, fields: Sequence[Field], root: str | None = None, operations: Operations = "given") -> None:
        """`root`: the folder of the source, if the names of folders below it may contain columns.

        `operations`: whether the first field, of a table, is in the files; if it is not, their rows are inserts.
        """
        self.fields = fields
        self.root = root
        self.operations = operations
        self.unread: list[Unread] = []

    def pieces(self, paths: Sequence[str]) -> Iterator[pa.Table]:
        """The declared columns, the text of malformed rows, and the file of each row; small files share a piece."""
        batches_of_piece: list[pa.RecordBatch] = []
        size = 0
        for path in paths:
            for batch in self._file(path):
                batches_of_piece.append(batch)
                size += batch.nbytes
                if size >= PIECE:
                    yield pa.Table.from_batches(batches_of_piece)
                    batches_of_piece, size = [], 0
        if batches_of_piece:
            yield pa.Table.from_batches(batches_of_piece)

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
        with _errors_of_the_file():
            # Not memory-mapped: a file that is truncated while it is read must not end the process.
            file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
            schema = file.schema_arrow
            names = schema.names
        with file:
            where = self._where(schema, in_folders)
            wanted = [names[i] for i in where if i is not None]
            for group in range(file.num_row_groups):  # one by one, so that the groups before a damaged one are read
                batches = file.iter_batches(ROWS, [group], wanted, use_threads=False)
                while True:
                    with _errors_of_the_file():
                        batch = next(batches, None)
                    if batch is None:
                        break
                    yield [None if i is None else batch.column(names[i]) for i in where], batch.num_rows, in_folders

    def _where(self, schema: pa.Schema, in_folders: dict[str, str]) -> list[int | None]:
        """The position in the file of each declared column; None if the file does not positions_by_name it."""
        positions_by_name: dict[str, list[int]] = {}
        for i, name in enumerate(schema.names):
            positions_by_name.setdefault(name.lower(), []).append(i)
        columns: list[int | None] = []
        for f in self.fields:
            positions = positions_by_name.get(f.name.lower(), [])
            if not columns and not positions and self.operations == "perhaps":
                _require_plain(schema.names)
            if f.name.lower() in in_folders or not positions:
                columns.append(None)
                continue
            if len(positions) > 1:
                raise Unreadable(f"it has column {f.name!r} {len(positions)} times")
            type_ = schema.types[positions[0]]
            if not readable(type_, f.type):
                raise Unreadable(f"column {f.name!r} is {type_}, not {t.name_of(f.type)}")
            columns.append(positions[0])
        return columns

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
            converted, lossy = exactly(column, f.type)
            columns.append(converted)
            if lossy is not None:
                text = _text(f, column, lossy)
                malformed = pc.coalesce(pc.binary_join_element_wise(malformed, text, ", "), malformed, text)
        place = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), pa.array([path]))
        names = [str(i) for i in range(len(columns) + 2)]
        return pa.record_batch([*columns, malformed, place], names=names)


def _require_plain(names: Sequence[str]) -> None:
    """A changelog must not be taken for a plain table: its deletes would become inserts."""
    other = next((n for n in names if n.lower() in OTHER_NAMES), None)
    if other is not None:
        raise Unreadable(f"it has no column 'op', but {other!r}: say which it is by OPTIONS (op {other!r})")


def _text(f: Field, column: pa.Array, lossy: pa.Array) -> pa.Array:
    """For the rows with an unrepresentable value: that value, its type and the declared type."""
    values = column.filter(lossy)
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_timestamp(kind):
        values = [f"{n} {kind.unit} since 1970" for n in values.cast(pa.int64()).to_pylist()]
    else:
        values = values.to_pylist()
    texts = pa.array([f"{f.name} = {v} ({kind}), which no {t.name_of(f.type)} is" for v in values], pa.string())
    return spread(lossy, texts)


def _constant(f: Field, text: str | None, count: int) -> pa.Array:
    """A column that the file does not have: NULL, or the value in the name of a folder."""
    if text is None or text == _NO_VALUE:
        return pa.nulls(count, f.type)
    value = cast(f.type, pa.array([text], t.STRING))[0]
    if not value.is_valid:
        raise Unreadable(f"its folder says {f.name} = {text!r}, which is no {t.name_of(f.type)}")
    return pa.repeat(value, count)


def _in_folders(path: str, root: str | None) -> dict[str, str]:
    """The columns, in lower case, and values in the folder names between the source and a file."""
    if root is None or not path.startswith(root.rstrip("/") + "/"):
        return {}
    folders = os.path.relpath(path, root).split("/")[:-1]
    named = (f.split("=", 1) for f in folders if "=" in f)
    return {name.lower(): unquote(value) for name, value in named}
