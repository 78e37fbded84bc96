"""Exports the registered queries of a checkpoint as files, and imports them into another checkpoint.

    pipeline.sql          streams, tables, views, declared families, and the sinks of families or of everything
    queries/N.parquet     the queries of one family: their names and constants
    families.json         the family of each file; for queries registered as texts, the statement of one of them
    tables/NAME.parquet   the rows of tables that have no source
    sinks.sql             the sinks of single queries
    position.json         how far the sources were read: the files, and the offsets of other sources

Constants are exported as values, not as texts: a million queries are a few files.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eddyline import types as t
from eddyline.engine.actions import ChangeTable
from eddyline.engine.family import Family
from eddyline.errors import CatalogError, Error, StateError
from eddyline.spark.catalog.externals import Rules
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.input.offsets import files_between, log_entry_of, source_offsets
from eddyline.spark.output.epochs import committed
from eddyline.spark.run.checkpoint import Fixed, begin, catalog_of, fixed, require_fixed, script_text
from eddyline.spark.run.settings import sources_of, write_whole
from eddyline.sql.catalog import Sink
from eddyline.sql.parser import parse
from eddyline.sql.statements import CreateQuery

FORMAT = 1


@dataclass(frozen=True)
class ExportedFamily:
    file: str
    name: str
    kind: Literal["declared", "implicit"]
    sql: str
    queries: int


def export(checkpoint: Path, target: Path) -> list[ExportedFamily]:
    """Writes the registered queries and declarations of a checkpoint to a new folder; returns the families."""
    pipeline_catalog = catalog_of(checkpoint)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StateError(f"{str(target)!r} exists already.", hint="Choose a new folder.")
    target.mkdir(mode=0o700, parents=True, exist_ok=True)  # options may have passwords
    (target / "queries").mkdir()
    (target / "tables").mkdir()
    families = []
    for family in (f for f in pipeline_catalog.registry if f.kind != "view"):
        rows = constants(family)
        file = f"queries/{family.number}.parquet"
        pq.write_table(rows, target / file)
        kind: Literal["declared", "implicit"] = "declared" if family.kind == "declared" else "implicit"
        families.append(ExportedFamily(file, family.name, kind, family.sql, rows.num_rows))
    for table in (x for x in pipeline_catalog.catalog.tables if x.external is None):
        columns = pipeline_catalog.tables[table.name.lower()].columns
        pq.write_table(pa.table(list(columns), names=[f.name for f in table.fields]), _table_file(target, table.name))
    late = [s for s in pipeline_catalog.catalog.sinks if not _is_early(s, pipeline_catalog)]
    # Options may hold secrets: these files are their owner's alone.
    write_whole(target / "pipeline.sql", "".join(f"{line}\n" for line in script(pipeline_catalog)))
    write_whole(target / "sinks.sql", "".join(f"{s.sql};\n" for s in late))
    (target / "position.json").write_text(json.dumps(position(checkpoint), indent=1), encoding="utf-8")
    known = require_fixed(checkpoint)
    manifest: dict[str, Any] = {"format": FORMAT, "buckets": known.buckets, "clock": known.clock}
    manifest |= {"families": [asdict(f) for f in families]}
    (target / "families.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    return families


def constants(family: Family) -> pa.Table:
    """The queries of a family: a column `query` with their names, and one for each parameter."""
    rows = family.queries.rows()
    names = ["query", *(p.name for p in family.bound.params)]
    return pa.table([rows.names_at(rows.live()), *rows.all_params_at(rows.live())], names=names)


def script(pipeline_catalog: PipelineCatalog) -> Iterator[str]:
    """The statements that declare everything that needs no registered query."""
    for relation in [*pipeline_catalog.catalog.streams, *pipeline_catalog.catalog.tables]:
        yield f"{relation.sql};"
    for f in pipeline_catalog.catalog.functions:
        takes = ", ".join(t.name_of(x) for x in f.takes)
        yield f"-- Function {f.name}({takes}) returns {t.name_of(f.gives)}: register it by pipe.function first."
    for view in pipeline_catalog.catalog.views:
        yield f"{view.sql};"
    for family in (f for f in pipeline_catalog.registry if f.kind == "declared"):
        yield f"{family.sql};"
    early = [s for s in pipeline_catalog.catalog.sinks if _is_early(s, pipeline_catalog)]
    if early:
        yield "-- The folder of a sink belongs to the checkpoint that was exported: give each a path of its own."
    for sink in early:
        yield f"{sink.sql};"


def _is_early(sink: Sink, pipeline_catalog: PipelineCatalog) -> bool:
    """Whether a sink can be declared before any query is registered."""
    return all((f := pipeline_catalog.registry.find(x)) is not None and f.kind == "declared" for x in sink.targets)


def position(checkpoint: Path) -> dict[str, Any]:
    """How far each source was read: the files of those that are folders, else the offset in Spark's log."""
    offsets = source_offsets(checkpoint, committed(checkpoint))
    positions: dict[str, Any] = {}
    for i, (name, offset) in enumerate(zip(sources_of(checkpoint), offsets, strict=False)):
        if name and isinstance(offset, dict) and "logOffset" in offset:
            positions[name] = {"files": sorted(files_between(checkpoint, i, -1, log_entry_of(offset)))}
        elif name:
            positions[name] = {"offset": offset}
    return positions


