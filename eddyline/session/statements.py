"""What each statement does to a connection, one short function each. A statement applies whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from eddyline.engine.family import check_options
from eddyline.engine.table_rows import TableRows
from eddyline.errors import CatalogError, DataError, Error, ParseError, did_you_mean
from eddyline.operators.base import Step
from eddyline.operators.evaluate import Functions, evaluate, holds
from eddyline.operators.lower import lower_family
from eddyline.operators.room import Room
from eddyline.plan.build import plan
from eddyline.session import input_rows
from eddyline.sql import statements as st
from eddyline.sql.binder import bind_family
from eddyline.sql.bound import Expr, Field, TableSource, sources
from eddyline.sql.catalog import Catalog, Stream, Table
from eddyline.sql.declared import declared
from eddyline.sql.expressions import ExpressionBinder
from eddyline.sql.scope import Constants, Scope, ScopeColumn, fail, span_of
from eddyline.state.delta import MAX
from eddyline.state.query_table import QueryTable

if TYPE_CHECKING:
    from eddyline.local.connection import Connection


def run_script(db: Connection, script: Sequence[st.Statement], sql: str) -> Any:
    """Runs statements in order; the first error stops the script and names its place."""
    if not script:
        raise ParseError("There is no statement to run.", sql=sql, span=(0, 0))
    result: Any = None
    for statement in script:
        try:
            result = _RUN[type(statement.body)](db, statement.body, statement)
        except Error as e:
            raise e.at(statement.sql, statement.span) from None
    return result


# CREATE


def _declare(db: Connection, s: st.CreateStream | st.CreateTable, _: st.Statement) -> None:
    db.define(declared(s, db.catalog))


def _create_query(db: Connection, s: st.CreateQuery, whole: st.Statement) -> Any:
    return db.create_query(s.name, s.query, s.options, s.text, whole.sql)


def _create_family(db: Connection, s: st.CreateFamily, _: st.Statement) -> None:
    db.registry.require_free(s.name)
    check_options(s.options)
    if any(p.name.lower() == "query" for p in s.params):
        raise CatalogError("A parameter cannot be called 'query'.", hint="That column holds the names of the queries.")
    binding = db.bind(s.query, s.params)
    db.registry.declare(s.name, binding, s.options, "declared", s.text, db.start)


def _create_view(db: Connection, s: st.CreateView, _: st.Statement) -> Any:
    view = declared(s, db.catalog)
    db.registry.require_free(s.name)
    binding = bind_family(db.catalog, s.query, ())
    family = db.registry.declare(f"view {s.name}", binding, {}, "view", s.text, db.start)
    try:
        db.define(view)
        return db.add_query(family, s.name, ())
    except BaseException:
        db.remove(family)
        if db.catalog.views.get(view.name) is not None:
            db.undefine("view", view.name)
        raise


def _create_sink(db: Connection, s: st.CreateSink, _: st.Statement) -> None:
    sink = declared(s, db.catalog)
    for target in s.targets:
        if db.registry.find(target) is None and db.registry.owner(target) is None:
            known = [f.name for f in db.registry if f.kind == "declared"]
            raise CatalogError(f"There is no query or family {target!r}.", hint=did_you_mean(target, known))
    db.define(sink)


# DROP


def _drop(db: Connection, s: st.Drop, _: st.Statement) -> None:
    if s.if_exists and not _exists(db, s):
        return
    match s.kind:
        case "query":
            family, query = db.query(s.name)
            if family.kind == "view":
                raise CatalogError(f"{s.name!r} is a materialized view.", hint=f"DROP MATERIALIZED VIEW {s.name}.")
            db.drop_query(family, s.name, query)
        case "family":
            family = db.registry.named(s.name)
            if family.kind != "declared":
                raise CatalogError(f"{s.name!r} was not declared.", hint="It goes away with its last query.")
            db.remove(family)
        case "view":
            view = db.catalog.views[s.name]
            _require_unused(db, view.name)
            db.remove(db.registry.named(f"view {view.name}"))
            db.undefine("view", view.name)
        case "sink":
            db.undefine("sink", db.catalog.sinks[s.name].name)
        case "stream" | "table":
            name = (db.catalog.streams if s.kind == "stream" else db.catalog.tables)[s.name].name
            _require_unused(db, name)
            db.undefine(s.kind, name)


def _exists(db: Connection, s: st.Drop) -> bool:
    match s.kind:
        case "query":
            return db.registry.owner(s.name) is not None
        case "family":
            return db.registry.find(s.name) is not None
        case _:
            space = {"stream": db.catalog.streams, "table": db.catalog.tables, "view": db.catalog.views}
            return space.get(s.kind, db.catalog.sinks).get(s.name) is not None  # type: ignore[attr-defined]


def _require_unused(db: Connection, name: str) -> None:
    for family in db.registry:
        if name.lower() in family.reads():
            kind = "view" if family.kind == "view" else "family"
            raise CatalogError(
                f"{name!r} is read by {kind} {family.name.removeprefix('view ')!r} ({len(family.queries)} queries).",
                hint="Drop its queries first.",
            )


# SHOW, EXPLAIN, SELECT


def _show(db: Connection, s: st.Show, _: st.Statement) -> pa.Table:
    return db.show(s.what)


def _explain(db: Connection, s: st.Explain, _: st.Statement) -> pa.Table:
    return pa.table({"plan": db.explain(s.name, s.analyze).split("\n")})


def _select(db: Connection, s: st.SelectOnce, _: st.Statement) -> pa.Table:
    return select(db, s.query)


def select(db: Connection, text: st.QueryText) -> pa.Table:
    """A query asked once, over tables and views as they stand."""
    standing = Catalog()
    for table in db.catalog.tables:
        standing.add(table)
    for view in db.catalog.views:
        fields = view.query.fields
        standing.add(Table(view.name, fields, (), True))
    for function in db.catalog.functions:
        standing.add(function)
    named = {cte.alias.lower() for cte in text.tree.find_all(exp.CTE)}
    for node in text.tree.find_all(exp.Table):
        if node.name.lower() in named:
            continue
        if db.catalog.streams.get(node.name) is not None and standing.tables.get(node.name) is None:
            message = f"{node.name!r} is a stream: it has no content of its own to select from."
            raise Error(
                message, hint="CREATE CONTINUOUS QUERY or MATERIALIZED VIEW over it.", sql=text.sql, span=span_of(node)
            )
    binding = bind_family(standing, text, ())
    read = {s.table.lower() for s in sources(binding.bound.query) if isinstance(s, TableSource)}
    contents = {name: db.content(name) for name in sorted(read) if db.catalog.tables.get(name) is not None}
    for view in (v for v in db.catalog.views if v.name.lower() in read):
        rows = TableRows(standing.tables[view.name])
        rows.columns = [c.combine_chunks() for c in db.snapshot(view.name).columns]
        contents[view.name.lower()] = rows.content()
    asking = QueryTable(())
    asking.add_one("once", (), 0)
    root = lower_family(plan(binding.bound.query))
    nobody = asking.rows().only(np.empty(0, np.int64))
    uncounted = Functions(db.functions.bodies, {})  # what goes wrong is counted once, in the replay
    room = Room(db.most_bytes)
    root.pull(Step("arrivals", 0, 0, nobody, uncounted, {}, contents, room=room))  # the tables take their places
    found = root.pull(Step("replay", 0, 0, asking.rows(), db.functions, {}, contents, room=room))
    found = found.take(found.exp == MAX).spread()
    return pa.table(list(found.columns), names=[f.name for f in binding.bound.query.fields])


# INSERT, UPDATE, DELETE


def _insert(db: Connection, s: st.Insert, whole: st.Statement) -> Any:
    target = db.catalog.tables.get(s.target) or db.catalog.streams.get(s.target)
    if target is None:
        known = db.catalog.tables.names() + db.catalog.streams.names()
        raise CatalogError(f"There is no table or stream {s.target!r}.", hint=did_you_mean(s.target, known))
    fields = _target_fields(target, s.columns)
    if s.query is not None:
        given = _from_query(db, s.query, fields, target.name)
    else:
        given = _from_values(db, s.values, fields)
    n = len(given[0])
    by_name = {f.name: c for f, c in zip(fields, given, strict=True)}
    columns = [by_name.get(f.name, pa.nulls(n, f.type)) for f in target.fields]
    if isinstance(target, Stream):
        return db.push(target.name, pa.table(columns, names=[f.name for f in target.fields]))
    rows = db.tables[target.name.lower()]
    return db.change_table(target, np.zeros(len(rows), np.bool_), columns)


def _target_fields(target: Table | Stream, names: Sequence[str]) -> list[Field]:
    if not names:
        return list(target.fields)
    known = {f.name.lower(): f for f in target.fields}
    for i, n in enumerate(names):
        if n.lower() not in known:
            raise CatalogError(f"There is no column {n!r} in {target.name!r}.", hint=did_you_mean(n, known))
        if n.lower() in [x.lower() for x in names[:i]]:
            raise CatalogError(f"Column {n!r} is named twice.")
    return [known[n.lower()] for n in names]


def _from_query(db: Connection, text: st.QueryText, fields: Sequence[Field], target: str) -> list[pa.Array]:
    found = select(db, text)
    if found.num_columns != len(fields):
        raise DataError(f"{target!r} takes {len(fields)} columns, the query gives {found.num_columns}.")
    what = f"table {target!r}"
    return [input_rows.cast_column(what, f, c.combine_chunks()) for f, c in zip(fields, found.columns, strict=True)]


def _from_values(db: Connection, values: exp.Expr | None, fields: Sequence[Field]) -> list[pa.Array]:
    binder = ExpressionBinder(db.catalog, Scope([]), Constants("keep"))
    if values is None or not values.expressions:
        raise DataError("There are no rows to insert.", hint="Write VALUES (…), (…).")
    columns: list[list[Any]] = [[] for _ in fields]
    for row in values.expressions:
        items = row.expressions if isinstance(row, exp.Tuple) else [row]
        if len(items) != len(fields):
            fail(
                row,
                f"Expected {len(fields)} values, found {len(items)}.",
                f"Columns: {', '.join(f.name for f in fields)}.",
            )
        for column, item, f in zip(columns, items, fields, strict=True):
            expr = binder.assigned(item, f.type)
            column.append(evaluate(expr, (), (), 1, db.functions)[0].as_py())
    return [pa.array(c, f.type) for c, f in zip(columns, fields, strict=True)]


def _table_scope(db: Connection, name: str) -> tuple[Table, TableRows, ExpressionBinder]:
    table = db.catalog.tables.get(name)
    if table is None:
        raise CatalogError(f"There is no table {name!r}.", hint=did_you_mean(name, db.catalog.tables.names()))
    scope = Scope([ScopeColumn(table.name, f.name, f.type) for f in table.fields])
    return table, db.tables[name.lower()], ExpressionBinder(db.catalog, scope, Constants("keep"))


def _where(db: Connection, rows: TableRows, binder: ExpressionBinder, tree: exp.Expr | None) -> Any:
    if tree is None:
        return np.ones(len(rows), np.bool_)
    return holds(binder.condition(tree, "WHERE"), rows.columns, (), len(rows), db.functions)


def _update(db: Connection, s: st.Update, _: st.Statement) -> Any:
    table, rows, binder = _table_scope(db, s.target)
    assigned: dict[int, Expr] = {}
    for target, value in s.assignments:
        column = binder.bind(target)
        index = column.index  # type: ignore[union-attr]
        if index in assigned:
            fail(target, f"Column {target.name!r} is set twice.")
        assigned[index] = binder.assigned(value, table.fields[index].type)
    hit = _where(db, rows, binder, s.where)
    where = pa.array(np.nonzero(hit)[0])
    old = [c.take(where) for c in rows.columns]
    new = [evaluate(assigned[i], old, (), len(where), db.functions) if i in assigned else c for i, c in enumerate(old)]
    return db.change_table(table, hit, new)


def _delete(db: Connection, s: st.Delete, _: st.Statement) -> Any:
    table, rows, binder = _table_scope(db, s.target)
    hit = _where(db, rows, binder, s.where)
    return db.change_table(table, hit, [pa.array([], f.type) for f in table.fields])


_RUN: dict[type, Callable[..., Any]] = {
    st.CreateStream: _declare,
    st.CreateTable: _declare,
    st.CreateQuery: _create_query,
    st.CreateFamily: _create_family,
    st.CreateView: _create_view,
    st.CreateSink: _create_sink,
    st.Drop: _drop,
    st.Show: _show,
    st.Explain: _explain,
    st.SelectOnce: _select,
    st.Insert: _insert,
    st.Update: _update,
    st.Delete: _delete,
}
