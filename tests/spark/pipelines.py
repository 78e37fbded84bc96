"""Small pipelines over files for the tests of the Spark host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from eddyline.spark import Pipeline
from tests.spark.suite_host import put, read

START = datetime(2026, 1, 1)


class Small:
    """A pipeline whose streams are folders of parquet files, and whose sink is one folder of files per family."""

    def __init__(self, spark: SparkSession, folder: Path, script: str, **options: Any) -> None:
        """In the script, `{in}` stands for the folder of inputs."""
        self.folder = folder
        (folder / "in").mkdir(exist_ok=True)
        for line in script.splitlines():
            if "{in}/" in line:
                (folder / "in" / line.partition("{in}/")[2].partition("'")[0]).mkdir(exist_ok=True)
        file = folder / "pipeline.sql"
        sink = f"CREATE SINK out USING parquet OPTIONS (path '{folder / 'out'}');"
        file.write_text(script.replace("{in}", str(folder / "in")) + sink)
        self.pipe = Pipeline(spark, file, folder / "ck", **{"buckets": 2, **options})
        self._files = 0

    def put(self, stream: str, rows: Sequence[Mapping[str, Any]] | pa.Table) -> None:
        """Another file of a stream; `ts` may be seconds."""
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist([_timed(r) for r in rows])
        put(self.folder / "in" / stream, f"{self._files:05}.parquet", table)
        self._files += 1

    def run(self) -> None:
        """Processes all there is."""
        self.pipe.start(available_now=True).awaitTermination()

    def rows(self, family: str) -> list[dict[str, Any]]:
        """What the sink holds of a family, without batch and position, in no order."""
        found = read(self.folder / "out" / family)
        return [] if found is None else found.drop_columns(["batch", "position"]).to_pylist()

    def dead(self, relation: str) -> list[dict[str, Any]]:
        folder = self.folder / "ck" / "eddyline" / "dead_letter" / relation
        found = read(folder)
        return [] if found is None else found.to_pylist()


def _timed(row: Mapping[str, Any]) -> dict[str, Any]:
    ts = row.get("ts")
    return dict(row) | ({"ts": START + timedelta(seconds=ts)} if isinstance(ts, int | float) else {})
