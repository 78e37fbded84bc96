"""Delivery: the function of Spark's `foreachBatch`; it runs when all buckets have reported a micro-batch.

It commits staged files sink by sink, puts failed queries into quarantine, and writes the clocks for the next
micro-batch. Delivery is idempotent: a retry writes the same files, and rows sent elsewhere carry (batch, position), so
that consumers can recognize repeats.

Spark calls it in the driver's process or, over Spark Connect, in a process beside the server. There it is rebuilt from
pickled settings, the epoch of the run, the declarations of sources, and users' functions. It reads the catalog from its
log, and reports through files of the checkpoint (`reports.py`, `counts.py`).
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from eddyline.delivery.compaction import compact, end_compaction, limit_size
from eddyline.delivery.marks import STAGED, Epoch, write_mark
from eddyline.delivery.sinks.file_sink import FileSink, compact_after
from eddyline.delivery.sinks.parquet import PARQUET
from eddyline.errors import CatalogError, Error, StateError
from eddyline.spark.catalog import amendments
from eddyline.spark.catalog.externals import owner_of
from eddyline.spark.catalog.overlaps import require_apart
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.catalog.references import resolved
from eddyline.spark.input.bad_files import report_bad_files
from eddyline.spark.input.seen import Seen, read_seen, seen_file
from eddyline.spark.output.counts import write_counts
from eddyline.spark.output.dropped_sinks import delivery_error, keep_undelivered
from eddyline.spark.output.epochs import begin_epoch, is_last
from eddyline.spark.output.outputs import DEAD_LETTER, Staged, commit_files, remove_files
from eddyline.spark.output.places import claim, file_path, place_of, require_claimed
from eddyline.spark.output.reports import write_reports
from eddyline.spark.output.sending import Consumer, Sending
from eddyline.spark.output.sinks import kind_of, require_function
from eddyline.spark.run.disk import writing
from eddyline.spark.run.private import locked, open_private
from eddyline.spark.run.settings import Settings, write_whole
from eddyline.spark.run.spark_errors import interrupted_briefly, is_interruption
from eddyline.spark.run.spark_files import sync_plan
from eddyline.spark.run.stages import as_batch
from eddyline.sql.catalog import Catalog, Sink, Stream, Table
from eddyline.sql.declared import declared
from eddyline.sql.parser import parse

KEPT = 100  # past micro-batches whose clocks are kept, as many as Spark keeps offsets
TRIM_EVERY = 16  # micro-batches
COMPACT_EVERY = 100  # micro-batches, for dead-letter tables
log = logging.getLogger("eddyline")


class Delivery:
    def __init__(self, settings: Settings, pipeline_catalog: PipelineCatalog) -> None:
        self.settings = settings
        self.pipeline_catalog = pipeline_catalog
        self.consumers: dict[str, Consumer] = {}  # by sink USING foreach_batch
        self.relations: list[Stream | Table | None] = []  # in the order of Spark's sources
        self.seen = read_seen(seen_file(settings.own)) or Seen(settings.buckets)
        self._needed: tuple[int, int] | None = None  # (batch, oldest catalog version that its state needs)
        self._claimed: set[str] = set()  # texts of the sinks whose folders this run has claimed
        self._retry = True  # whether the next batch may be a retry
        self._epoch: Epoch | None = None  # of the run
        self._syncing = ThreadPoolExecutor(1, "eddyline-sync")
        self._delivered: list[Sink] = []  # file sinks that already have the micro-batch
        self._spark: SparkSession | None = None  # of the micro-batch, if Spark called

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.settings, self.epoch, self.relations, self.consumers)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Delivers a micro-batch, given its reports. A failure is recorded at once, because the process may exit before
        Spark reports the end of the run."""
        with interrupted_briefly():
            try:
                self._spark = frame.sparkSession
                with as_batch(frame.sparkSession, batch):
                    reports = [json.loads(r.report) for r in frame.collect()]
                self.commit(batch, reports)
            except Exception as e:
                if not is_interruption(e):
                    amendments.note_failure(self.settings, str(e))
                raise

    def check(self) -> None:
        """Raises if a sink cannot be delivered to."""
        catalog, rules = self.pipeline_catalog.catalog, self.pipeline_catalog.rules
        for sink in catalog.sinks:
            try:
                require_function(sink, self.consumers)
                rules.check(sink)
                kind_of(sink).check(sink, resolved(sink.external.options, owner_of(sink)))
            except CatalogError as e:
                e.hint = f"{e.hint or ''} Or give it up (DROP SINK {sink.name}; by `eddyline query add`).".strip()
                raise
        sources = [*catalog.streams, *catalog.tables]
        for source in sources:
            rules.check(source)
        require_apart([*sources, *catalog.sinks], Path(self.settings.checkpoint), self.settings.base)

    @property
    def epoch(self) -> Epoch:
        assert self._epoch is not None, "a run has begun"
        return self._epoch

    def begin(self) -> None:
        """Starts a run with a new epoch; from now on, earlier runs cannot deliver."""
        with self._lock():
            self._epoch = begin_epoch(Path(self.settings.checkpoint), self.settings.base)

    def prepare(self) -> None:
        """Claims the folders of all sinks, and removes staged files."""
        self._claimed.clear()
        self.claim(self.pipeline_catalog.catalog.sinks)
        for place in self._places(self.pipeline_catalog.catalog.sinks):
            end_compaction(place)
        self.sweep()

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Allows one delivery at a time: over Spark Connect, a stopped run may still be delivering."""
        file = self.settings.own / "delivery.lock"
        with writing(f"The checkpoint {self.settings.checkpoint!r}"):
            file.parent.mkdir(parents=True, exist_ok=True)
            handle = open_private(file, os.O_RDWR)
        with locked(handle, file):
            yield

    def claim(self, sinks: Iterable[Sink]) -> None:
        """Marks the folders of sinks as claimed by this run, once per run."""
        for sink in (s for s in sinks if s.sql not in self._claimed):
            claim(sink, self.settings, self.epoch)
            self._claimed.add(sink.sql)

    def sweep(self) -> None:
        """Removes the staged files of interrupted attempts; no task may be running."""
        self._retry = True
        for place in self._places(self.pipeline_catalog.catalog.sinks):
            shutil.rmtree(place / STAGED, ignore_errors=True)

    def _places(self, sinks: Iterable[Sink]) -> list[Path]:
        return [self.settings.own / "dead_letter", *(place_of(s, self.settings) for s in sinks)]

    def _sinks_of(self, staged: Sequence[Staged]) -> dict[str, Sink]:
        """The current sinks, in their order, and those of the batch that were dropped since; by their text."""
        sinks: dict[str, Sink] = {s.sql: s for s in self.pipeline_catalog.catalog.sinks}
        for text in sorted({s.declared for s in staged if s.sink != DEAD_LETTER} - sinks.keys()):
            dropped = declared(parse(text)[0].body, Catalog())
            assert isinstance(dropped, Sink)
            sinks[text] = dropped
        return sinks

    def commit(self, batch: int, reports: Sequence[dict[str, Any]]) -> None:
        started = time.perf_counter()
        if len(reports) != self.settings.buckets:
            raise StateError(f"Micro-batch {batch} has reports of {len(reports)} of {self.settings.buckets} buckets.")
        with self._lock():
            if not is_last(Path(self.settings.checkpoint), self.epoch):
                raise StateError(f"Another run has begun on the checkpoint {self.settings.checkpoint!r}.")
            self._commit(batch, reports)
            write_reports(self.settings.own, batch, reports, time.perf_counter() - started)

    def _commit(self, batch: int, reports: Sequence[dict[str, Any]]) -> None:
        self.pipeline_catalog.catch_up()  # others may have declared the sinks of this batch
        plan_synced = self._syncing.submit(self._sync_plan, batch)
        packed = [p for r in reports for p in r["packed"]]
        staged = [Staged(**s) for r in (*reports, *packed) for s in r["staged"]]
        sinks = self._sinks_of(staged)
        self._require_claimed()
        if self._retry:
            remove_files(self.settings.own / "dead_letter", batch)
        dead = [s for s in staged if s.sink == DEAD_LETTER]
        commit_files(self.settings.own / "dead_letter", dead, batch, PARQUET.suffix, self.settings.durability)
        reports[0]["bad_files"] = report_bad_files(self.settings, self.relations, packed, batch)
        for text, sink in sinks.items():
            self._deliver_or_keep(sink, [s for s in staged if s.declared == text], batch)
        plan_synced.result()
        self._announce(batch)
        self._compact(batch)
        self._write_clocks(batch, reports[0]["clocks"])
        write_counts(self.settings.own, batch, reports, {f.number for f in self.pipeline_catalog.registry})
        self.seen.take(packed, seen_file(self.settings.own))
        for failure in (f for r in (*reports, *packed) for f in r["failures"]):
            self.pipeline_catalog.quarantine(failure["family"], failure["queries"], failure["error"])
        self._trim(batch, reports)
        self._retry = False

    def _deliver_or_keep(self, sink: Sink, staged: Sequence[Staged], batch: int) -> None:
        """Delivers to a sink. If that fails the run stops, unless the sink was dropped: then its rows are kept."""
        try:
            self._deliver(sink, staged, batch)
        except Exception as e:
            if is_interruption(e):
                raise
            self.pipeline_catalog.catch_up()
            if sink.sql in {s.sql for s in self.pipeline_catalog.catalog.sinks}:
                raise delivery_error(sink, batch, e) from e
            place = keep_undelivered(self.settings, sink, staged, batch)
            log.warning("Rows for the sink %r, which was dropped, are kept in %s: %s", sink.name, place, e)

    def _deliver(self, sink: Sink, staged: Sequence[Staged], batch: int) -> None:
        kind = kind_of(sink)
        if isinstance(kind, FileSink):
            self.claim([sink])  # `_require_claimed` does not claim a sink that was dropped since
            place = place_of(sink, self.settings)
            committed = commit_files(place, staged, batch, kind.suffix, self.settings.durability)
            if self._retry:
                # Files of an earlier attempt with the same names were replaced by the same rows: only others are left.
                remove_files(place, batch, committed)
            self._delivered.append(sink)
            return
        for folder in sorted({s.folder for s in staged}):
            files = [s.file for s in sorted(staged, key=lambda s: (s.writer, s.part)) if s.folder == folder]
            options = resolved(sink.external.options, owner_of(sink))
            consumer = self.consumers.get(sink.name.lower())
            kind.send(Sending(sink, folder, files, batch, options, self.epoch.id, self._spark, consumer))
        for s in staged:
            Path(s.file).unlink(missing_ok=True)

    def _sync_plan(self, batch: int) -> None:
        if self.settings.durability == "fsync":
            sync_plan(Path(self.settings.checkpoint), batch)

    def _require_claimed(self) -> None:
        """Raises, before any file is moved, if another run has claimed the folder of a sink."""
        self._delivered.clear()
        sinks = [s for s in self.pipeline_catalog.catalog.sinks if file_path(s, self.settings.base) is not None]
        self.claim(sinks)  # some may have been declared during the run
        for sink in sinks:
            require_claimed(sink, self.settings, self.epoch)

    def _announce(self, batch: int) -> None:
        """Marks sinks as complete up to a batch, for readers: all rows of all families have been committed."""
        for sink in self._delivered:
            mark = require_claimed(sink, self.settings, self.epoch)  # another run may have claimed it meanwhile
            if mark.complete < batch:
                write_mark(place_of(sink, self.settings), replace(mark, complete=batch), self.settings.durability)

    def _compact(self, batch: int) -> None:
        """Merges files of old micro-batches. If that fails, the run continues, and the next compaction completes it."""
        wanted = [(place_of(s, self.settings), compact_after(s)) for s in self._delivered]
        for place, every in (*wanted, (self.settings.own / "dead_letter", COMPACT_EVERY)):
            if every is None or batch % every or not place.is_dir():
                continue
            try:
                compact(place, batch - every)  # Spark may retry this batch, and none before it
            except (Error, OSError, pa.ArrowException) as e:
                log.warning("The files in %s could not be compacted: %s", place, e)
        if batch % COMPACT_EVERY == 0 and self.settings.dead_letter_limit is not None:
            limit_size(self.settings.own / "dead_letter", self.settings.dead_letter_limit, batch)

    def _write_clocks(self, batch: int, clocks: dict[str, Any]) -> None:
        write_whole(self.settings.clocks_file(batch), json.dumps(clocks), self.settings.durability)
        self.settings.clocks_file(batch - KEPT).unlink(missing_ok=True)
        amendments.forget(self.settings, batch)

    def _trim(self, batch: int, reports: Sequence[dict[str, Any]]) -> None:
        """Removes commits that no bucket needs to restore its state.

        Spark may still retry this batch, from the state after the batch before it.
        """
        if self._needed is not None and self._needed[0] == batch - 1 and batch % TRIM_EVERY == 0:
            with self.pipeline_catalog.log.lock("skip") as held:  # a later batch trims instead
                if held:
                    self.pipeline_catalog.log.trim(self._needed[1])
        self._needed = batch, min(r["snapshot_version"] for r in reports)


def _rebuilt(
    settings: Settings, epoch: Epoch, relations: list[Stream | Table | None], consumers: dict[str, Consumer]
) -> Delivery:
    """Rebuilds the delivery of a run in a process other than the driver."""
    Thread(target=_exit_with_server, daemon=True).start()
    delivery = Delivery(settings, PipelineCatalog(settings.log()))
    delivery._epoch, delivery.relations, delivery.consumers = epoch, relations, consumers
    return delivery


def _exit_with_server() -> None:
    """Exits when the parent, Spark's server, has exited: calls to it would be retried for minutes, while the next run
    waits for the lock of delivery."""
    server = os.getppid()
    while os.getppid() == server:
        time.sleep(0.5)
    os._exit(1)
