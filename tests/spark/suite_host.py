"""The SQL suite's host on Spark: a world is one pipeline over files, and a step is what is there when it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from eddyline.delivery.changes import as_table
from eddyline.engine.family import Family
from eddyline.spark import Pipeline
from eddyline.state.delta import empty
from tests.sql.suite import FUNCTIONS, Case, Outcome, World


class OnSpark:
    def __init__(self, spark: SparkSession, folder: Path, buckets: int = 2) -> None:
        self.spark = spark
        self.folder = folder
        self.buckets = buckets

    def run(self, world: World, cases: Sequence[Case]) -> Outcome:
        script = self.folder / "pipeline.sql"
        script.write_text(f"CREATE SINK out USING parquet OPTIONS (path '{self.folder}/out');")
        pipe = Pipeline(self.spark, script, self.folder / "ck", buckets=self.buckets, on_error="null")
        for name in world.functions:
            pipe.function(name, *FUNCTIONS[name])
        for statement in world.statements:
            pipe.execute(self._with_source(statement))
        run = pipe.start()
        found: dict[str, pa.Table] = {}
        try:
            for i, step in enumerate(world.steps):
                for case in cases:
                    for query in case.going(step.number):
                        pipe.execute(f"DROP CONTINUOUS QUERY {query}")
                for case in cases:
                    if case.first == step.number:
                        pipe.execute(case.declare)
                    table = case.coming(step.number)
                    if table is not None:
                        pipe.register(case.name, table)
                    for query in (q for q, at in case.added.items() if at == step.number):
                        found[query] = none_of(pipe.catalog.query(query)[0])
                for statement in step.changes:
                    pipe.execute(statement)
                run.processAllAvailable()
                for stream, rows in step.rows.items():
                    put(self.folder / "in" / stream, f"{i:05}.parquet", rows)
                run.processAllAvailable()
        finally:
            run.stop()
        late = {s: self._late(s, world) for s in world.streams}
        found |= {name: rows.rename_columns(found[name].column_names) for name, rows in self._changes().items()}
        return Outcome(found, late)

    def _with_source(self, statement: str) -> str:
        words = statement.split()
        if words[1].upper() != "STREAM":
            return statement
        folder = self.folder / "in" / words[2].partition("(")[0]
        folder.mkdir(parents=True)
        return f"{statement.rstrip().rstrip(';')} USING parquet OPTIONS (path '{folder}')"

    def _changes(self) -> dict[str, pa.Table]:
        found: dict[str, pa.Table] = {}
        for folder in sorted((self.folder / "out").iterdir()):
            rows = read(folder)
            if rows is not None:
                for name in pc.unique(rows.column("query")).to_pylist():
                    found[name] = plain(rows.filter(pc.equal(rows.column("query"), name)))
        return found

    def _late(self, stream: str, world: World) -> pa.Table:
        schema = world.streams[stream].schema
        rows = read(self.folder / "ck" / "eddyline" / "dead_letter" / stream.lower())
        if rows is None:
            return schema.empty_table()
        return pa.table([_naive(rows.column(i)) for i in range(len(schema))], names=schema.names)


def put(folder: Path, name: str, rows: pa.Table) -> None:
    """A file that is there whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f".{name}"
    pq.write_table(rows, beside)
    beside.rename(folder / name)


def read(folder: Path) -> pa.Table | None:
    files = sorted(folder.glob("part-*.parquet")) if folder.is_dir() else []
    return pa.concat_tables([pq.read_table(f) for f in files]) if files else None


def none_of(family: Family) -> pa.Table:
    """The changes of a query that has none."""
    return as_table(family, empty([f.type for f in family.fields], attached=True))


def plain(rows: pa.Table) -> pa.Table:
    """As `Changes.rows` gives them: op, ts, exp, then the query's own columns."""
    columns = [_naive(c) for c in rows.columns]
    return pa.table([*columns[1:4], *columns[6:]], names=[*rows.column_names[1:4], *rows.column_names[6:]])


def _naive(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.timestamp("us")) if pa.types.is_timestamp(column.type) else column
