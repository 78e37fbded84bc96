"""The Spark host against the in-process host, and against an empty pipeline; what a million queries add to it.

All in one run on one Spark session: rates at micro-batches of 200,000 rows, the time of a micro-batch of 1,000 rows
beside one of identity `mapInArrow` and `transformWithState` over the same sources, and the state that is read and
written, per micro-batch, as the windows fill. A JVM gets faster for minutes, so what is compared takes turns.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import eddyline
from benchmarks._memory import memory, own_jvm
from benchmarks._report import Figure, report

SYMBOLS = 5_000
LARGE, LARGE_BATCHES = 200_000, 6
SMALL, SMALL_BATCHES, WARM, TURNS = 1_000, 20, 5, 4  # the first turn counts for nothing
QUERIES, MANY = 100_000, 1_000_000
ROUNDS = 8  # of runs of one micro-batch, with a query added before it or not
CORES = 2

STREAMS = {
    "trades": "CREATE STREAM trades (symbol STRING, price DOUBLE, qty INT, ts TIMESTAMP) WATERMARK ts",
    "quotes": "CREATE STREAM quotes (symbol STRING, bid DOUBLE, ts TIMESTAMP) WATERMARK ts",
}
FAMILIES = (
    "CREATE QUERY FAMILY alert (s STRING, lo DOUBLE, hi DOUBLE) WITH (snapshot = 'no') AS"
    " SELECT symbol, price FROM trades WHERE symbol = :s AND price BETWEEN :lo AND :hi",
    "CREATE QUERY FAMILY pair (s STRING, lo DOUBLE, hi DOUBLE, a DOUBLE, b DOUBLE) WITH (snapshot = 'no') AS"
    " SELECT t.symbol, t.price, q.bid FROM trades [RANGE 1 SECONDS] t, quotes [RANGE 1 SECONDS] q"
    " WHERE t.symbol = q.symbol AND t.symbol = :s AND t.price BETWEEN :lo AND :hi AND q.bid BETWEEN :a AND :b",
)


def rows(rng: np.random.Generator, batch: int, n: int) -> dict[str, pa.Table]:
    """Half trades, half quotes, over ten seconds of event time."""
    found = {}
    for name in STREAMS:
        k = n // 2
        ts = pa.array(np.sort(rng.integers(0, 10_000_000, k)) + batch * 10_000_000).cast(pa.timestamp("us", "UTC"))
        columns = {"symbol": _symbols(rng, k), "price" if name == "trades" else "bid": rng.random(k) * 100}
        columns |= {"qty": pa.array(rng.integers(1, 100, k), pa.int32())} if name == "trades" else {}
        found[name] = pa.table(columns | {"ts": ts})
    return found


def queries(rng: np.random.Generator, n: int) -> dict[str, pa.Table]:
    """Half filters, half select joins."""
    k = n // 2
    lo, low, a = rng.random(k) * 95, rng.random(k) * 80, rng.random(k) * 80
    names = pa.array(np.arange(k)).cast(pa.string())
    alert = {"query": _named("a", names), "s": _symbols(rng, k), "lo": lo, "hi": lo + 5}
    pair = {"query": _named("p", names), "s": _symbols(rng, k), "lo": low, "hi": low + 20, "a": a, "b": a + 20}
    return {"alert": pa.table(alert), "pair": pa.table(pair)}


def _named(prefix: str, numbers: pa.Array) -> pa.Array:
    return pa.compute.binary_join_element_wise(pa.scalar(prefix), numbers, "")


def _symbols(rng: np.random.Generator, n: int) -> pa.Array:
    return _named("s", pa.array(rng.integers(0, SYMBOLS, n)).cast(pa.string()))


def in_process(batches: list[dict[str, pa.Table]], table: dict[str, pa.Table]) -> list[float]:
    """Seconds of each push, with the rows of all changes built."""
    db = eddyline.connect()
    for sql in (*STREAMS.values(), *FAMILIES):
        db.execute(sql)
    for family, found in table.items():
        db.register(family, found)
    seconds = []
    for batch in batches:
        began = time.perf_counter()
        changes = db.push(batch)
        for family in table:
            changes.rows(family)
        seconds.append(time.perf_counter() - began)
    return seconds


class Files:
    """Batches as files, one a stream and micro-batch, in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written = 0
        for name in STREAMS:
            (folder / name).mkdir(parents=True)

    def put(self, batches: list[dict[str, pa.Table]]) -> None:
        for batch in batches:
            for name, table in batch.items():
                file = self.folder / name / f"{self.written:05}.parquet"
                pq.write_table(table, file)
                os.utime(file, (1_700_000_000 + self.written, 1_700_000_000 + self.written))
            self.written += 1


