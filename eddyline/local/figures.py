"""Figures of a connection for SHOW, EXPLAIN ANALYZE and `stats`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.engine.family import Family
from eddyline.operators.describe import describe_filters
from eddyline.operators.room import byte_text
from eddyline.operators.user_functions import FunctionWarning
from eddyline.routing.filter_eddy import Lookups
from eddyline.session import show
from eddyline.session.show import StreamFigures
from eddyline.sql.bound import Call, expressions
from eddyline.state.delta import event_time

if TYPE_CHECKING:
    from eddyline.local.connection import Connection


class LocalFigures:
    def __init__(self, db: Connection) -> None:
        self._db = db

    def stream(self, name: str) -> StreamFigures:
        clock = self._db.engine.clocks.streams[name.lower()]
        return StreamFigures(clock.watermark, clock.arrived, clock.late)

    def table_rows(self, name: str) -> int | None:
        return len(self._db.definitions.tables[name.lower()])

    def family_error(self, family: Family) -> str | None:
        failure = self._db.engine.failed.get(family.number)
        return None if failure is None else failure.error

    def query_errors(self, family: Family, ids: Ints) -> pa.Array:
        return pa.repeat(pa.scalar(self.family_error(family), pa.string()), len(ids))

    def function_errors(self, name: str) -> tuple[int | None, str | None]:
        return self._db.functions.errors.get(name, (0, None))


def explain(db: Connection, name: str, analyze: bool) -> str:
    """The plan of a query's family; with `analyze`, also the state and the counters of its operators."""
    family, lines = show.explain(db.session, name)
    failure = db.engine.failed.get(family.number)
    if failure is not None:
        lines.append(f"in quarantine: {failure.error}")
    elif analyze:
        running = db.engine.running[family.number]
        changes = "not counted" if running.changes is None else running.changes
        rows = f"rows of state: {running.state_rows()}  shared rows: {running.shared_rows()}"
        sizes = f"{byte_text(running.state_bytes())} of state, {byte_text(running.shared_bytes())} shared"
        lines.append(f"clock: {event_time(running.clock)}  changes: {changes}  {rows}  ({sizes})")
        if running.collecting is not None:
            lines.append(f"collected: {running.collected} tuples up to {event_time(running.reached)}")
        for o in running.root.walk():
            held = f"{o.size()} rows" + (f" in {byte_text(size)}" if (size := o.nbytes()) else "")
            lines.append(f"  {type(o).__name__}: {o.note()}, {held}")
            lines += [f"    {line}" for line in o.details()]
        lines += [f"  {line}" for line in _shared_routes(db, family.number)]
        lines += [f"  {line}" for line in _pool(db, family.number)]
        lines += [f"  {line}" for line in _failed_calls(db, family)]
    return "\n".join(lines)


def _failed_calls(db: Connection, family: Family) -> list[str]:
    """The failed calls of the functions that a family uses, summed over all families."""
    called = {e.function.removeprefix("udf:") for e in expressions(family.bound.query) if isinstance(e, Call)}
    return [
        str(FunctionWarning(name, rows, db.functions.first.get(name, last)))
        for name, (rows, last) in db.functions.errors.items()
        if name in called
    ]


def _shared_routes(db: Connection, family: int) -> list[str]:
    """The routes that the joins of the family share with those of others."""
    lines = []
    for name, joins in db.engine.shared_joins.items():
        taken = joins.routes.describe(family)
        lines += [f"on shared routes from {name.stream}", *(f"  {line}" for line in taken)] if taken else []
    return lines


def _pool(db: Connection, family: int) -> list[str]:
    """The pool of small families on one stream that the family belongs to."""
    for stream, pool in db.engine.pools.items():
        members = {s.family for r in pool.runs for s in r.stretches}
        if family in members:
            lines = [f"in the pool of {stream}: {sum(len(r) for r in pool.runs)} queries of {len(members)} families"]
            for run in pool.runs:
                attributes = [pool.attributes[a] for a in run.attributes]
                lines += [f"  {line}" for line in describe_filters([run.routed], attributes)]
            return lines
    return []


def stats(db: Connection) -> dict[str, Any]:
    """Counters in total, per stream, per family and per function; None where changes are not counted.

    `state_rows` are rows that one family alone has. `shared_rows` are those of logs and tables: in total each log and
    table counts once, for a family those count that it reads. `state_bytes` and `shared_bytes` are what they take in
    memory, with indexes; texts of keys, and what operators cache, are not counted."""
    clocks, running = db.engine.clocks.streams, db.engine.running.values()
    return {
        "queries": sum(len(f.queries) for f in db.registry if f.kind != "view"),
        "rows": sum(c.arrived for c in clocks.values()),
        "late": sum(c.late for c in clocks.values()),
        "changes": _sum(r.changes for r in running),
        "state_rows": sum(r.state_rows() for r in running),
        "state_bytes": sum(r.state_bytes() for r in running),
        "shared_rows": db.engine.shared_rows(),
        "shared_bytes": db.engine.shared_bytes(),
        "lookups": _lookups(
            [*(x for r in running for x in r.lookups()), *(p.lookups for p in db.engine.pools.values())]
        ),
        "streams": {
            s.name: {
                "rows": clocks[s.name.lower()].arrived,
                "late": clocks[s.name.lower()].late,
                "ahead": clocks[s.name.lower()].ahead,
                "set_apart": sum(len(p[0]) for p in db.set_apart.get(s.name.lower(), [])),
                "watermark": event_time(clocks[s.name.lower()].watermark),
                "kept": db.engine.store.rows(s.name.lower()),
                "pooled_lookups": _lookups(p.lookups for n, p in db.engine.pools.items() if n == s.name.lower()),
            }
            for s in db.catalog.streams
        },
        "tables": {x.name: {"rows": len(db.definitions.tables[x.name.lower()])} for x in db.catalog.tables},
        "families": {
            r.family.name: {
                "queries": len(r.family.queries),
                "changes": r.changes,
                "state_rows": r.state_rows(),
                "state_bytes": r.state_bytes(),
                "shared_rows": r.shared_rows(),
                "shared_bytes": r.shared_bytes(),
                "clock": event_time(r.clock),
                "collected": r.collected,
                "lookups": _lookups(r.lookups()),
            }
            for r in running
        },
        "failed": {family.name: failure.error for family, failure in db.failures()},
        "functions": {
            n: {"errors": k, "last_error": m, "first_error": db.functions.first.get(n, m)}
            for n, (k, m) in db.functions.errors.items()
        },
    }


def _lookups(counted: Iterable[Lookups]) -> dict[str, int]:
    """Rows searched in grouped filters, and attribute lookups: codes made for searches, and for samples only."""
    known = list(counted)
    return {
        "rows": sum(x.rows for x in known),
        "searches": sum(x.searches for x in known),
        "samples": sum(x.samples for x in known),
    }


def _sum(figures: Iterable[int | None]) -> int | None:
    known = list(figures)
    return None if None in known else sum(n for n in known if n is not None)
