"""Which sources Spark only lists the files of, and what the files must give.

Parquet files that can be opened from here are read where they are packed (`file_rows.py`). All other formats, and files
in stores that are not mounted, are read by Spark.
"""

from __future__ import annotations

import os
from typing import Literal

from eddyline import types as t
from eddyline.spark.output.places import is_local, local_path
from eddyline.sql.bound import Field
from eddyline.sql.catalog import Stream, Table

TEXT_FILES = ("json", "csv", "xml")  # formats that give the text of a row they cannot read
FILES = (*TEXT_FILES, "parquet", "orc", "avro", "text")  # formats that are told their schema
OP = "op"  # the column of a table's changelog that says what happened to the row
INSERT = "insert"  # what happened to a row that says nothing
Operations = Literal["given", "perhaps", "none"]
# Columns in which changelogs of other tools have the operation: a table that has one of them is no plain table.
OTHER_NAMES = (
    "_op",
    "__op",
    "operation",
    "_operation",
    "_change_type",
    "change_type",
    "op_type",
    "row_kind",
    "rowkind",
)


def operations_of(relation: Stream | Table) -> Operations:
    """Whether the rows of a source say what happened: a plain table has rows, which are inserts.

    `OPTIONS (op 'name')` says that they do, and in which column; `OPTIONS (op 'none')` that they do not.
    """
    if isinstance(relation, Stream):
        return "given"  # nothing happens to the rows of a stream
    given = None if relation.external is None else relation.external.options.get(OP)
    return "perhaps" if given is None else "none" if given.lower() == "none" else "given"


def fields_of(relation: Stream | Table) -> list[Field]:
    """The columns that packers get: those declared, and for a table the operation before them.

    The operation has no name if no column of the source says it.
    """
    if isinstance(relation, Stream):
        return list(relation.fields)
    named = OP if relation.external is None else relation.external.options.get(OP, OP)
    return [Field("" if operations_of(relation) == "none" else named, t.STRING), *relation.fields]


def lists_files(relation: Stream | Table | None) -> bool:
    """Whether Spark only lists the files of a source, and packers read them."""
    return relation is not None and local_files(relation) and _format(relation) == "parquet"


def local_files(relation: Stream | Table) -> bool:
    """Whether a source is files that can be opened from here, whoever reads them."""
    path = "" if relation.external is None else relation.external.options.get("path", "")
    return _format(relation) in FILES and is_local(path)


def _format(relation: Stream | Table) -> str:
    return "" if relation.external is None else relation.external.format.lower()


def root_of(relation: Stream | Table, base: str) -> str | None:
    """The folder of a source whose files are listed; None if its path is a pattern. A relative one begins at `base`."""
    path = "*" if relation.external is None else relation.external.options.get("path", "")
    if any(c in path for c in "*?[{"):
        return None
    return os.path.normpath(os.path.join(base, local_path(path, f"source of {relation.name!r}")))
