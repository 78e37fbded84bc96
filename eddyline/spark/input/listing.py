"""Which sources Spark only lists, and which columns their files must have.

Packers read parquet files on local or mounted file systems (`file_rows.py`). Spark reads all other formats, and files
in stores that are not mounted.
"""

from __future__ import annotations

import os
from typing import Literal

from eddyline import types as t
from eddyline.spark.output.places import is_local, local_path
from eddyline.sql.bound import Field
from eddyline.sql.catalog import Sink, Stream, Table

TEXT_FILES = ("json", "csv", "xml")  # formats that provide the text of a malformed row
FILES = (*TEXT_FILES, "parquet", "orc", "avro", "text")  # formats that are read with a declared schema
OP = "op"  # the column of a table's changelog that has the operation
INSERT = "insert"  # the operation of a row without one
# Whether rows have a column that says which operation they are: yes; yes if the files have such a column; no.
Operations = Literal["given", "perhaps", "none"]
# Columns that have the operation in changelogs of other tools: files with one of them are not taken for plain tables.
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


def option_of(thing: Stream | Table | Sink, name: str) -> str | None:
    """The option of a source or sink, whatever the case of its name; None if it is not given."""
    options = {} if thing.external is None else thing.external.options
    return next((value for key, value in options.items() if key.lower() == name), None)


def has_pattern(path: str) -> bool:
    """Whether a path, or a part of one, is a pattern that matches many."""
    return any(c in path for c in "*?[{")


def operations_of(relation: Stream | Table) -> Operations:
    """Whether the rows of a source have an operation; the rows of a plain table are inserts.

    `OPTIONS (op 'name')` names the column that has it; `OPTIONS (op 'none')` declares a plain table.
    """
    if isinstance(relation, Stream):
        return "given"  # streams have no operations
    given = None if relation.external is None else relation.external.options.get(OP)
    return "perhaps" if given is None else "none" if given.lower() == "none" else "given"


def fields_of(relation: Stream | Table) -> list[Field]:
    """The columns that packers get: the declared ones, for a table after the operation.

    The operation has an empty name if no column of the source has it.
    """
    if isinstance(relation, Stream):
        return list(relation.fields)
    named = OP if relation.external is None else relation.external.options.get(OP, OP)
    return [Field("" if operations_of(relation) == "none" else named, t.STRING), *relation.fields]


def lists_files(relation: Stream | Table | None) -> bool:
    """Whether Spark only lists the files of a source, and packers read them."""
    return relation is not None and local_files(relation) and format_of(relation) == "parquet"


def local_files(relation: Stream | Table) -> bool:
    """Whether a source consists of files on a local or mounted file system."""
    path = "" if relation.external is None else relation.external.options.get("path", "")
    return format_of(relation) in FILES and is_local(path)


def format_of(relation: Stream | Table) -> str:
    return "" if relation.external is None else relation.external.format.lower()


def root_of(relation: Stream | Table, base: str) -> str | None:
    """The folder of a source whose files are listed; None if its path is a pattern. A relative one begins at `base`."""
    path = "*" if relation.external is None else relation.external.options.get("path", "")
    if has_pattern(path):
        return None
    return os.path.normpath(os.path.join(base, local_path(path, f"source of {relation.name!r}")))