class OnSpark:
    def __init__(self, spark: Any, folder: Path, table: dict[str, pa.Table]) -> None:
        from eddyline.spark import Pipeline

        self.files = Files(folder)
        self.reports: list[Any] = []  # of the buckets, by micro-batch
        sources = [
            f"{sql} USING parquet OPTIONS (path '{folder / name}', maxFilesPerTrigger '1')"
            for name, sql in STREAMS.items()
        ]
        script = folder / "pipeline.sql"
        sink = f"CREATE SINK out USING parquet OPTIONS (path '{folder}/out')"
        script.write_text(";\n".join([*sources, *FAMILIES, sink]))
        self.pipe = Pipeline(spark, script, folder / "ck")
        for family, found in table.items():
            self.pipe.register(family, found)
        self.pipe.listen(self._note)

    def _note(self, figures: Any) -> None:
        from eddyline.spark.output.reports import read_reports

        found = read_reports(self.pipe.settings.own, figures.batch)
        assert found is not None
        self.reports.append(found.buckets)

    def take(self, batches: list[dict[str, pa.Table]]) -> list[float]:
        """Seconds of each micro-batch."""
        self.files.put(batches)
        run = self.pipe.start(available_now=True)
        seconds = _durations(run)
        run.figures()  # Spark has told of all of them
        return seconds


class Empty:
    """Identity `mapInArrow`, and a `transformWithState` that counts: one row to each of two keys, from each source."""

    def __init__(self, spark: Any, folder: Path) -> None:
        from eddyline.spark.run.pipeline import CONF

        self.files = Files(folder)
        self.session = spark.newSession()
        for key, value in (CONF | {"spark.sql.shuffle.partitions": "2"}).items():
            self.session.conf.set(key, value)

    def take(self, batches: list[dict[str, pa.Table]]) -> list[float]:
        from pyspark.sql import DataFrame

        self.files.put(batches)
        folder, frames = self.files.folder, []
        for name in STREAMS:
            schema = self.session.read.parquet(str(folder / name)).schema
            frame = self.session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / name))
            frames.append(frame.mapInArrow(_one_each(), "key int, n long"))
        keyed = reduce(DataFrame.unionAll, frames).groupBy("key")
        counted = keyed.transformWithState(_counting(), "n long", "append", "none")
        writer = counted.writeStream.format("noop").option("checkpointLocation", str(folder / "empty"))
        return _durations(writer.trigger(availableNow=True).start())


def _one_each() -> Any:
    from eddyline.spark.worker.keys import bucket_keys

    keys = bucket_keys(2)

    def one_each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        n = sum(b.num_rows for b in batches)
        yield pa.record_batch([pa.array(keys, pa.int32()), pa.array([n, n])], names=["key", "n"])

    return one_each


def _counting() -> Any:
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql.types import LongType, StructField, StructType

    class Count(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", StructType([StructField("n", LongType())]))

        def handleInputRows(self, key: Any, given: Iterator[Row], timers: Any) -> Iterator[Row]:
            found = self.count.get()
            total = sum(r.n for r in given) + (0 if found is None else found[0])
            self.count.update((total,))
            yield Row(n=total)

        def close(self) -> None:
            pass

    return Count()


def _durations(run: Any) -> list[float]:
    run.awaitTermination()
    return [p.durationMs["triggerExecution"] / 1000 for p in run.recentProgress]


def taking_turns(hosts: list[Any], batches: list[dict[str, pa.Table]]) -> list[float]:
    """The median of seconds per micro-batch of each."""
    seconds: list[list[float]] = [[] for _ in hosts]
    for turn in range(TURNS):
        now = batches[turn * SMALL_BATCHES : (turn + 1) * SMALL_BATCHES]
        for host, found in zip(hosts, seconds, strict=True):
            found += host.take(now)[WARM:] if turn else host.take(now)[:0]
    return [statistics.median(found) for found in seconds]


def queries_coming(host: OnSpark, batches: list[dict[str, pa.Table]]) -> tuple[float, float]:
    """The median of seconds of a micro-batch that is a run of its own; and of one before which queries came."""
    seconds: tuple[list[float], list[float]] = [], []
    for i, batch in enumerate(batches):
        if i % 2:
            new = {"query": f"new {i}", "s": "s1", "lo": 1.0, "hi": 2.0}
            host.pipe.register("alert", [new])
            host.pipe.register("pair", [new | {"query": f"new pair {i}", "a": 1.0, "b": 2.0}])
        seconds[i % 2].append(sum(host.take([batch])))
    return statistics.median(seconds[0]), statistics.median(seconds[1])


def _total(reports: list[Any], name: str) -> float:
    return float(sum(r[name] for r in reports))


def main() -> bool:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{CORES}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "4g")
    spark = builder.config("spark.sql.streaming.numRecentProgressUpdates", "200").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    base = Path(tempfile.mkdtemp(prefix="eddyline-bench-"))
    try:
        return report("spark_host", _figures(spark, base))
    finally:
        spark.stop()
        shutil.rmtree(base, ignore_errors=True)


