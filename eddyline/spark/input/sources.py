"""Sources: the streaming DataFrame of a stream or table `USING` a Spark format, with its declared columns in order.

Two columns follow: the text of a malformed row, and its place; both are NULL for a good row. Packers decide what
happens to bad rows. For parquet files on local or mounted file systems, the DataFrame has only the file names, and
packers read the rows (`file_rows.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource

from eddyline import types as t
from eddyline.errors import CatalogError, did_you_mean
from eddyline.spark.catalog.externals import owner_of
from eddyline.spark.catalog.references import resolved
from eddyline.spark.input.listing import FILES, INSERT, OP, TEXT_FILES, fields_of, lists_files, operations_of
from eddyline.spark.input.long_records import OPTION, PASSED_OVER, limit_of
from eddyline.sql.bound import Field
from eddyline.sql.catalog import Stream, Table

MALFORMED, PLACE = "_malformed", "_place"
LISTING = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"  # of Spark's format binaryFile
UNKNOWN_FORMAT = ("[DATA_SOURCE_NOT_FOUND]", "_DATA_SOURCE_NOT_ENABLED]")
OWN_OPTIONS = ("op", OPTION)  # options of Eddyline, not passed to Spark
CALENDARS = ("datetimerebasemode", "int96rebasemode")  # options that only Spark's parquet reader has


def register(spark: SparkSession, format_: type[DataSource]) -> str:
    """Registers a data source with a session; returns its name there.

    Spark refuses a name that its first session has, but does not resolve it in another session.
    """
    name = format_.name()
    try:
        spark.dataSource.register(format_)
    except AnalysisException as e:
        if e.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        name = f"{name}_{uuid4().hex}"
        spark.dataSource.register(type(format_.__name__, (format_,), {"name": classmethod(lambda _: name)}))
    return name


def has_format(spark: SparkSession, format_: str) -> bool:
    """Whether Spark resolves a format by its name, even if options are missing. No row is read."""
    try:
        _ = spark.read.format(format_).load().schema
    except Exception as e:  # its class depends on whether Spark Connect is used; the message has the condition
        return not any(condition in str(e) for condition in UNKNOWN_FORMAT)
    return True


def source(spark: SparkSession, relation: Stream | Table, given: DataFrame | None) -> DataFrame:
    """The rows of a stream, or the changes of a table, from its declared source or from a DataFrame given for it."""
    if given is not None:
        return _converted(given, relation, fields_of(relation), F.lit(None))
    if relation.external is None:
        kind = "stream" if isinstance(relation, Stream) else "table"
        raise CatalogError(
            f"The {kind} {relation.name!r} has no source.",
            hint=f"Declare one (USING parquet OPTIONS (path '…')), or pass sources={{{relation.name!r}: DataFrame}}.",
        )
    given_options = resolved(relation.external.options, owner_of(relation)).items()
    options = {k: v for k, v in given_options if k.lower() not in OWN_OPTIONS}
    fields = [f for f in fields_of(relation) if f.name]
    longest = limit_of(relation)
    if longest is not None:
        options[PASSED_OVER] = str(longest + 1)
    match relation.external.format.lower():
        case _ if lists_files(relation):
            return listed(spark, relation, options)
        case "kafka":
            return _with_operations(_kafka(spark, relation, options, fields), relation)
        case format_ if format_ in FILES:
            return _with_operations(_files(spark, relation, format_, options, fields), relation)
        case _:
            frame = spark.readStream.format(relation.external.format).options(**options).load()
            return _converted(frame, relation, fields_of(relation), F.lit(None))


def listed(spark: SparkSession, relation: Stream | Table, options: dict[str, str]) -> DataFrame:
    """The names of a source's files. A missing file is skipped here and reported by `bad_files.py`.

    Spark's log of files is the same for every format, so a checkpoint continues whoever reads the files.
    """
    for name in options:
        if name.lower() in CALENDARS:
            raise CatalogError(
                f"The source of {relation.name!r} cannot have the option {name!r}.",
                hint="Remove it: dates of every year are read in the Gregorian calendar.",
            )
    reader = spark.readStream.format("binaryFile").options(**options).option("ignoreMissingFiles", "true")
    return reader.schema(LISTING).load().select("path")


def _with_operations(frame: DataFrame, relation: Stream | Table) -> DataFrame:
    """Adds the operation before the columns of a table if the source has none. CSV fields are matched by position."""
    assert relation.external is not None
    match operations_of(relation):
        case "none":
            return frame.select(F.lit(INSERT).alias(OP), "*")
        case "perhaps" if relation.external.format.lower() not in ("csv", "kafka"):
            return frame.withColumn(OP, F.coalesce(F.col(OP), F.lit(INSERT)))
        case _:
            return frame


def _files(
    spark: SparkSession, relation: Stream | Table, format_: str, options: dict[str, str], fields: Sequence[Field]
) -> DataFrame:
    schema = _schema(fields)
    if format_ in TEXT_FILES:
        schema += f", `{MALFORMED}` STRING"
        options = {"columnNameOfCorruptRecord": MALFORMED, **options}
    frame = spark.readStream.format(format_).options(**options).schema(schema).load()
    malformed = F.col(MALFORMED) if format_ in TEXT_FILES else F.lit(None).cast("string")
    where = F.when(_is_bad(relation, malformed), F.col("_metadata.file_path"))
    return frame.select(*(F.col(f"`{f.name}`") for f in fields), malformed.alias(MALFORMED), where.alias(PLACE))


def _kafka(
    spark: SparkSession, relation: Stream | Table, options: dict[str, str], fields: Sequence[Field]
) -> DataFrame:
    """Messages as rows: Kafka's own columns if those are declared, else the fields of their JSON values."""
    from eddyline.spark.kafka.source import KafkaSource, kafka_available

    name = "kafka" if kafka_available(spark) else register(spark, KafkaSource)
    frame = spark.readStream.format(name).options(**options).load()
    where = F.concat_ws(" ", F.col("topic"), F.col("partition"), F.lit("offset"), F.col("offset"))
    if {f.name.lower() for f in fields} <= {c.lower() for c in frame.columns}:
        return _converted(frame, relation, fields, where)
    schema = f"{_schema(fields)}, `{MALFORMED}` STRING"
    parsed = F.from_json(F.col("value").cast("string"), schema, {"columnNameOfCorruptRecord": MALFORMED})
    rows = frame.select(parsed.alias("row"), where.alias(PLACE)).select("row.*", PLACE)
    place = F.when(_is_bad(relation, F.col(MALFORMED)), F.col(PLACE))
    return rows.select(*(F.col(f"`{f.name}`") for f in fields), MALFORMED, place.alias(PLACE))


