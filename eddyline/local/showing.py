"""What a connection tells about itself: SHOW, EXPLAIN and counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline import types as t
from eddyline.delivery.changes import times
from eddyline.engine.family import Family
from eddyline.errors import CatalogError, did_you_mean
from eddyline.operators.describe import describe_filters
from eddyline.operators.user_functions import FunctionWarning
from eddyline.plan import explain as plan_text
from eddyline.sql.bound import Call, Field, expressions
from eddyline.sql.constant_lists import ConstantList
from eddyline.sql.functions import AGGREGATES, FORMS, NAMED
from eddyline.state.delta import MIN

if TYPE_CHECKING:
    from eddyline.local.connection import Connection


def show(db: Connection, what: str) -> pa.Table:
    return _SHOW[what](db)


def _streams(db: Connection) -> pa.Table:
    streams = list(db.catalog.streams)
    return pa.table(
        {
            "stream": pa.array([s.name for s in streams], pa.string()),
            "columns": pa.array([_columns(s.fields) for s in streams], pa.string()),
            "watermark": times(np.array([db.clocks[s.name.lower()].watermark for s in streams], np.int64)),
            "rows": pa.array([db.clocks[s.name.lower()].arrived for s in streams], pa.int64()),
            "late": pa.array([db.clocks[s.name.lower()].late for s in streams], pa.int64()),
        }
    )


def _tables(db: Connection) -> pa.Table:
    tables = list(db.catalog.tables)
    return pa.table(
        {
            "table": pa.array([x.name for x in tables], pa.string()),
            "columns": pa.array([_columns(x.fields) for x in tables], pa.string()),
            "retroactive": pa.array([x.retroactive for x in tables], pa.bool_()),
            "rows": pa.array([len(db.tables[x.name.lower()]) for x in tables], pa.int64()),
        }
    )


def _queries(db: Connection) -> pa.Table:
    names, families, errors = ([pa.array([], pa.string())] for _ in range(3))
    for f in db.registry:
        if f.kind == "view":
            continue
        rows = f.queries.rows()
        names.append(rows.names_at(rows.live()))
        families.append(pa.repeat(f.name, len(names[-1])))
        errors.append(pa.repeat(pa.scalar(_error(db, f), pa.string()), len(names[-1])))
    columns = {"query": names, "family": families, "error": errors}
    return pa.table({name: pa.concat_arrays(parts) for name, parts in columns.items()})


def _error(db: Connection, family: Family) -> str | None:
    """Why a family is in quarantine; None if it is not."""
    failure = db.failures.of(family)
    return None if failure is None else failure.error


def _families(db: Connection) -> pa.Table:
    families = [f for f in db.registry if f.kind != "view"]
    return pa.table(
        {
            "family": pa.array([f.name for f in families], pa.string()),
            "queries": pa.array([len(f.queries) for f in families], pa.int64()),
            "parameters": pa.array([_columns(f.bound.params) for f in families], pa.string()),
            "first_text": pa.array([f.sql for f in families], pa.string()),
            "error": pa.array([_error(db, f) for f in families], pa.string()),
        }
    )


def _views(db: Connection) -> pa.Table:
    views = list(db.catalog.views)
    return pa.table(
        {
            "view": pa.array([v.name for v in views], pa.string()),
            "columns": pa.array([_columns(v.query.fields) for v in views], pa.string()),
        }
    )


def _sinks(db: Connection) -> pa.Table:
    sinks = list(db.catalog.sinks)
    return pa.table(
        {
            "sink": pa.array([s.name for s in sinks], pa.string()),
            "format": pa.array([s.external.format for s in sinks], pa.string()),
            "for": pa.array([", ".join(s.targets) or "all" for s in sinks], pa.string()),
        }
    )


def _functions(db: Connection) -> pa.Table:
    """The user's functions, then those of the language, by name."""
    rows: list[tuple[Any, ...]] = []
    for f in db.catalog.functions:
        errors, last = db.functions.errors.get(f.name.lower(), (0, None))
        rows.append(
            (f.name, ", ".join(t.name_of(x) for x in f.takes), t.name_of(f.gives), f"user ({f.kind})", errors, last)
        )
    built_in = {name: (s.takes, s.gives, "built-in") for name, s in NAMED.items()}
    built_in |= {name: (*form, "built-in") for name, form in FORMS.items()}
    built_in |= {name: (*form, "aggregate") for name, form in AGGREGATES.items()}
    rows += [(name, *built_in[name], None, None) for name in sorted(built_in)]
    columns = {"function": pa.string(), "takes": pa.string(), "gives": pa.string(), "kind": pa.string()}
    columns |= {"errors": pa.int64(), "last_error": pa.string()}
    return pa.table([pa.array([r[i] for r in rows], x) for i, x in enumerate(columns.values())], names=list(columns))


