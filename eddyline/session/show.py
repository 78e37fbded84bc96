"""The tables that SHOW returns, and the text of EXPLAIN.

Names, types and plans come from the catalog and the registry. Figures of the data come from the host (`Figures`); those
that it does not know are NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from eddyline import types as t
from eddyline.aggregates import AGGREGATES
from eddyline.arrays import Ints
from eddyline.engine.family import Family, length_text
from eddyline.plan.explain import explain as explain_logical
from eddyline.plan.explain_physical import explain_physical
from eddyline.session.session import Session
from eddyline.sql.bound import Field
from eddyline.sql.constant_lists import ConstantList
from eddyline.sql.functions import FORMS, NAMED
from eddyline.state.delta import event_time


@dataclass(frozen=True)
class StreamFigures:
    watermark: int
    rows: int | None
    late: int | None


class Figures(Protocol):
    """What a host knows of its data."""

    def stream(self, name: str) -> StreamFigures: ...

    def table_rows(self, name: str) -> int | None: ...

    def family_error(self, family: Family) -> str | None:
        """Why a family is in quarantine; None if it is not."""

    def query_errors(self, family: Family, ids: Ints) -> pa.Array:
        """By query, why it is in quarantine; NULL if it is not."""

    def function_errors(self, name: str) -> tuple[int | None, str | None]:
        """For how many rows its calls failed, and how the last of them did."""


def show(session: Session, what: str, figures: Figures) -> pa.Table:
    """`what` is STREAMS, TABLES, QUERIES, …"""
    return _SHOW[what](session, figures)


def _table(rows: Iterable[Sequence[Any]], /, **columns: pa.DataType) -> pa.Table:
    """A table with these columns, from its rows."""
    given = list(rows)
    return pa.table(
        {name: pa.array([row[i] for row in given], type_) for i, (name, type_) in enumerate(columns.items())}
    )


def _streams(session: Session, figures: Figures) -> pa.Table:
    known = [(s, figures.stream(s.name)) for s in session.catalog.streams]
    rows = ((s.name, columns_text(s.fields), event_time(k.watermark), k.rows, k.late) for s, k in known)
    return _table(rows, stream=t.STRING, columns=t.STRING, watermark=t.TIMESTAMP, rows=t.BIGINT, late=t.BIGINT)


def _tables(session: Session, figures: Figures) -> pa.Table:
    tables = session.catalog.tables
    rows = ((x.name, columns_text(x.fields), x.retroactive, figures.table_rows(x.name)) for x in tables)
    return _table(rows, table=t.STRING, columns=t.STRING, retroactive=t.BOOLEAN, rows=t.BIGINT)


def _queries(session: Session, figures: Figures) -> pa.Table:
    names, families, errors = ([pa.array([], pa.string())] for _ in range(3))
    for f in session.registry:
        if f.kind != "view":
            rows = f.queries.rows()
            live = rows.live()
            names.append(rows.names_at(live))
            families.append(pa.repeat(f.name, len(live)))
            errors.append(figures.query_errors(f, rows.ids_at(live)))
    columns = {"query": names, "family": families, "error": errors}
    return pa.table({name: pa.concat_arrays(parts) for name, parts in columns.items()})


def _families(session: Session, figures: Figures) -> pa.Table:
    rows = (
        (f.name, len(f.queries), columns_text(f.bound.params), f.sql, figures.family_error(f))
        for f in session.registry
        if f.kind != "view"
    )
    texts = {"parameters": t.STRING, "first_text": t.STRING, "error": t.STRING}
    return _table(rows, family=t.STRING, queries=t.BIGINT, **texts)


def _views(session: Session, figures: Figures) -> pa.Table:
    rows = ((v.name, columns_text(v.query.fields)) for v in session.catalog.views)
    return _table(rows, view=t.STRING, columns=t.STRING)


def _sinks(session: Session, figures: Figures) -> pa.Table:
    rows = ((s.name, s.external.format, ", ".join(s.targets) or "all") for s in session.catalog.sinks)
    return _table(rows, **{"sink": t.STRING, "format": t.STRING, "for": t.STRING})


def _functions(session: Session, figures: Figures) -> pa.Table:
    """The user's functions, then those of the language, by name."""
    rows: list[tuple[Any, ...]] = []
    for f in session.catalog.functions:
        takes = ", ".join(t.name_of(x) for x in f.takes)
        rows.append((f.name, takes, t.name_of(f.gives), f"user ({f.kind})", *figures.function_errors(f.name.lower())))
    built_in = {name: (s.takes, s.gives, "built-in") for name, s in NAMED.items()}
    built_in |= {name: (*form, "built-in") for name, form in FORMS.items()}
    built_in |= {name: (f.takes, f.gives, "aggregate") for name, f in AGGREGATES.items()}
    rows += [(name, *built_in[name], None, None) for name in sorted(built_in)]
    errors = {"errors": t.BIGINT, "last_error": t.STRING}
    return _table(rows, function=t.STRING, takes=t.STRING, gives=t.STRING, kind=t.STRING, **errors)


_SHOW: dict[str, Callable[[Session, Figures], pa.Table]] = {
    "STREAMS": _streams,
    "TABLES": _tables,
    "QUERIES": _queries,
    "FAMILIES": _families,
    "VIEWS": _views,
    "SINKS": _sinks,
    "FUNCTIONS": _functions,
}


def columns_text(fields: tuple[Field, ...]) -> str:
    return ", ".join(f"{f.name} {t.name_of(f.type)}" for f in fields)


def explain(session: Session, name: str) -> tuple[Family, list[str]]:
    """The family of a query, or with this name, and its plan: with how many queries share it, and the constants of the
    query."""
    family, query = session.registry.family_of(name)
    values = [] if query is None else _constants(family, query)
    n = len(family.queries)
    lines = [f"family {family.name}: {n} {'query' if n == 1 else 'queries'}"]
    if family.bound.params:
        lines.append("parameters: " + columns_text(family.bound.params))
    if values:
        lines.append(
            f"{name}: " + ", ".join(f"{p.name} = {v}" for p, v in zip(family.bound.params, values, strict=True))
        )
    lines += _pace(family)
    lines += [f"rewritten: {rewrite}" for rewrite in family.rewrites]
    lines.append(explain_logical(family.plan, lambda _: f"shared by {n}"))
    lines += ["physical plan:", explain_physical(family.physical, family.bound.params)]
    return family, lines


def _pace(family: Family) -> list[str]:
    """How often the family is evaluated and expired, where its options say so."""
    lines = []
    if "evaluate" in family.options:
        every = f"every {length_text(family.evaluate)} of event time" if family.evaluate else "when tuples arrive"
        lines.append(f"evaluated {every}")
    if family.expire is not None:
        every = f"every {length_text(family.expire)} of event time" if family.expire else "at every evaluation"
        asked = family.options["expire"]
        clamped = asked != length_text(family.expire)
        remark = f" ({asked} asked for; never more often than it is evaluated)" if clamped else ""
        lines.append(f"expired {every}{remark}")
    return lines


def _constants(family: Family, query: int) -> list[Any]:
    rows = family.queries.rows()
    scalars = [p[0] for p in rows.all_params_at(rows.positions(np.array([query])))]
    return [ConstantList(s.values) if isinstance(s, pa.ListScalar) else s.as_py() for s in scalars]