# importing


def take_over(checkpoint: Path, folder: Path, script: Path | None = None) -> int:
    """Registers everything that was exported, or nothing; returns the number of queries.

    The families must be declared before, or by `script`, which starts a new checkpoint.
    """
    manifest = _read(folder)
    new = fixed(checkpoint) is None
    if script is not None and new:
        begin(checkpoint, Fixed(manifest["buckets"], manifest["clock"]))
    try:
        pipeline_catalog = catalog_of(checkpoint, Rules())  # the rules of the operator, who wrote the script
        if script is not None:
            pipeline_catalog.run_script(script_text(script))
        return _take_over(pipeline_catalog, folder, [ExportedFamily(**f) for f in manifest["families"]])
    except Error:
        if script is not None and new:
            shutil.rmtree(checkpoint)
        raise


def _take_over(pipeline_catalog: PipelineCatalog, folder: Path, families: Sequence[ExportedFamily]) -> int:
    with pipeline_catalog.commit(on_error="undo"):
        for name, rows in _tables(folder):
            _fill(pipeline_catalog, name, rows)
        for family in families:
            rows = pq.read_table(folder / family.file)
            try:
                if rows.num_rows:
                    _register(pipeline_catalog, family, rows)
            except Error as e:
                e.hint = f"Nothing was taken over: the queries of {family.name!r} do not fit. {e.hint or ''}".strip()
                raise
        sinks = (folder / "sinks.sql").read_text(encoding="utf-8")
        if sinks.strip():
            pipeline_catalog.execute(sinks)
    return sum(f.queries for f in families)


def _read(folder: Path) -> dict[str, Any]:
    """What `families.json` says."""
    try:
        fields: dict[str, Any] = json.loads((folder / "families.json").read_text(encoding="utf-8"))
        if fields["format"] != FORMAT:
            raise StateError(f"The export {str(folder)!r} has format {fields['format']}, this version reads {FORMAT}.")
        return fields
    except FileNotFoundError:
        raise StateError(f"{str(folder)!r} is no export.", hint="`eddyline checkpoint export` makes one.") from None
    except (ValueError, KeyError, TypeError):
        raise StateError(f"{str(folder / 'families.json')!r} is damaged.", hint="Export again.") from None


def _register(pipeline_catalog: PipelineCatalog, family: ExportedFamily, rows: pa.Table) -> None:
    if family.kind == "declared":
        pipeline_catalog.register(family.name, rows)
        return
    body = parse(family.sql)[0].body
    assert isinstance(body, CreateQuery)
    session = pipeline_catalog.session
    owner, actions = session.family_of_shape(session.bind(body.query), body.options, body.text)
    named = rows.rename_columns(["query", *(p.name for p in owner.bound.params)])
    pipeline_catalog.apply([*actions, *session.add_queries(owner, named)])


def _tables(folder: Path) -> Iterator[tuple[str, pa.Table]]:
    for file in sorted((folder / "tables").glob("*.parquet")):
        yield unquote(file.stem), pq.read_table(file)


def _table_file(folder: Path, name: str) -> Path:
    return folder / "tables" / f"{quote(name, safe='')}.parquet"


def _fill(pipeline_catalog: PipelineCatalog, name: str, rows: pa.Table) -> None:
    table = pipeline_catalog.catalog.tables[name]
    if not rows.num_rows or table.external is not None:
        return
    if len(pipeline_catalog.tables[name.lower()]):
        raise CatalogError(f"The table {name!r} has rows already.", hint="Take over into a checkpoint without any.")
    missing = [f.name for f in table.fields if f.name not in rows.column_names]
    if missing:
        raise CatalogError(f"The rows exported of {name!r} have no column {missing[0]!r}.", hint="INSERT them by hand.")
    columns = [rows.column(f.name).combine_chunks().cast(f.type) for f in table.fields]
    pipeline_catalog.apply([ChangeTable(table.name, np.empty(0, np.int64), tuple(columns))])
