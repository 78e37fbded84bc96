"""Sources: a stream or table `USING` a Spark format as a streaming DataFrame of its declared columns, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from eddyline import types as t
from eddyline.errors import CatalogError, did_you_mean
from eddyline.sql.bound import Field
from eddyline.sql.catalog import Stream, Table

FILES = ("parquet", "json", "csv", "orc", "avro", "text", "xml")  # these are told their schema
OP = "op"  # the column of a table's changelog that says what happened to the row


def fields_of(relation: Stream | Table) -> list[Field]:
    """The columns a source must give: those declared, and for a table the operation before them."""
    first = [Field(op_column(relation), t.STRING)] if isinstance(relation, Table) else []
    return [*first, *relation.fields]


def op_column(table: Table) -> str:
    return OP if table.external is None else table.external.options.get("op", OP)


def source(spark: SparkSession, relation: Stream | Table, given: DataFrame | None) -> DataFrame:
    """The rows of a stream, or the changes of a table, from its declared source or from a DataFrame given for it."""
    fields = fields_of(relation)
    frame = given if given is not None else _declared(spark, relation, fields)
    return _columns(frame, relation, fields)


def _declared(spark: SparkSession, relation: Stream | Table, fields: Sequence[Field]) -> DataFrame:
    kind = "stream" if isinstance(relation, Stream) else "table"
    if relation.external is None:
        raise CatalogError(
            f"The {kind} {relation.name!r} has no source.",
            hint=f"Declare one (USING parquet OPTIONS (path '…')), or pass sources={{{relation.name!r}: DataFrame}}.",
        )
    format_ = relation.external.format.lower()
    options = {k: v for k, v in relation.external.options.items() if k != "op"}
    schema = ", ".join(f"`{f.name}` {_spark_type(f.type)}" for f in fields)
    if format_ == "kafka":
        return _kafka(spark, options, fields, schema)
    reader = spark.readStream.format(relation.external.format).options(**options)
    return (reader.schema(schema) if format_ in FILES else reader).load()


def _kafka(spark: SparkSession, options: dict[str, str], fields: Sequence[Field], schema: str) -> DataFrame:
    """Messages as rows: their own columns if these are what is declared, else the fields of their JSON values."""
    from eddyline.spark.kafka import FORMAT, KafkaSource, kafka_available

    native = kafka_available(spark)
    if not native:
        spark.dataSource.register(KafkaSource)
    frame = spark.readStream.format("kafka" if native else FORMAT).options(**options).load()
    if {f.name.lower() for f in fields} <= {c.lower() for c in frame.columns}:
        return frame
    parsed = F.from_json(F.col("value").cast("string"), schema, {"mode": "PERMISSIVE"})
    return frame.select(parsed.alias("row")).select("row.*")


def _columns(frame: DataFrame, relation: Stream | Table, fields: Sequence[Field]) -> DataFrame:
    have = {c.lower(): c for c in frame.columns}
    for f in fields:
        if f.name.lower() not in have:
            hint = did_you_mean(f.name, frame.columns)
            raise CatalogError(f"The source of {relation.name!r} has no column {f.name!r}.", hint=hint)
    return frame.select(*(_cast(F.col(f"`{have[f.name.lower()]}`"), f).alias(f.name) for f in fields))


def _cast(column: Any, f: Field) -> Any:
    return column.cast(_spark_type(f.type))


def _spark_type(type_: pa.DataType) -> str:
    return "INTERVAL DAY TO SECOND" if type_ == t.INTERVAL else t.name_of(type_)