_SHOW = {
    "STREAMS": _streams,
    "TABLES": _tables,
    "QUERIES": _queries,
    "FAMILIES": _families,
    "VIEWS": _views,
    "SINKS": _sinks,
    "FUNCTIONS": _functions,
}


def _columns(fields: tuple[Field, ...]) -> str:
    return ", ".join(f"{f.name} {t.name_of(f.type)}" for f in fields)


def explain(db: Connection, name: str, analyze: bool) -> str:
    """The plan of a query's family, with the family and how many queries share it."""
    family, values = _find(db, name)
    n = len(family.queries)
    lines = [f"family {family.name}: {n} {'query' if n == 1 else 'queries'}"]
    if family.bound.params:
        lines.append("parameters: " + _columns(family.bound.params))
    if values:
        lines.append(
            f"{name}: " + ", ".join(f"{p.name} = {v}" for p, v in zip(family.bound.params, values, strict=True))
        )
    lines.append(plan_text.explain(family.plan, lambda _: f"shared by {n}"))
    failed = _error(db, family)
    if failed is not None:
        lines.append(f"in quarantine: {failed}")
    elif analyze:
        running = db.running[family.number]
        clock = times(np.array([running.clock], np.int64))[0].as_py()
        lines.append(f"clock: {clock}  changes: {running.changes}  rows of state: {running.state_rows()}")
        for o in running.root.walk():
            lines.append(f"  {type(o).__name__}: {o.note()}, {o.size()} rows")
            lines += [f"    {line}" for line in o.details()]
        lines += [f"  {line}" for line in _pool(db, family.number)]
        lines += [f"  {line}" for line in _failed_calls(db, family)]
    return "\n".join(lines)


def _failed_calls(db: Connection, family: Family) -> list[str]:
    """What went wrong in the functions that a family calls, in all families together."""
    called = {e.function.removeprefix("udf:") for e in expressions(family.bound.query) if isinstance(e, Call)}
    return [
        str(FunctionWarning(name, rows, db.functions.first.get(name, last)))
        for name, (rows, last) in db.functions.errors.items()
        if name in called
    ]


def _pool(db: Connection, family: int) -> list[str]:
    """What a family shares with the other small ones of its stream."""
    for stream, pool in db.pools.items():
        members = {s.family for r in pool.runs for s in r.stretches}
        if family in members:
            lines = [f"in the pool of {stream}: {sum(len(r) for r in pool.runs)} queries of {len(members)} families"]
            for run in pool.runs:
                attributes = [pool.attributes[a] for a in run.attributes]
                lines += [f"  {line}" for line in describe_filters([run.routed], attributes)]
            return lines
    return []


def _find(db: Connection, name: str) -> tuple[Family, list[Any]]:
    family = db.registry.find(name) if isinstance(name, str) else None
    if family is not None:
        return family, []
    owner = db.registry.owner(name) if isinstance(name, str) else None
    if owner is None:
        known = [f.name for f in db.registry] + _queries(db).column("query").slice(0, 1000).to_pylist()
        raise CatalogError(f"There is no query or family {name!r}.", hint=did_you_mean(str(name), known))
    family, query = owner
    rows = family.queries.rows()
    return family, [_shown(p[0]) for p in rows.all_params_at(rows.positions(np.array([query])))]


def _shown(value: pa.Scalar) -> Any:
    return ConstantList(value.values) if isinstance(value, pa.ListScalar) else value.as_py()


def stats(db: Connection) -> dict[str, Any]:
    """Counters: of the whole, per stream, per family and per function."""
    return {
        "queries": sum(len(f.queries) for f in db.registry if f.kind != "view"),
        "rows": sum(c.arrived for c in db.clocks.values()),
        "late": sum(c.late for c in db.clocks.values()),
        "changes": sum(r.changes for r in db.running.values()),
        "streams": {
            s.name: {
                "rows": db.clocks[s.name.lower()].arrived,
                "late": db.clocks[s.name.lower()].late,
                "ahead": db.clocks[s.name.lower()].ahead,
                "set_apart": sum(len(p[0]) for p in db.dead[s.name.lower()]),
                "watermark": _moment(db.clocks[s.name.lower()].watermark),
                "kept": len(db.histories[s.name.lower()]),
            }
            for s in db.catalog.streams
        },
        "tables": {x.name: {"rows": len(db.tables[x.name.lower()])} for x in db.catalog.tables},
        "families": {
            r.family.name: {
                "queries": len(r.family.queries),
                "changes": r.changes,
                "state_rows": r.state_rows(),
                "clock": _moment(r.clock),
            }
            for r in db.running.values()
        },
        "failed": {family.name: failure.error for family, failure in db.failures},
        "functions": {
            n: {"errors": k, "last_error": m, "first_error": db.functions.first.get(n, m)}
            for n, (k, m) in db.functions.errors.items()
        },
    }


def _moment(micros: int) -> Any:
    return None if micros == MIN else pc.cast(pa.scalar(micros), pa.timestamp("us")).as_py()
