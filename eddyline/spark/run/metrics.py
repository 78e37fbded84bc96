"""The figures of a pipeline for Prometheus, served over HTTP.

Families are labels, and there may be very many: the first `LABELS` families have one each, all others share `other`. A
removed family frees its label.
"""

from __future__ import annotations

import math
import time
from dataclasses import fields
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from eddyline.errors import StateError
from eddyline.spark.run.progress import BatchFigures, OfFamily, Progress

LABELS = 100
OTHER = "other"


class Metrics:
    """Counts from its creation on; `take` is a listener of the pipeline's progress."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.batches = self._counter("batches", "Micro-batches that have ended.")
        self.seconds = self._counter("batch_seconds", "Seconds of micro-batches, by what they were spent on.", "part")
        self.rows = self._counter("rows", "Rows that were read, with those that were set apart.", "stream")
        self.late = self._counter("late_rows", "Rows that were late.", "stream")
        self.bad = self._counter("bad_rows", "Rows that could not be read.", "stream")
        self.changes = self._counter("changes", "Changes of answers.", "family")
        self.hits = self._counter("cache_hits", "Buckets that were found in memory.")
        self.misses = self._counter("cache_misses", "Buckets that were restored from Spark's state.")
        self.queries = self._gauge("queries", "Standing queries.", "family")
        self.quarantined = self._gauge("quarantined_queries", "Queries in quarantine.", "family")
        self.state_rows = self._gauge("state_rows", "Rows of state that only this family has.", "family")
        self.shared_rows = self._gauge("shared_rows", "Rows of state in logs and tables, which families share.")
        self.state_bytes = self._gauge("state_bytes", "Bytes of state in Spark's state store.")
        self.lag = self._gauge("lag_seconds", "How far the watermark is behind the wall clock.", "stream")
        self.backlog = self._gauge("backlog_rows", "Unread rows at the sources that report them.")
        self.backlog.set(math.nan)  # until a source reports it
        self.version = self._gauge("catalog_version", "The last commit of the catalog that has taken effect.")
        self.ended = self._gauge("last_batch_timestamp_seconds", "When the last micro-batch ended.")
        self._own: set[str] = set()  # families that have a label

    def _counter(self, name: str, help_: str, *labels: str) -> Counter:
        return Counter(f"eddyline_{name}", help_, labels, registry=self.registry)

    def _gauge(self, name: str, help_: str, *labels: str) -> Gauge:
        return Gauge(f"eddyline_{name}", help_, labels, registry=self.registry)

    def take(self, f: BatchFigures) -> None:
        self.batches.inc()
        for part, seconds in vars(f.split).items():
            self.seconds.labels(part).inc(seconds)
        self.hits.inc(f.cache_hits)
        self.misses.inc(f.cache_misses)
        for name, s in f.streams.items():
            self.rows.labels(name).inc(s.rows)
            self.late.labels(name).inc(s.late)
            self.bad.labels(name).inc(s.bad)
            if s.watermark is not None:
                self.lag.labels(name).set_function(partial(_since, s.watermark))
        self._families(f)
        self.shared_rows.set(f.shared_rows)
        self.state_bytes.set(f.state_bytes)
        if f.backlog is not None:
            self.backlog.set(f.backlog)
        self.version.set(f.version)
        self.ended.set(f.ended)

    def _families(self, f: BatchFigures) -> None:
        for removed in self._own - f.families.keys():
            self._own.remove(removed)
            for metric in (self.changes, self.queries, self.quarantined, self.state_rows):
                metric.remove(removed)
        sums: dict[str, OfFamily] = {}
        for name, of in f.families.items():
            if len(self._own) < LABELS:
                self._own.add(name)
            label = name if name in self._own else OTHER
            sums[label] = _plus(sums[label], of) if label in sums else of
        for label, of in sums.items():
            self.changes.labels(label).inc(of.changes)
            self.queries.labels(label).set(of.queries)
            self.quarantined.labels(label).set(of.quarantined)
            self.state_rows.labels(label).set(of.state_rows)


def _plus(a: OfFamily, b: OfFamily) -> OfFamily:
    return OfFamily(*(getattr(a, n.name) + getattr(b, n.name) for n in fields(OfFamily)))


def _since(moment: float) -> float:
    return time.time() - moment


def serve(progress: Progress, port: int, address: str) -> int:
    """Serves the figures until the process ends; returns the port."""
    metrics = Metrics()
    try:
        server, _ = start_http_server(port, address, metrics.registry)
    except OSError as e:
        raise StateError(
            f"Metrics cannot be served at {address}:{port}: {e.strerror}.", hint="Choose another port."
        ) from e
    progress.listeners.append(metrics.take)
    return int(server.server_port)
