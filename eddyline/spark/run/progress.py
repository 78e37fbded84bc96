"""Progress: figures of every micro-batch, from the reports of its buckets and from Spark's progress events.

The figures of a batch are complete when Spark has reported its duration; then each listener gets them once. Seconds of
parallel work are given as wall time: the minimum that the cores need for it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eddyline.engine.clocks import StreamClock
from eddyline.operators.user_functions import FunctionWarning
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.output.counts import sum_by_number
from eddyline.spark.output.reports import Reports, read_reports
from eddyline.state.delta import MIN

LISTED = 20  # unread files that are named at the end of a run
Listener = Callable[["BatchFigures"], None]


@dataclass(frozen=True)
class BatchSeconds:
    """What the seconds of a micro-batch were spent on."""

    pack: float = 0.0  # checking and routing rows, running stateless families
    process: float = 0.0  # running the other families, and staging their changes
    state: float = 0.0  # restoring buckets from Spark's state, and updating it
    sink: float = 0.0  # delivery
    spark: float = 0.0  # the rest: planning, scheduling, reading sources, shuffling

    @property
    def total(self) -> float:
        return self.pack + self.process + self.state + self.sink + self.spark


@dataclass(frozen=True)
class OfFamily:
    queries: int  # 0 for a view
    changes: int = 0
    state_rows: int = 0  # that no other family reads
    quarantined: int = 0


@dataclass(frozen=True)
class OfStream:
    """The figures of a stream, or of a table with a source."""

    rows: int = 0  # read, including rows set apart
    late: int = 0
    bad: int = 0  # rows, and unreadable files
    watermark: float | None = None  # seconds since 1970; None: no row has arrived, or it is a table


@dataclass(frozen=True)
class BatchFigures:
    batch: int
    ended: float  # seconds since 1970
    version: int  # of the catalog, the last commit that has taken effect
    families: Mapping[str, OfFamily]
    streams: Mapping[str, OfStream]
    split: BatchSeconds
    state_bytes: int = 0
    shared_rows: int = 0  # in logs of streams and in tables, which each bucket has once for all families
    cache_hits: int = 0  # buckets that were found in memory
    cache_misses: int = 0  # buckets that were restored from Spark's state
    backlog: int | None = None  # unread rows at the sources, if known
    first_bad: str = ""  # the problem of the first bad row
    warnings: Sequence[FunctionWarning] = ()  # of functions whose calls failed, one for each
    unread: tuple[str, ...] = ()  # files that could not be read, each with the reason

    @property
    def seconds(self) -> float:
        return self.split.total

    @property
    def rows(self) -> int:
        return sum(s.rows for s in self.streams.values())

    @property
    def late(self) -> int:
        return sum(s.late for s in self.streams.values())

    @property
    def bad(self) -> int:
        return sum(s.bad for s in self.streams.values())

    @property
    def changes(self) -> int:
        return sum(f.changes for f in self.families.values())

    @property
    def queries(self) -> int:
        return sum(f.queries for f in self.families.values())

    @property
    def quarantined(self) -> int:
        return sum(f.quarantined for f in self.families.values())

    @property
    def state_rows(self) -> int:
        """Rows of single families, without `shared_rows`."""
        return sum(f.state_rows for f in self.families.values())

    def lag(self, now: float | None = None) -> float | None:
        """Seconds that the slowest watermark is behind the wall clock, at the end of the batch or now."""
        known = [s.watermark for s in self.streams.values() if s.watermark is not None]
        return (self.ended if now is None else now) - min(known) if known else None


@dataclass
class Totals:
    """Sums over all micro-batches since the pipeline was made."""

    batches: int = 0
    rows: int = 0
    late: int = 0
    bad: int = 0
    unread_files: int = 0
    unread: list[str] = field(default_factory=list)  # the first of them, each with the reason
    changes: int = 0
    seconds: float = 0.0
    cache_hits: int = 0
    cache_misses: int = 0
    families: dict[str, int] = field(default_factory=dict)  # changes of each registered family

    def add(self, f: BatchFigures) -> None:
        self.batches += 1
        for name in ("rows", "late", "bad", "changes", "seconds", "cache_hits", "cache_misses"):
            setattr(self, name, getattr(self, name) + getattr(f, name))
        self.unread_files += len(f.unread)
        self.unread += f.unread[: max(0, LISTED - len(self.unread))]
        self.families = {n: self.families.get(n, 0) + of.changes for n, of in f.families.items()}


class Progress:
    """Collects the figures of a pipeline, from the reports of delivery and from Spark's progress events."""

    def __init__(self, own: Path, pipeline_catalog: PipelineCatalog, cores: int) -> None:
        """`own` is the folder of Eddyline's files in the checkpoint."""
        self.own = own
        self.catalog = pipeline_catalog
        self.cores = cores
        self.latest: BatchFigures | None = None
        self.totals = Totals()
        self.listeners: list[Listener] = []
        self._next: int | None = None  # the first micro-batch whose figures are not complete
        self._lock = threading.RLock()  # Spark's events arrive in another thread; listeners may read figures

    def begin(self, first: int) -> None:
        """Starts a run whose first micro-batch is `first`."""
        with self._lock:
            self._next = first if self._next is None else min(first, self._next)

    def heard(self, event: Mapping[str, Any]) -> None:
        """Processes Spark's StreamingQueryProgress of a micro-batch. Spark sends them in order."""
        batch = event["batchId"]
        with self._lock:
            if self._next is None or batch < self._next or read_reports(self.own, batch) is None:
                return
            self.catalog.catch_up()
            for reports in (read_reports(self.own, b) for b in range(self._next, batch + 1)):
                if reports is not None:
                    batch_figures = figures(reports, self.catalog, self.cores)
                    self._close(completed(batch_figures, event) if batch_figures.batch == batch else batch_figures)
            self._next = batch + 1

    def _close(self, batch_figures: BatchFigures) -> None:
        self.latest = batch_figures
        self.totals.add(batch_figures)
        for listener in list(self.listeners):
            try:
                listener(batch_figures)
            except Exception:  # a listener must not stop the pipeline
                logging.getLogger("eddyline").exception("A listener failed.")


