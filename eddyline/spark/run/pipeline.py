"""A pipeline: one Spark streaming query that runs all registered queries.

`_plan` builds Spark's plan: sources and the control source → pack → process → reports; `delivery.py` reads the reports
of a micro-batch and commits the staged files.
"""

from __future__ import annotations

import atexit
import logging
import os
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial, reduce
from pathlib import Path
from typing import Any, Literal

from pyspark import cloudpickle
from pyspark.errors import IllegalArgumentException, PySparkValueError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from eddyline.errors import CatalogError, DataError, StateError
from eddyline.operators.user_functions import FunctionKind
from eddyline.spark.catalog import amendments
from eddyline.spark.catalog.externals import Rules
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.catalog.trust import checkpoint_key
from eddyline.spark.input import control
from eddyline.spark.input.listing import lists_files
from eddyline.spark.input.sources import has_format, listed, register, source
from eddyline.spark.input.static_tables import copied
from eddyline.spark.output.delivery import Delivery
from eddyline.spark.output.dropped_sinks import retract
from eddyline.spark.output.sending import Consumer
from eddyline.spark.run.checkpoint import Alone, Fixed, begin, check_catalog, fixed, folder_of, script_text
from eddyline.spark.run.listener import ProgressListener, Watch
from eddyline.spark.run.pipeline_run import PipelineRun
from eddyline.spark.run.progress import BatchFigures, Listener, Progress
from eddyline.spark.run.settings import Settings, fix_sources
from eddyline.spark.run.spark_errors import ConnectionLost, error_in, is_interruption, reaching_spark
from eddyline.spark.run.spark_files import relocate
from eddyline.spark.run.spark_session import ONE_POOL, cores, is_local, use_own_python
from eddyline.spark.run.stages import PACKED, REPORTS, Process, pack
from eddyline.spark.worker.keys import bucket_keys
from eddyline.sql.catalog import Stream

CONF = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Output that is packed again after the loss of a machine has the same rows, but reports with other times and file
    # names. Spark would treat it as different, and fail if a bucket has already ended.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    "spark.sql.session.timeZone": "UTC",
    ONE_POOL: "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
}


log = logging.getLogger("eddyline")
_NO_SINK = (
    "No sink is declared: changes are computed and discarded. Declare one, also while it runs:"
    " CREATE SINK out USING parquet OPTIONS (path '…')."
)
_NO_STREAM = "Declare one in its script: CREATE STREAM … WATERMARK … USING parquet OPTIONS (path '…')."
_CHOICES: dict[str, tuple[str | None, ...]] = {
    "clock": (None, "min", "max"),
    "on_bad_rows": ("set apart", "stop"),
    "on_error": ("quarantine", "null"),
    "durability": ("fsync", "none"),
}