def _figures(spark: Any, base: Path) -> list[Figure]:
    rng = np.random.default_rng(17)
    table = queries(rng, QUERIES)
    large = [rows(rng, i, LARGE) for i in range(LARGE_BATCHES)]
    turns = SMALL_BATCHES * TURNS
    small = [rows(rng, i, SMALL) for i in range(turns + 2 * ROUNDS)]

    alone = in_process(large, table)[1:]
    whole = OnSpark(spark, base / "large", table)
    together = whole.take(large)[1:]
    reports = whole.reports
    empty = Empty(spark, base / "empty")
    few, many = OnSpark(spark, base / "few", table), OnSpark(spark, base / "many", queries(rng, MANY))
    few.take(small[:1])
    before = memory(own_jvm())[1]
    many.take(small[:1])
    per_query = (memory(own_jvm())[1] - before) * 2**20 / CORES / MANY
    floor, host, crowd = taking_turns([empty, few, many], small[:turns])
    as_they_are, with_new = queries_coming(many, small[turns:])
    rate, rate_spark = (LARGE / statistics.median(x) for x in (alone, together))
    written = [sum(r["written"] for r in found) for found in reports]
    read = [sum(r["read"] for r in found) for found in reports]
    small_written = statistics.median(sum(r["written"] for r in found) for found in few.reports)
    packed = [p for found in reports[1:] for r in found for p in r["packed"] if p["rows"]]
    steps = [r for found in reports[1:] for r in found]
    changes = sum(sum(r["matches"].values()) for r in steps)
    hits = [r["cache"] == "hit" for found in reports[1:] for r in found]
    return [
        Figure(f"in-process, {QUERIES} queries, {LARGE}-row batches", rate, "rows/s"),
        Figure("Spark host, the same", rate_spark, "rows/s"),
        Figure("in-process rate over the Spark host's", rate / rate_spark, "", 1 / 0.6),
        Figure(f"empty pipeline, {SMALL}-row micro-batch", floor, "s"),
        Figure(f"Spark host, {QUERIES} queries, {SMALL}-row micro-batch", host, "s"),
        Figure("as a multiple of the empty pipeline", host / floor, "", 1.5),
        Figure(f"Spark host, {MANY} queries, {SMALL}-row micro-batch", crowd, "s"),
        Figure("as a multiple of the one with fewer queries", crowd / host, "", 1.2),
        Figure("queries added before a micro-batch of a run, as a multiple of none", with_new / as_they_are, "", 1.2),
        Figure("state read from Spark per large micro-batch", statistics.median(read[1:]), "bytes"),
        Figure("state written per large micro-batch", statistics.median(written), "bytes"),
        Figure("share of steps whose bucket was in memory", sum(hits) / len(hits), ""),
        Figure("packing, with the filters, per row", 1e6 * _total(packed, "seconds") / _total(packed, "rows"), "µs"),
        Figure(
            "a step, per row routed to the join", 1e6 * _total(steps, "step_seconds") / _total(packed, "rows"), "µs"
        ),
        Figure("memory of a resident, per query", per_query, "bytes"),
        Figure("staging, per change of the join", 1e6 * _total(steps, "stage_seconds") / changes, "µs"),
        Figure(f"state written per row, {LARGE}-row micro-batches", statistics.median(written) / LARGE, "bytes"),
        Figure(f"the same, {SMALL}-row micro-batches", small_written / SMALL, "bytes"),
    ]


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
