"""What Spark's own readers make of a sink's folder: its marks, and files that were compacted."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from eddyline.delivery.compaction import compact
from tests.delivery.test_compaction import Folder

pytestmark = pytest.mark.xdist_group("spark")


def test_a_file_stream_reads_no_row_again_after_files_it_has_seen_were_merged(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Nor does one miss a row that begins afterwards. Neither takes marks for rows."""
    folder = Folder(tmp_path / "out")
    found: dict[str, list[tuple[int, int]]] = {"before": [], "afterwards": []}

    def read(name: str) -> None:
        def take(rows: DataFrame, _: int) -> None:
            found[name] += [(r.batch, r.position) for r in rows.collect()]

        stream = spark.readStream.schema("query string, batch long, position long").parquet(str(folder.place / "f"))
        writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / name))
        writer.trigger(availableNow=True).start().awaitTermination()

    for batch in range(4):
        folder.write(batch)
    read("before")
    assert compact(folder.place, 3).after == 2
    folder.write(4)
    for name in found:
        read(name)
    expected = sorted((batch, position) for family, batch, position in folder.places if family == "f")
    assert sorted(found["before"]) == expected
    assert sorted(found["afterwards"]) == expected
    whole = spark.read.option("recursiveFileLookup", "true").parquet(str(folder.place))
    assert whole.count() == len(folder.places)