def figures(batch_reports: Reports, pipeline_catalog: PipelineCatalog, cores: int) -> BatchFigures:
    """The figures of a micro-batch from the reports of all buckets."""
    reports = batch_reports.buckets
    packed = [p for r in reports for p in r["packed"]]
    unread = [(name, texts) for r in reports for name, texts in r.get("bad_files", {}).items()]
    files = [{"relation": n, "rows": 0, "late": 0, "bad": len(texts), "first_bad": texts[0]} for n, texts in unread]
    split = BatchSeconds(
        pack=spread((p["seconds"] for p in packed), cores),
        process=spread((r["step_seconds"] + r["stage_seconds"] for r in reports), cores),
        state=spread((r["restore_seconds"] + r["state_seconds"] for r in reports), cores),
        sink=batch_reports.seconds,
    )
    return BatchFigures(
        batch=batch_reports.batch,
        unread=tuple(why for _, texts in unread for why in texts),
        ended=batch_reports.ended,
        version=min(r["version"] for r in reports),
        families=_families(pipeline_catalog, reports, packed),
        streams=_streams(pipeline_catalog, reports[0]["clocks"], [*packed, *files]),
        split=split,
        state_bytes=sum(r["state_bytes"] for r in reports),
        shared_rows=sum(r.get("shared_rows", 0) for r in reports),  # reports of earlier versions do not have it
        cache_hits=sum(r["cache"] == "hit" for r in reports),
        cache_misses=sum(r["cache"] == "miss" for r in reports),
        first_bad=next((p["first_bad"] for p in (*packed, *files) if p["first_bad"]), ""),
        warnings=_warnings([*reports, *packed]),
    )


def completed(partial: BatchFigures, event: Mapping[str, Any]) -> BatchFigures:
    """The figures completed by Spark's progress of the same micro-batch."""
    rest = event["durationMs"]["triggerExecution"] / 1000 - partial.split.total
    return replace(partial, split=replace(partial.split, spark=max(0.0, rest)), backlog=backlog(event))


def spread(seconds: Iterable[float], cores: int) -> float:
    """The minimum wall time in which `cores` can run tasks of these lengths."""
    tasks = list(seconds)
    return max(sum(tasks) / max(1, cores), max(tasks, default=0.0))


def backlog(event: Mapping[str, Any]) -> int | None:
    """Rows that sources have after the micro-batch; None if no source has offsets per partition."""
    rows = None
    for source in event.get("sources", ()):
        end, latest = source.get("endOffset"), source.get("latestOffset")
        if not isinstance(end, dict) or not isinstance(latest, dict):
            continue
        for topic, partitions in latest.items():
            read = end.get(topic)
            if isinstance(partitions, dict) and isinstance(read, dict):
                rows = (rows or 0) + sum(max(0, at - read.get(n, at)) for n, at in partitions.items())
    return rows


def _families(
    pipeline_catalog: PipelineCatalog, reports: Sequence[Mapping[str, Any]], packed: Sequence[Mapping[str, Any]]
) -> dict[str, OfFamily]:
    changes = sum_by_number(r["matches"] for r in (*reports, *packed))
    state = sum_by_number(r["state_rows"] for r in reports)
    with pipeline_catalog.guard:
        out = {number: len(queries) for number, queries in pipeline_catalog.quarantined.items()}
        registered = {f.number: (f.name, 0 if f.kind == "view" else len(f.queries)) for f in pipeline_catalog.registry}
    return {
        name: OfFamily(queries, changes.get(n, 0), state.get(n, 0), out.get(n, 0))
        for n, (name, queries) in registered.items()
    }


def _warnings(reports: Sequence[Mapping[str, Any]]) -> tuple[FunctionWarning, ...]:
    """One warning per function, summed over all reports."""
    warnings: dict[str, FunctionWarning] = {}
    for warning in (w for r in reports for w in r.get("functions", ())):
        first = warnings.get(warning["function"], FunctionWarning(**warning | {"rows": 0}))
        warnings[warning["function"]] = replace(first, rows=first.rows + warning["rows"])
    return tuple(warnings.values())


def _streams(
    pipeline_catalog: PipelineCatalog, clocks: Mapping[str, Mapping[str, int]], packed: Sequence[Mapping[str, Any]]
) -> dict[str, OfStream]:
    streams: dict[str, OfStream] = {}
    with pipeline_catalog.guard:
        for stream in pipeline_catalog.catalog.streams:
            watermark = StreamClock(stream.delay, **clocks.get(stream.name.lower(), {})).watermark
            streams[stream.name.lower()] = OfStream(watermark=None if watermark == MIN else watermark / 1e6)
    for p in packed:
        name = p["relation"].lower()
        if name:
            before = streams.get(name, OfStream())
            sums = {n: getattr(before, n) + p[n] for n in ("rows", "late", "bad")}
            streams[name] = replace(before, **sums)
    return streams
