"""Wide bands over four buckets: the seconds of the busiest bucket if the data is split, and if the queries are."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks._report import Figure, report
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.run.settings import Moment, Settings
from eddyline.spark.worker.bucket import Bucket
from eddyline.spark.worker.packing import Packer

QUERIES, BUCKETS, VALUES, WIDTH = 10_000, 4, 1000.0, 250.0
STEPS, WARM = 8, 3
JOIN = "FROM r [RANGE 1000 SECONDS], s [RANGE 1000 SECONDS] WHERE s.v - r.v BETWEEN :lo AND :hi"
SHAPES = {  # the family, and the rows of each stream in a step
    "rows, one r in 2,000 wanted": (f"SELECT r.k, s.k AS other {JOIN} AND r.w BETWEEN :x AND :y", 1000),
    "COUNT(*)": (f"SELECT COUNT(*) AS n {JOIN}", 20),
}


def busiest_and_all(text: str, rows: int, split: str) -> tuple[float, float]:
    """Processor seconds of steps, taken one bucket after the other."""
    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(str(Path(folder) / "ck"), BUCKETS, "min", folder, "set apart", "null")
        catalog = PipelineCatalog(settings.log())
        for stream in "rs":
            catalog.execute(f"CREATE STREAM {stream} (k INT, v DOUBLE, w DOUBLE, ts TIMESTAMP) WATERMARK ts")
        low, x = rng.uniform(-VALUES, VALUES - WIDTH, QUERIES), rng.random(QUERIES)
        params = {"lo": low, "hi": low + WIDTH * rng.uniform(0.8, 1.2, QUERIES), "x": x, "y": x + 0.0005}
        params = {name: values for name, values in params.items() if f":{name}" in text}
        declared = ", ".join(f"{name} DOUBLE" for name in params)
        catalog.execute(f"CREATE QUERY FAMILY f ({declared}) WITH (split = '{split}') AS {text}")
        catalog.register("f", pa.table({"query": [f"q{i}" for i in range(QUERIES)]} | params))
        packer, buckets = Packer(settings), [Bucket(b, settings) for b in range(BUCKETS)]
        seconds = np.zeros(BUCKETS)
        for step in range(STEPS):
            given: list[list[tuple[tuple[int, int, int], bytes]]] = [[] for _ in buckets]
            for number, stream in enumerate("rs"):
                partition = packer.open(Moment(step, catalog.version, 0, {}), stream, number)
                sent = [*packer.pack(partition, tuples(rng, step, rows)), *packer.close(partition)]
                for i, (bucket, block) in enumerate(sent):
                    given[bucket].append(((number, number, i), block))
            for b, bucket in enumerate(buckets):
                began = time.process_time()
                bucket.step(given[b])
                seconds[b] += time.process_time() - began if step >= WARM else 0.0
    return float(seconds.max()), float(seconds.sum())


def tuples(rng: np.random.Generator, step: int, n: int) -> pa.Table:
    ts = pa.array((step * n + np.arange(n)) * 1_000_000).cast(pa.timestamp("us"))
    columns = {"k": pa.array(np.arange(n), pa.int32()), "v": rng.uniform(0, VALUES, n), "w": rng.random(n), "ts": ts}
    return pa.table(columns | {"malformed": pa.nulls(n, pa.string()), "place": pa.nulls(n, pa.string())})


def main() -> bool:
    figures = []
    for shape, (text, rows) in SHAPES.items():
        busiest: dict[str, float] = {}
        for split in ("data", "queries"):
            busiest[split], total = busiest_and_all(text, rows, split)
            figures.append(Figure(f"{shape}: the busiest bucket, split by {split}", busiest[split], "s"))
            figures.append(Figure(f"{shape}: all {BUCKETS} buckets, split by {split}", total, "s"))
        share = busiest["queries"] / busiest["data"]
        figures.append(Figure(f"{shape}: by queries, as a share of by data", share, "", 0.5))
    return report("split-queries", figures)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
