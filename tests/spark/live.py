"""A pipeline of the oracle's streams, tables and families over files, in the session of the tests.

Whatever happens to it, Spark's own logs tell what each micro-batch was given, and `check` holds the sink to what the
in-process host and the reference evaluator both make of that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from eddyline.spark import Pipeline
from eddyline.spark.run.pipeline_run import PipelineRun
from eddyline.spark.run.progress import BatchFigures
from tests.oracle.schema import SMALL, Schema
from tests.spark.expected import Delivered
from tests.spark.inputs import Batch, Event, carry_out, script
from tests.spark.job import ONE_FILE
from tests.spark.judge import Judge
from tests.spark.micro_batches import micro_batches
from tests.spark.suite_host import put


class Live:
    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        delays: Mapping[str, int],
        families: Iterable[str] | None = None,
        sinks: Sequence[str] = (),
        streams: str = "",
        idle: int | None = None,
        schema: Schema = SMALL,
        **options: Any,
    ) -> None:
        """`sinks` are declared before the one of files; `streams` and `idle` are as in `script`."""
        self.spark, self.folder = spark, folder
        self.schema = schema
        self.judge = Judge(delays, idle, schema)
        self.options = {"buckets": 2, "on_error": "null"} | options
        self.commits: dict[int, list[Event]] = {}
        self.consumers: dict[str, Callable[[DataFrame, int], None]] = {}
        self.caches: Counter[str] = Counter()  # how buckets were found: "hit" or "miss"
        self._files = 0
        self._run: PipelineRun | None = None
        declared = list(schema.families if families is None else families)
        self._later = [f for f in declared if any(f"{name}(" in schema.families[f][1] for name in schema.functions)]
        at_once = [f for f in declared if f not in self._later]
        (folder / "pipeline.sql").write_text(script(folder, delays, at_once, streams, sinks, idle, schema))
        self.open()

    def open(self) -> None:
        """As a program begins that runs the pipeline."""
        self.pipe = Pipeline(self.spark, self.folder / "pipeline.sql", self.folder / "ck", **self.options)
        self.pipe.spark.conf.set("spark.sql.files.openCostInBytes", ONE_FILE)
        self.pipe.spark.conf.set("spark.sql.streaming.minBatchesToRetain", "1000")
        self.pipe.listen(self._note)
        for name, f in self.schema.functions.items():
            if self.pipe.catalog.catalog.functions.get(name) is None:
                self.pipe.function(name, f.body, f.takes, f.gives)
        for name in self._later:  # they call functions
            if self.pipe.catalog.registry.find(name) is None:
                params, text = self.schema.families[name]
                self.pipe.execute(f"CREATE QUERY FAMILY {name} ({params}) AS {text}")

    def _note(self, figures: BatchFigures) -> None:
        self.caches.update(hit=figures.cache_hits, miss=figures.cache_misses)

    # what happens

    def do(self, *events: Event) -> None:
        """Changes of the catalog; each is a commit."""
        for event in events:
            carry_out(self.pipe, event, self.schema)
            self.commits[self.pipe.catalog.version] = [event]

    def put(self, batch: Batch) -> None:
        """Rows of streams and changes of tables; each source partition becomes a file."""
        for relation, parts in batch.tables().items():
            for part in parts:
                put(self.folder / "in" / relation, f"{self._files:05}.parquet", part)
                self._files += 1

    def give(self, batch: Batch) -> None:
        self.do(*batch.events)
        self.put(batch)

    # running

    def start(self, available_now: bool = False) -> PipelineRun:
        for sink, consumer in self.consumers.items():
            self.pipe.foreach_batch(sink, consumer)
        self._run = self.pipe.start(available_now)
        return self._run

    def settle(self) -> None:
        """Until everything has been processed."""
        assert self._run is not None
        self._run.processAllAvailable()

    def stop(self) -> None:
        if self._run is not None:
            self._run.stop()
            self._run = None

    def process(self) -> None:
        """A run that processes all there is, and ends."""
        self.start()
        try:
            self.settle()
        finally:
            self.stop()

    # what is held against it

    def micro_batches(self) -> list[Batch]:
        return micro_batches(self.folder / "ck", self.commits)

    def check(self) -> Delivered:
        """When every micro-batch that was begun has ended."""
        return self.judge.check(self.micro_batches(), self.folder)
