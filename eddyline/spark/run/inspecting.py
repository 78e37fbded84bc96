"""Lists the contents of a checkpoint, without Spark and without running code from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from eddyline.delivery.marks import last_batch, read_mark
from eddyline.errors import StateError
from eddyline.spark.catalog.asking import watermarks
from eddyline.spark.output.epochs import committed, planned, run_starts
from eddyline.spark.run.checkpoint import FORMAT, catalog_of, require_fixed
from eddyline.spark.run.settings import sources_of
from eddyline.spark.run.sink_rewinds import file_sinks
from eddyline.state.delta import MIN

SHOWN = 50  # the number of families that are listed, largest first


@dataclass(frozen=True)
class Fact:
    what: str
    value: str


def facts(checkpoint: Path) -> Iterator[Fact]:
    """The facts about a checkpoint, in the order in which they are shown."""
    known = require_fixed(checkpoint)
    pipeline_catalog = catalog_of(checkpoint)
    yield Fact("checkpoint", str(checkpoint))
    yield Fact("format", str(FORMAT))
    yield Fact("identity", known.identity or "none, from an older version")
    starts = run_starts(checkpoint)
    if starts:
        yield Fact("epoch", f"{starts[-1].epoch.id}, started {starts[-1].started}, run {len(starts)}")
    yield Fact("buckets", f"{known.buckets}")
    yield Fact("clock", known.clock)
    yield Fact("micro-batches", f"{planned(checkpoint) + 1} planned, {committed(checkpoint) + 1} committed")
    yield Fact("catalog version", f"{pipeline_catalog.version}")
    yield Fact("sources", ", ".join(filter(None, sources_of(checkpoint))) or "none yet")
    marks = watermarks(checkpoint / "eddyline", pipeline_catalog.catalog.streams)
    for stream in pipeline_catalog.catalog.streams:
        yield Fact(f"stream {stream.name}", _watermark(marks[stream.name.lower()]))
    for table in pipeline_catalog.catalog.tables:
        rows = f"{len(pipeline_catalog.tables[table.name.lower()]):,} rows"
        yield Fact(f"table {table.name}", rows if table.external is None else "from a source")
    for function in pipeline_catalog.catalog.functions:
        yield Fact(f"function {function.name}", "registered")
    families = sorted(pipeline_catalog.registry, key=lambda f: -len(f.queries))
    yield Fact("queries", f"{sum(len(f.queries) for f in families):,} in {len(families):,} families")
    for family in families[:SHOWN]:
        out = len(pipeline_catalog.quarantined.get(family.number, {}))
        count = f"{len(family.queries):,} {'query' if len(family.queries) == 1 else 'queries'}" + (
            f", {out:,} in quarantine" if out else ""
        )
        yield Fact(f"family {family.name}", f"{family.kind}, {count}")
    places = {sink.name: place for sink, place in file_sinks(checkpoint)}
    for sink in pipeline_catalog.catalog.sinks:
        place = places.get(sink.name)
        yield Fact(f"sink {sink.name}", sink.external.format if place is None else _sink(sink.external.format, place))
    for name, size in sizes(checkpoint).items():
        yield Fact(f"bytes of {name}", f"{size:,}")


def sizes(checkpoint: Path) -> dict[str, int]:
    """Bytes of each part of a checkpoint."""
    parts = {
        "catalog": "eddyline/catalog",
        "state": "state",
        "dead letters": "eddyline/dead_letter",
        "everything": "",
    }
    return {
        name: sum(f.stat().st_size for f in (checkpoint / below).rglob("*") if f.is_file())
        for name, below in parts.items()
    }


def _watermark(watermark: int) -> str:
    if watermark == MIN:
        return "no row yet"
    return f"watermark {datetime(1970, 1, 1) + timedelta(microseconds=watermark)}"


def _sink(format_: str, place: Path) -> str:
    last = last_batch(place)
    try:
        mark = read_mark(place)
    except StateError:
        mark = None
    complete = "no mark" if mark is None else f"complete up to micro-batch {mark.complete}"
    return f"{format_}, {place}: {'no rows' if last is None else f'last rows of micro-batch {last}'}, {complete}"