class Pipeline:
    def __init__(
        self,
        spark: SparkSession,
        script: str | Path,
        checkpoint: str | Path,
        *,
        sources: Mapping[str, DataFrame] | None = None,
        buckets: int | None = None,
        clock: Literal["min", "max"] | None = None,
        on_bad_rows: Literal["set apart", "stop"] = "set apart",
        on_error: Literal["quarantine", "null"] = "quarantine",
        durability: Literal["fsync", "none"] = "fsync",
        dead_letter_limit: int | None = None,
        allow_functions: bool = False,
        allow_options: Sequence[str] = (),
    ) -> None:
        """`script` is a file of SQL. `sources` gives DataFrames for streams or tables that declare no source.

        `buckets`, the parts that state is split into (by default the cores of the cluster), and `clock` ('min' by
        default) are fixed by the first run. `on_bad_rows`: rows that cannot be read go to the dead-letter table, or
        stop the run. `on_error`: a query whose function raises or whose arithmetic overflows goes into quarantine, or
        continues with NULL. `durability`: files of sinks are synced to disk before they are published, or that is left
        to the operating system, which may lose the last published files when power fails. `dead_letter_limit`: bytes
        that the rows set apart of a stream or table may take before the oldest are removed; by default all are kept.
        `allow_functions` approves the functions that the checkpoint has from other users, programs or versions: their
        code is then run as yours. `allow_options` names options of sources and sinks that may load a library, a class
        or a command. It has so many parameters because each is a choice of the user; all but three are keywords.
        """
        if dead_letter_limit is not None and dead_letter_limit < 0:
            raise DataError(f"dead_letter_limit is a number of bytes, not {dead_letter_limit}.")
        _check(buckets=buckets, clock=clock, on_bad_rows=on_bad_rows, on_error=on_error, durability=durability)
        text = script_text(script)
        use_own_python(spark)
        self.spark = spark.newSession()
        self.remote = is_remote()  # Spark is reached over Spark Connect
        atexit.register(_stop, weakref.ref(self))
        self.sources = {name.lower(): frame for name, frame in (sources or {}).items()}
        folder = folder_of(checkpoint)
        begun = _begun(spark, folder, buckets, clock)
        self.settings = Settings(
            str(folder),
            begun.buckets,
            begun.clock,
            os.getcwd(),
            on_bad_rows,
            on_error,
            begun.identity,
            durability,
            dead_letter_limit,
            key=_key(begun.identity),
        )
        check_catalog(folder, self.settings.log())
        rules = Rules("operator", tuple(allow_options), partial(has_format, self.spark), self.settings.own)
        self.catalog = PipelineCatalog(self.settings.log(), rules)
        self.catalog.given |= self.sources.keys()
        self.catalog.run_script(text)
        self.delivery = Delivery(self.settings, self.catalog)
        self.progress = Progress(self.settings.own, self.catalog, _cores(spark))
        self._unapproved: Literal["refuse", "approve"] = "approve" if allow_functions else "refuse"
        self._run: PipelineRun | None = None  # the last
        self._alone = Alone(folder, lambda: self._run is not None and self._run.isActive)

    # queries

    def execute(self, sql: str) -> Any:
        """Runs a statement or a script; what it changes takes effect at the next micro-batch. A query that is dropped
        before that is never started."""
        return self.catalog.execute(sql)

    def register(self, family: str, table: Any) -> None:
        """Adds one query per row: column `query` is its name, the others its parameters."""
        self.catalog.register(family, table)

    def drop(self, family: str, names: Sequence[str]) -> None:
        self.catalog.drop(family, names)

    def function(self, name: str, body: Any, takes: Sequence[str], gives: str, kind: FunctionKind = "scalar") -> None:
        """Registers a Python function for use in queries; it is pickled and kept with the catalog. Its kinds are those
        of `Connection.function`."""
        self.catalog.function(name, body, takes, gives, kind)

    def resume(self, name: str) -> int:
        """Restarts a quarantined query, or all quarantined queries of a family; returns their number."""
        return self.catalog.resume(name)

    def foreach_batch(self, target: str, consumer: Consumer) -> None:
        """Calls `consumer(DataFrame, batch)` with the changes of every micro-batch that has some.

        `target` is a sink declared USING foreach_batch, or a query or family for which such a sink is made. Over Spark
        Connect the function is pickled when a run starts, and called in a process beside the server.
        """
        if self.remote:
            self._require_sendable(target, consumer)
        sink = self.catalog.catalog.sinks.get(target)
        name = f"foreach_batch_{target}" if sink is None else sink.name
        self.delivery.consumers[name.lower()] = consumer  # before the sink: micro-batches may be running
        self.catalog.served.add(name.lower())
        if self.catalog.catalog.sinks.get(name) is None:
            self.catalog.execute(f"CREATE SINK `{name}` USING foreach_batch FOR `{target}`")

    def _require_sendable(self, target: str, consumer: Consumer) -> None:
        if self._run is not None and self._run.isActive:
            raise CatalogError(
                f"The function for {target!r} comes too late: over Spark Connect it is sent when a run starts.",
                hint="Stop the run, give it the function, and start it again.",
            )
        try:
            cloudpickle.dumps(consumer)  # type: ignore[no-untyped-call]
        except Exception as e:
            raise DataError(
                f"The function for {target!r} cannot be pickled, and so not be sent to Spark's server: {e}.",
                hint="Let it open or make what it needs when it is called; `rows.sparkSession` is its session.",
            ) from None

    # observing

    def figures(self) -> BatchFigures | None:
        """The figures of the last completed micro-batch; None before the first."""
        return self._run.figures() if self._run is not None else None

    def listen(self, listener: Listener) -> None:
        """Calls `listener(figures)` after every micro-batch."""
        self.progress.listeners.append(listener)

    def serve_metrics(self, port: int, address: str = "127.0.0.1") -> int:
        """Serves the figures to Prometheus at http://address:port/metrics; 0 takes a free port. Returns it."""
        from eddyline.spark.run.metrics import serve

        return serve(self.progress, port, address)

    # running

    def start(self, available_now: bool = False, trigger: str | None = None) -> PipelineRun:
        """Runs until stopped, or with `available_now` until all available input has been processed."""
        if available_now and trigger is not None:
            raise DataError("A run has a trigger, or takes what is available now, not both.")
        self._alone.__enter__()  # until Spark reports the end of the run
        try:
            with reaching_spark():
                self._run = self._started(available_now, trigger)
        except BaseException:
            self._alone.__exit__()
            raise
        if self.remote:
            Watch(self._run.query, self.progress, self._ended).start()
        return self._run

    def _started(self, available_now: bool, trigger: str | None) -> PipelineRun:
        self.catalog.require_approved(self._unapproved)
        self.delivery.check()
        if not len(self.catalog.catalog.sinks):
            log.warning(_NO_SINK)
        if self._run is None:
            ConnectionLost.install()
            if not self.remote:
                self.spark.streams.addListener(ProgressListener(self.progress, self._ended))
        for key, value in (CONF | self._own_conf()).items():
            self.spark.conf.set(key, value)
        plan = self._plan()
        self.delivery.begin()
        self._amend()
        relocate(Path(self.settings.checkpoint))
        self.delivery.prepare()
        self.progress.begin(self.delivery.epoch.first)
        writer = plan.writeStream.foreachBatch(self.delivery)
        writer = writer.option("checkpointLocation", self.settings.checkpoint).queryName("eddyline")
        if available_now:
            writer = writer.trigger(availableNow=True)
        try:
            if trigger is not None:
                writer = writer.trigger(processingTime=trigger)
            query = writer.start()
        except (IllegalArgumentException, PySparkValueError):
            if trigger is None:
                raise
            raise DataError(f"The trigger {trigger!r} is no interval.", hint="Write it as '10 seconds'.") from None
        return PipelineRun(query, self.progress)

    def _amend(self) -> None:
        """Amends a micro-batch that has failed, so that later drops take effect in it."""
        batch = amendments.unfinished(Path(self.settings.checkpoint))
        if batch is None:
            return
        failure = None if self._run is None else self._run.error()  # Spark may not have reported it yet
        if failure is not None:
            amendments.note_failure(self.settings, failure.message)
        before = amendments.commit_of(Path(self.settings.checkpoint), batch)
        self.catalog.catch_up()
        amendment = amendments.amend(self.settings, self.catalog.version)
        if amendment is not None:
            retract(self.settings, batch, before, self.catalog.catalog.sinks)
            log.warning(
                "Micro-batch %d, which failed, is done again with commit %d of the catalog in place of %d.",
                batch, amendment.commit, before,
            )  # fmt: skip

    def _ended(self, run: str, error: str) -> None:
        if self._run is not None and self._run.runId == run:
            if error and not is_interruption(error):
                amendments.note_failure(self.settings, error_in(error).message)
            self._alone.__exit__()
            self._run.ended.set()

    def _own_conf(self) -> dict[str, str]:
        skip = "true" if self.settings.on_bad_rows == "set apart" else "false"
        return {
            "spark.sql.shuffle.partitions": str(self.settings.buckets),
            # A replay assigns files to the same source partitions, also with another number of cores.
            "spark.sql.files.minPartitionNum": str(self.settings.buckets),
            "spark.sql.files.ignoreCorruptFiles": skip,  # they are reported: see `bad_files`
        }

    def _plan(self) -> DataFrame:
        keys = bucket_keys(self.settings.buckets)
        control_source = register(self.spark, control.ControlSource)
        reader = self.spark.readStream.format(control_source).option("path", str(self.settings.log().path))
        frames = [("", reader.option("tick", str(self._tick())).load())]
        self.delivery.relations = [None]
        files: set[str] = set()  # sources whose files Spark only lists
        for relation in [*self.catalog.catalog.tables, *self.catalog.catalog.streams]:
            key = relation.name.lower()
            if relation.external is not None or key in self.sources or isinstance(relation, Stream):
                given = self.sources.get(key)
                if given is not None and not given.isStreaming:
                    path = copied(self.settings, relation, given)
                    frames.append((key, listed(self.spark, relation, {"path": path})))
                    files.add(key)
                else:
                    frames.append((key, source(self.spark, relation, given)))
                    files |= {key} if given is None and lists_files(relation) else set()
                self.delivery.relations.append(relation if given is None else None)
        if len(frames) == 1:
            raise CatalogError("The pipeline has no stream.", hint=_NO_STREAM)
        fix_sources(self.settings, [name for name, _ in frames])
        packed = []
        for i, (name, frame) in enumerate(frames):
            stage = pack(self.settings, keys, i, name, "files" if name in files else "rows")
            packed.append(frame.mapInArrow(stage, PACKED))
        united = reduce(lambda some, more: some.unionAll(more), packed)
        process = Process(self.settings, keys)
        return united.groupBy("bucket").transformWithState(process, REPORTS, "append", "none")

    def _tick(self) -> int:
        """Milliseconds between polls of the wall clock: half the shortest idle limit of a stream; 0: there is none."""
        limits = [s.idle // 2000 for s in self.catalog.catalog.streams if s.idle is not None]
        return max(100, min(limits)) if limits else 0


def _stop(pipeline_ref: weakref.ref[Pipeline]) -> None:
    """Stops an active run when the program exits, before Spark stops.

    Over Spark Connect, retries are disabled: for a server that has exited, Spark's client would retry for minutes.
    """
    pipeline = pipeline_ref()
    if pipeline is None:
        return
    with suppress(Exception):
        if pipeline.remote:
            pipeline.spark.client.set_retry_policies([])
        if pipeline._run is not None:
            pipeline._run.stop()
    if pipeline.remote:
        pipeline.spark.client.close()


def _check(buckets: int | None, **chosen: str | None) -> None:
    if buckets is not None and buckets < 1:
        raise DataError(f"A pipeline has at least one bucket, not {buckets}.", hint="By default it has one per core.")
    for name, value in chosen.items():
        if value not in _CHOICES[name]:
            known = " or ".join(repr(c) for c in _CHOICES[name] if c is not None)
            raise DataError(f"{name} is {known}, not {value!r}.")


def _begun(spark: SparkSession, folder: Path, buckets: int | None, clock: Literal["min", "max"] | None) -> Fixed:
    """The fixed properties of the checkpoint; a new checkpoint is created with those given."""
    known = fixed(folder)
    if known is None:
        parts = buckets or int(spark.conf.get("spark.default.parallelism", None) or _cores(spark))
        known = Fixed(parts, clock or "min")
        begin(folder, known)
    for name, wanted, has in (("buckets", buckets, known.buckets), ("clock", clock, known.clock)):
        if wanted is not None and wanted != has:
            raise StateError(
                f"The checkpoint {str(folder)!r} was begun with {name} = {has!r}, not {wanted!r}.",
                hint="Go on with that, or begin another checkpoint.",
            )
    return known


def _key(identity: str) -> bytes:
    """The key by which executors verify approvals; empty if it cannot be stored: defining a function raises then."""
    try:
        return checkpoint_key(identity, create=True) or b""
    except StateError:
        return b""


def _cores(spark: SparkSession) -> int:
    """The number of tasks that can run at once, as far as Spark exposes it."""
    master = spark.conf.get("spark.master", None) or ""
    if is_local(master):
        return cores(master)
    return max(1, spark.range(4096).select(F.spark_partition_id().alias("part")).distinct().count())
