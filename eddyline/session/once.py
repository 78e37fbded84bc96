"""One-time queries over the current tables and views: SELECT, and INSERT … SELECT."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from eddyline.engine.table_rows import TableRows
from eddyline.errors import Error
from eddyline.operators.base import Step
from eddyline.operators.build import build
from eddyline.operators.room import Room
from eddyline.operators.user_functions import Functions
from eddyline.plan.build import plan
from eddyline.plan.physical_planner import physical_plan
from eddyline.sql.binder import bind_family
from eddyline.sql.bound import TableSource, sources
from eddyline.sql.catalog import Catalog, Table
from eddyline.sql.scope import span_of
from eddyline.sql.statements import QueryText
from eddyline.state.delta import MAX, Delta
from eddyline.state.query_table import QueryTable

if TYPE_CHECKING:
    from eddyline.session.session import Session


def select(session: Session, text: QueryText) -> pa.Table:
    """Binds, plans and builds a query, and runs its operators once over the contents of its tables."""
    tables_only = _without_streams(session.catalog)
    _refuse_streams(session.catalog, tables_only, text)
    binding = bind_family(tables_only, text, ())
    read = {s.table.lower() for s in sources(binding.bound.query) if isinstance(s, TableSource)}
    contents = _contents(session, tables_only, read)
    queries = QueryTable(())
    queries.add_one("once", (), 0)
    root = build(physical_plan(plan(binding.bound.query)))
    nobody = queries.rows().only(np.empty(0, np.int64))
    functions = session.definitions.functions
    uncounted = Functions(functions.bodies, {})  # failures are counted once, in the replay
    room = Room(session.most_bytes)
    root.pull(Step("arrivals", 0, 0, nobody, uncounted, {}, contents, room=room))  # builds the state of joins
    answer = root.pull(Step("replay", 0, 0, queries.rows(), functions, {}, contents, room=room))
    answer = answer.take(answer.exp == MAX).spread()
    return pa.table(list(answer.columns), names=[f.name for f in binding.bound.query.fields])


def _without_streams(catalog: Catalog) -> Catalog:
    """Tables and functions as they are, and views as tables."""
    tables_only = Catalog()
    views = (Table(view.name, view.query.fields, (), True) for view in catalog.views)
    for entry in (*catalog.tables, *views, *catalog.functions):
        tables_only.add(entry)
    return tables_only


def _refuse_streams(catalog: Catalog, tables_only: Catalog, text: QueryText) -> None:
    named = {cte.alias.lower() for cte in text.tree.find_all(exp.CTE)}
    for node in text.tree.find_all(exp.Table):
        if node.name.lower() in named:
            continue
        if catalog.streams.get(node.name) is not None and tables_only.tables.get(node.name) is None:
            message = f"{node.name!r} is a stream: it has no content of its own to select from."
            hint = "CREATE CONTINUOUS QUERY or MATERIALIZED VIEW over it."
            raise Error(message, hint=hint, sql=text.sql, span=span_of(node))


def _contents(session: Session, tables_only: Catalog, read: set[str]) -> dict[str, Delta]:
    contents: dict[str, Delta] = {}
    for name in sorted(read):
        if session.catalog.tables.get(name) is not None:
            contents[name] = session.contents.table(name).content()
        else:
            rows = TableRows(tables_only.tables[name])
            rows.load([c.combine_chunks() for c in session.contents.view(name).columns])
            contents[name] = rows.content()
    return contents
