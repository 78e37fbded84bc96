"""The facts that explain why a query of a pipeline fires or not, read from its checkpoint and its sinks without Spark.

It writes nothing and loads no function, so it works while the pipeline runs. Counts are kept per stream and per family;
per query they would be a million counters in every micro-batch. The last change of a query is therefore searched in the
files of its sinks, from the newest on, in at most `MOST_FILES` of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.delivery.marks import PartFile, parts_of
from eddyline.delivery.names import folder_name
from eddyline.engine.actions import AddQueries
from eddyline.engine.family import Family
from eddyline.plan.explain_partitioning import explain_partitioning
from eddyline.session import show
from eddyline.spark.catalog.amendments import commit_of
from eddyline.spark.catalog.asking import counts_of, watermarks
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.input.offsets import last_batch
from eddyline.spark.output.counts import Counts, FamilyCounts, RelationCounts
from eddyline.spark.run.checkpoint import catalog_of, fixed, is_running
from eddyline.spark.run.sink_rewinds import file_sinks
from eddyline.spark.worker.placement import partitioning_of
from eddyline.sql.catalog import Sink, Stream

MOST_FILES = 200


@dataclass(frozen=True)
class Source:
    """A stream that the query reads, or a table with a source."""

    name: str
    counts: RelationCounts | None  # None: not counted
    watermark: int | None  # None: a table; MIN: no row has arrived


@dataclass(frozen=True)
class LastChange:
    """The last change of a query in a sink."""

    sink: str
    batch: int
    op: str
    ts: datetime | None


@dataclass(frozen=True)
class Explained:
    name: str
    family: Family
    kind: str  # query or family
    plan: str
    split: str
    sources: tuple[Source, ...]
    policy: str
    since: int  # the first micro-batch that was counted
    of_family: FamilyCounts | None
    last: LastChange | None
    searched: int  # files of sinks
    unsearched: int  # files that were not read, because of MOST_FILES
    sinks: tuple[str, ...]  # file sinks that get its changes
    quarantine: str | None
    version: int  # the last commit of the catalog
    in_force: int | None  # the commit of the last micro-batch that has ended; None: none has
    registered: int | None  # the commit that registers the query, if that is not in force yet
    runs: bool

    @property
    def streams(self) -> list[Source]:
        return [s for s in self.sources if s.watermark is not None]

    @property
    def clock(self) -> int | None:
        """None: it has no streams; MIN: no row has arrived."""
        marks = [s.watermark for s in self.sources if s.watermark is not None]
        return (min if self.policy == "min" else max)(marks) if marks else None


def explained(checkpoint: Path, name: str) -> Explained:
    """The facts about a query, or about a family."""
    pipeline_catalog = catalog_of(checkpoint)
    plan = "\n".join(show.explain(pipeline_catalog.session, name)[1])
    named = pipeline_catalog.registry.find(name)
    family, query = (named, None) if named is not None else pipeline_catalog.query(name)
    own, known = pipeline_catalog.log.path.parent, fixed(checkpoint)
    counts = counts_of(own)
    batch = last_batch(checkpoint / "commits")
    in_force = None if batch is None else commit_of(checkpoint, batch)
    out = pipeline_catalog.quarantined.get(family.number, {})
    sinks = list(_sinks(checkpoint, family, None if query is None else name))
    last, searched, unsearched = (None, 0, 0) if query is None else _last_change(sinks, name)
    return Explained(
        name,
        family,
        "family" if query is None else "query",
        plan,
        explain_partitioning(
            family.plan, partitioning_of(family, pipeline_catalog.definitions.splits.get(family.number))
        ),
        tuple(_sources(pipeline_catalog, family, counts)),
        "min" if known is None else known.clock,
        0 if counts is None else counts.since,
        None if counts is None else counts.families.get(family.number),
        last,
        searched,
        unsearched,
        tuple(s.name for s, _ in sinks),
        out.get(query) if query is not None else next(iter(out.values()), None),
        pipeline_catalog.version,
        in_force,
        None if query is None else _registered_after(pipeline_catalog, family, name, in_force),
        is_running(checkpoint),
    )


def _sources(pipeline_catalog: PipelineCatalog, family: Family, counts: Counts | None) -> Iterator[Source]:
    own, catalog, read = pipeline_catalog.log.path.parent, pipeline_catalog.catalog, family.reads()
    streams = [s for s in catalog.streams if s.name.lower() in read]
    tables = [t for t in catalog.tables if t.name.lower() in read and pipeline_catalog.has_source(t.name)]
    marks = watermarks(own, streams)
    for r in (*streams, *tables):
        of = None if counts is None else counts.relations.get(r.name.lower(), RelationCounts())
        yield Source(r.name, of, marks[r.name.lower()] if isinstance(r, Stream) else None)


def _registered_after(pipeline_catalog: PipelineCatalog, family: Family, name: str, in_force: int | None) -> int | None:
    """The commit after the one in force that registers a query; None if it is in force, or unknown."""
    for number in range((in_force or 0) + 1, pipeline_catalog.version + 1):
        if not pipeline_catalog.log.has(number):
            return None  # the commit was replaced by a snapshot
        for action in pipeline_catalog.log.read(number):
            match action:
                case AddQueries(family=family.number) if pc.index(action.names, name).as_py() >= 0:
                    return number
    return None


# sinks


def _sinks(checkpoint: Path, family: Family, query: str | None) -> Iterator[tuple[Sink, Path]]:
    """The file sinks that get the changes, with the folders of the changes."""
    for sink, place in file_sinks(checkpoint):
        targets = [t.lower() for t in sink.targets]
        if not targets and family.kind != "view":
            yield sink, place / folder_name(family.name)
        for name in (family.name, query):
            if name is not None and name.lower() in targets:
                yield sink, place if len(targets) == 1 else place / folder_name(name)


def _last_change(sinks: list[tuple[Sink, Path]], name: str) -> tuple[LastChange | None, int, int]:
    """The last change of a query in any sink, the number of files read, and the number of files not read."""
    best: LastChange | None = None
    read = left = 0
    for sink, folder in sinks:
        parts = sorted(parts_of(folder), reverse=True)
        for i, part in enumerate(parts):
            if best is not None and part.batch <= best.batch:
                break
            if read >= MOST_FILES:
                left += len(parts) - i
                break
            read += 1
            change = _change_in(sink, part, name)
            if change is not None and (best is None or change.batch > best.batch):
                best = change
    return best, read, left


def _change_in(sink: Sink, part: PartFile, name: str) -> LastChange | None:
    try:
        whole = part.kind.read(part.path, columns=["query", "op", "ts", "batch"])
        rows = whole.filter(pc.field("query") == name).to_pylist() if whole.num_rows else []
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return None  # compacted since it was listed, or not written by Eddyline
    if not rows:
        return None
    last = max(rows, key=lambda r: (r["batch"], str(r["ts"])))
    ts = last["ts"]
    moment = datetime.fromisoformat(ts) if isinstance(ts, str) else ts
    return LastChange(sink.name, last["batch"], last["op"], None if moment is None else moment.replace(tzinfo=None))
