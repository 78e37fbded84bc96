"""Tables from a DataFrame that is not streaming: it is read once, as inserts.

Spark would read such a DataFrame again in every micro-batch. Its rows are therefore copied into the checkpoint at the
first start, and the copy is an ordinary source of files: each file is in one micro-batch, also after restarts.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from eddyline import types as t
from eddyline.delivery.names import folder_name
from eddyline.errors import CatalogError, did_you_mean
from eddyline.spark.input.exact import readable
from eddyline.spark.input.listing import fields_of, operations_of
from eddyline.spark.run.settings import Settings, has_begun
from eddyline.sql.catalog import Stream, Table

_DONE = "_SUCCESS"  # Spark's mark of a folder that was written whole


def copied(settings: Settings, relation: Stream | Table, frame: DataFrame) -> str:
    """The folder with a copy of the DataFrame's rows; it is written unless the pipeline has already started with it."""
    if isinstance(relation, Stream):
        raise CatalogError(
            f"The DataFrame given for stream {relation.name!r} is not streaming.",
            hint="Make it with spark.readStream; only a table may be read once.",
        )
    folder = settings.own / "static" / folder_name(relation.name.lower())
    if not (folder / _DONE).exists() or not has_begun(Path(settings.checkpoint)):
        frame.select(*_columns(relation, frame)).write.mode("overwrite").parquet(str(folder))
    return str(folder)


def _columns(table: Table, frame: DataFrame) -> list[str]:
    """The columns that the table declares, with the operation if the DataFrame has one; raises if one is missing."""
    have = {c.lower(): (c, kind) for c, kind in zip(frame.columns, to_arrow_schema(frame.schema).types, strict=True)}
    operation, *declared = fields_of(table)
    if operation.name.lower() in have or operations_of(table) == "given":
        declared = [operation, *declared]
    columns = []
    for f in declared:
        if f.name.lower() not in have:
            hint = did_you_mean(f.name, frame.columns)
            raise CatalogError(f"The DataFrame for table {table.name!r} has no column {f.name!r}.", hint=hint)
        name, kind = have[f.name.lower()]
        if not readable(kind, f.type):
            raise CatalogError(
                f"Column {f.name!r} of the DataFrame for table {table.name!r} is {kind}, not {t.name_of(f.type)}.",
                hint=f"Cast it: frame.withColumn({name!r}, col({name!r}).cast({t.name_of(f.type)!r})).",
            )
        columns.append(f"`{name}`")
    return columns
