"""Figures of a pipeline for SHOW, `stats` and `late`, read from the counts, clocks and dead-letter tables of its
checkpoint. A figure that the checkpoint does not have is NULL.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.arrays import Ints
from eddyline.delivery.names import folder_name
from eddyline.delivery.reading import read_folder
from eddyline.engine.clocks import StreamClock
from eddyline.engine.family import Family
from eddyline.session.show import StreamFigures
from eddyline.spark.output.counts import Counts, RelationCounts, read_counts
from eddyline.spark.run.settings import has_begun
from eddyline.sql.catalog import Stream
from eddyline.state.delta import times

if TYPE_CHECKING:
    from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog

LATE = ("late", "behind the clock of a query")  # reasons of the dead-letter table that mean lateness


def counts_of(own: Path) -> Counts | None:
    """The counts of a pipeline; None if none were kept. Before the first micro-batch all are 0."""
    counts = read_counts(own)
    return Counts() if counts is None and not has_begun(own.parent) else counts


def watermarks(own: Path, streams: Iterable[Stream]) -> dict[str, int]:
    """The watermark after the last micro-batch by stream, in lower case; MIN: no row has arrived."""
    clocks: dict[str, Any] = {}
    for file in sorted((own / "clocks").glob("[0-9]*.json"), reverse=True):
        try:
            clocks = json.loads(file.read_text())
            break
        except (OSError, ValueError):
            continue  # removed by the pipeline meanwhile, or damaged: use the one before it
    return {s.name.lower(): StreamClock(s.delay, **clocks.get(s.name.lower(), {})).watermark for s in streams}


def dead_letters(own: Path, relation: str) -> pa.Table | None:
    """The rows of a stream or table that were set apart; None if there are none."""
    place, name = own / "dead_letter", relation.lower()
    names = {folder_name(name)} | ({name} if "/" not in name else set())  # earlier versions used the second name
    tables = [t for n in sorted(names) if (t := read_folder(place, place / n, -1, sys.maxsize)) is not None]
    return pa.concat_tables(tables, promote_options="permissive") if tables else None


class PipelineFigures:
    """The figures that SHOW prints of a pipeline."""

    def __init__(self, pipeline_catalog: PipelineCatalog) -> None:
        self._pipeline_catalog = pipeline_catalog
        self._counts = counts_of(pipeline_catalog.log.path.parent)
        self._watermarks = watermarks(pipeline_catalog.log.path.parent, list(pipeline_catalog.catalog.streams))

    def stream(self, name: str) -> StreamFigures:
        counts = _of(self._counts, name)
        rows, late = (None, None) if counts is None else (counts.rows, counts.late)
        return StreamFigures(self._watermarks[name.lower()], rows, late)

    def table_rows(self, name: str) -> int | None:
        return table_rows(self._pipeline_catalog, self._counts, name)

    def family_error(self, family: Family) -> str | None:
        return None  # queries are put into quarantine one by one

    def query_errors(self, family: Family, ids: Ints) -> pa.Array:
        out = self._pipeline_catalog.quarantined.get(family.number, {})
        where = pc.index_in(pa.array(ids), value_set=pa.array(list(out), pa.int64()))
        return pa.array(out.values(), pa.string()).take(where)

    def function_errors(self, name: str) -> tuple[int | None, str | None]:
        return None, None  # functions are called by other processes


def table_rows(pipeline_catalog: PipelineCatalog, counts: Counts | None, table: str) -> int | None:
    """The number of rows of a table; None if unknown."""
    if not pipeline_catalog.has_source(table):
        return len(pipeline_catalog.tables[table.lower()])
    if counts is None:
        return None
    return 0 if counts.batch < 0 else counts.tables.get(table.lower())


def stats(pipeline_catalog: PipelineCatalog) -> dict[str, Any]:
    """The counters of `Connection.stats`, as far as a pipeline keeps them; None where it does not."""
    own = pipeline_catalog.log.path.parent
    counts = counts_of(own)
    streams, tables = list(pipeline_catalog.catalog.streams), pipeline_catalog.catalog.tables
    registry = pipeline_catalog.registry
    of = {s.name: _of(counts, s.name) for s in streams}
    marks = watermarks(own, streams)
    moments = times(np.array([marks[s.name.lower()] for s in streams], np.int64)).to_pylist()
    changes = {f.name: _changes(counts, f.number) for f in registry}
    return {
        "queries": sum(len(f.queries) for f in registry if f.kind != "view"),
        "rows": _sum(getattr(c, "rows", None) for c in of.values()),
        "late": _sum(getattr(c, "late", None) for c in of.values()),
        "changes": _sum(changes.values()),
        "streams": {
            name: {
                **{figure: getattr(c, figure, None) for figure in ("rows", "late", "bad")},
                "watermark": moment,
            }
            for (name, c), moment in zip(of.items(), moments, strict=True)
        },
        "tables": {t.name: {"rows": table_rows(pipeline_catalog, counts, t.name)} for t in tables},
        "families": {f.name: {"queries": len(f.queries), "changes": changes[f.name]} for f in registry},
    }


def late(pipeline_catalog: PipelineCatalog, stream: Stream) -> pa.Table:
    """The late tuples of a stream."""
    schema = pa.schema([(f.name, f.type) for f in stream.fields])
    letters = dead_letters(pipeline_catalog.log.path.parent, stream.name)
    if letters is None:
        return schema.empty_table()
    letters = letters.filter(pc.is_in(letters.column("reason"), pa.array(LATE)))
    return pa.table([letters.column(i).cast(f.type) for i, f in enumerate(schema)], schema=schema)


def _of(counts: Counts | None, relation: str) -> RelationCounts | None:
    """The counts of a relation; None if not every micro-batch was counted."""
    if counts is None or not counts.complete:
        return None
    return counts.relations.get(relation.lower(), RelationCounts())


def _changes(counts: Counts | None, family: int) -> int | None:
    if counts is None or not counts.complete:
        return None
    return counts.families[family].changes if family in counts.families else 0


def _sum(figures: Any) -> int | None:
    known = list(figures)
    return None if None in known else sum(known)
