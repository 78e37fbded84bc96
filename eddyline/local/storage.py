"""Saves a connection to a directory, and restores it.

The catalog is saved as SQL statements, everything else as Arrow files: tables, the query table of each family, and the
state of each operator. A save is written to a temporary directory and then renamed.

    manifest.json                     format, clocks, statements, families, checksums of all files
    streams/NAME.{history,late}.arrow tables/NAME.arrow
    families/NUMBER/queries.arrow     families/NUMBER/PART.arrow
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import numpy as np
import pyarrow as pa

from eddyline import types as t
from eddyline.delivery.names import file_name
from eddyline.engine.actions import Define, DefineFunction, LoadQueries, NewFamily, NextFamily
from eddyline.engine.failures import FamilyFailure
from eddyline.engine.family import Family
from eddyline.errors import StateError
from eddyline.local.connection import Connection
from eddyline.operators.pool import Pool
from eddyline.operators.user_functions import body_of
from eddyline.routing.filter_eddy import Lookups
from eddyline.state.pages import as_table
from eddyline.state.store.store import LogName

FORMAT = 1


def save(db: Connection, path: Any) -> None:
    target = Path(path)
    if target.exists() and not (target / "manifest.json").exists():
        raise StateError(f"{str(target)!r} exists and is not a saved connection.", hint="Choose another directory.")
    temporary = target.with_name(f".{target.name}.{uuid4().hex[:8]}")
    old = target.with_name(f"{temporary.name}.old")
    try:
        temporary.mkdir(parents=True)
        _write(db, temporary)
        if target.exists():
            target.rename(old)
        temporary.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as e:
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(temporary, ignore_errors=True)
        raise StateError(f"Cannot save to {str(target)!r}: {e}.", hint="Nothing was changed there.") from None


def _write(db: Connection, path: Path) -> None:
    for stream in db.catalog.streams:
        name = stream.name.lower()
        rows = as_table(db.engine.log(LogName(name)).save()["rows"])
        _write_table(path / "streams" / f"{file_name(name)}.history.arrow", rows)
        _write_table(path / "streams" / f"{file_name(name)}.late.arrow", db.late(name))
    for name, table in db.definitions.tables.items():
        _write_table(path / "tables" / f"{file_name(name)}.arrow", table.save())
    for family in db.registry:
        folder = path / "families" / str(family.number)
        _write_table(folder / "queries.arrow", family.queries.save())
        running = db.engine.running.get(family.number)  # None if it is in quarantine: it has no state
        for part, state in running.save().items() if running is not None else ():
            _write_table(folder / f"{part}.arrow", as_table(state))
    files = {str(f.relative_to(path)): _checksum(f) for f in sorted(path.rglob("*.arrow"))}
    (path / "manifest.json").write_text(json.dumps(_manifest(db) | {"files": files}, indent=1))


def _manifest(db: Connection) -> dict[str, Any]:
    clocks = db.engine.clocks.streams
    return {
        "format": FORMAT,
        "clock": db.engine.options.clock,
        "arrivals": db.engine.arrivals,
        "advanced": db.engine.clocks.advanced,
        "streams": [{"sql": s.sql, "name": s.name} | vars(clocks[s.name.lower()]) for s in db.catalog.streams],
        "tables": [x.sql for x in db.catalog.tables],
        "functions": [
            {"name": f.name, "takes": [t.name_of(x) for x in f.takes], "gives": t.name_of(f.gives), "kind": f.kind}
            for f in db.catalog.functions
        ],
        "views": [v.sql for v in db.catalog.views],
        "sinks": [s.sql for s in db.catalog.sinks],
        "families": [_family(db, f) for f in db.registry],
        "next_family": db.definitions.next_family,
        "pooled_lookups": {stream: _summed([pool.lookups]) for stream, pool in db.engine.pools.items()},
        "function_errors": db.functions.errors,
        "first_function_errors": db.functions.first,
    }


def _family(db: Connection, f: Family) -> dict[str, Any]:
    known = {"number": f.number, "name": f.name, "kind": f.kind, "sql": f.sql, "next_id": f.queries.next_id}
    known |= {"in_lists": f.in_lists, "rules": f.rules}
    failure = db.engine.failed.get(f.number)
    if failure is not None:
        return known | {"error": failure.error}
    running = db.engine.running[f.number]
    return known | {"clock": running.clock, "changes": running.changes, "lookups": _summed(running.lookups())}


def _summed(lookups: Iterable[Lookups]) -> list[int]:
    known = list(lookups)
    return [sum(x.rows for x in known), sum(x.made for x in known), sum(x.samples for x in known)]


def restore(
    path: Path, clock: Literal["min", "max"] | None, bodies: dict[str, Any], threads: int | None = None
) -> Connection:
    manifest = _read_manifest(path)
    if clock is not None and clock != manifest["clock"]:
        raise StateError(f"The saved connection has clock = {manifest['clock']!r}, not {clock!r}.")
    try:
        return _restore(path, manifest, {name.lower(): body for name, body in bodies.items()}, threads)
    except StateError:
        raise
    except Exception as e:  # a damaged manifest can cause any error
        raise StateError(f"The state in {str(path)!r} is damaged: {type(e).__name__} {e}.") from None


def _restore(path: Path, manifest: dict[str, Any], bodies: dict[str, Any], threads: int | None) -> Connection:
    for name, checksum in manifest["files"].items():
        if not (path / name).is_file() or _checksum(path / name) != checksum:
            raise StateError(f"The file {name!r} in {str(path)!r} is missing or damaged.", hint="Restore a whole save.")
    missing = [f["name"] for f in manifest["functions"] if f["name"].lower() not in bodies]
    if missing:
        raise StateError(
            f"The saved queries use the function {missing[0]!r}, which cannot be saved.",
            hint=f"Pass functions={{{missing[0]!r}: …}} to connect.",
        )
    db = Connection(manifest["clock"], threads)
    _restore_relations(db, path, manifest, bodies)
    for saved in manifest["families"]:
        _restore_family(db, path / "families" / str(saved["number"]), saved)
    for sql in manifest["sinks"]:
        db.definitions.apply(Define(sql))
    db.definitions.apply(NextFamily(int(manifest["next_family"])))
    db.functions.errors.update({n: (int(k), str(m)) for n, (k, m) in manifest["function_errors"].items()})
    db.functions.first.update(manifest.get("first_function_errors", {}))
    for stream, counted in manifest.get("pooled_lookups", {}).items():
        db.engine.pools[stream] = Pool()
        db.engine.pools[stream].lookups.add(*counted)
    return db


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((path / "manifest.json").read_text())
        format_ = manifest["format"]
    except OSError:
        raise StateError(
            f"There is no saved connection in {str(path)!r}.", hint="`db.save(path)` writes one."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise StateError(f"The manifest in {str(path)!r} is damaged.") from None
    if format_ != FORMAT:
        raise StateError(
            f"The state in {str(path)!r} has format {format_}, this version reads {FORMAT}.",
            hint="Use the version of Eddyline that wrote it.",
        )
    return dict(manifest)


def _restore_relations(db: Connection, path: Path, manifest: dict[str, Any], bodies: dict[str, Any]) -> None:
    """Restores streams, tables, functions and views, with their rows."""
    engine, definitions = db.engine, db.definitions
    engine.arrivals, engine.clocks.advanced = int(manifest["arrivals"]), int(manifest["advanced"])
    for s in manifest["streams"]:
        definitions.apply(Define(s["sql"]))
        key = s["name"].lower()
        clock = engine.clocks.streams[key]
        saved = {counter: s[counter] for counter in vars(clock) if counter in s}  # older versions saved fewer
        engine.clocks.streams[key] = replace(clock, **saved)
        rows = _read_table(path / "streams" / f"{file_name(key)}.history.arrow")
        engine.log(LogName(key)).load(rows)
        late = _read_table(path / "streams" / f"{file_name(key)}.late.arrow")
        if late.num_rows:
            db.set_apart[key] = [[c.combine_chunks() for c in late.columns]]
    for sql in manifest["tables"]:
        definitions.apply(Define(sql))
    for name, table in definitions.tables.items():
        saved = _read_table(path / "tables" / f"{file_name(name)}.arrow")
        table.load([c.combine_chunks() for c in saved.columns])
    for f in manifest["functions"]:
        kind = f.get("kind", "scalar")
        body = body_of(bodies[f["name"].lower()], kind)
        definitions.apply(DefineFunction(f["name"], tuple(f["takes"]), f["gives"], body, kind))
    for sql in manifest["views"]:
        definitions.apply(Define(sql))


def _restore_family(db: Connection, path: Path, saved: dict[str, Any]) -> None:
    """Restores a family and the state of its operators."""
    queries = _read_table(path / "queries.arrow").combine_chunks()
    names, _, _, *params = (c.combine_chunks() for c in queries.columns)
    ids, since = (np.array(queries.column(name).to_numpy(), np.int64) for name in ("id", "since"))
    number, in_lists, rules = saved["number"], saved.get("in_lists", "items"), saved.get("rules", 1)
    with db.engine.restoring():
        db.definitions.apply(NewFamily(number, saved["name"], saved["kind"], saved["sql"], in_lists, rules))
        load = LoadQueries(number, saved["next_id"], ids, names, tuple(params))
        db.definitions.apply(load, lambda family, ids: since)
    family = db.definitions.families[number]
    if "error" in saved:
        db.engine.fail(family, FamilyFailure(family.name, saved["error"]))
    else:
        parts = {f.name.removesuffix(".arrow"): _read_table(f) for f in path.iterdir() if f.name != "queries.arrow"}
        db.engine.restore(family, parts, saved["clock"], saved["changes"])
        db.engine.running[number].earlier_lookups.add(*saved.get("lookups", ()))


def _write_table(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _checksum(path: Path) -> int:
    return zlib.crc32(path.read_bytes())


def _read_table(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()