def _converted(frame: DataFrame, relation: Stream | Table, fields: Sequence[Field], where: Column) -> DataFrame:
    """Columns by name, cast to the declared types; a value that cannot be cast makes its row malformed."""
    have = {c.lower(): c for c in frame.columns}
    operation = []
    if operations_of(relation) != "given" and fields[0].name.lower() not in have:
        operation, fields = [F.lit(INSERT).alias(OP)], fields[1:]
    for f in fields:
        if f.name.lower() not in have:
            hint = did_you_mean(f.name, frame.columns)
            raise CatalogError(f"The source of {relation.name!r} has no column {f.name!r}.", hint=hint)
    columns, reasons = [], []
    for f in fields:
        given = F.col(f"`{have[f.name.lower()]}`")
        column = given.try_cast(_spark_type(f.type))
        columns.append(column.alias(f.name))
        text = F.concat(F.lit(f"{f.name} = "), given.cast("string"))
        reasons.append(F.when(given.isNotNull() & column.isNull(), text))
    malformed = F.nullif(F.concat_ws(", ", *reasons), F.lit(""))
    bad = malformed.isNotNull() | _lacks_time(relation, columns)
    place = F.when(bad, where).cast("string")
    return frame.select(*operation, *columns, malformed.alias(MALFORMED), place.alias(PLACE))


def _is_bad(relation: Stream | Table, malformed: Column) -> Column:
    return malformed.isNotNull() | _lacks_time(relation, [F.col(f"`{f.name}`") for f in relation.fields])


def _lacks_time(relation: Stream | Table, columns: Sequence[Column]) -> Column:
    return columns[relation.time].isNull() if isinstance(relation, Stream) else F.lit(False)


def _schema(fields: Sequence[Field]) -> str:
    return ", ".join(f"`{f.name}` {_spark_type(f.type)}" for f in fields)


def _spark_type(type_: pa.DataType) -> str:
    return "INTERVAL DAY TO SECOND" if type_ == t.INTERVAL else t.name_of(type_)
