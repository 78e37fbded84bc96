"""INSERT, UPDATE and DELETE: which rows of a table leave, and which enter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from eddyline.engine.actions import Action, ChangeTable
from eddyline.engine.table_rows import TableRows
from eddyline.errors import CatalogError, DataError, did_you_mean
from eddyline.operators.evaluate import evaluate, holds
from eddyline.session import input_rows
from eddyline.session.once import select
from eddyline.sql import statements as st
from eddyline.sql.bound import Expr, Field
from eddyline.sql.catalog import Stream, Table
from eddyline.sql.expressions import ExpressionBinder
from eddyline.sql.scope import Constants, Scope, ScopeColumn, fail

if TYPE_CHECKING:
    from eddyline.session.session import Session

_NONE = np.empty(0, np.int64)


def insert(session: Session, s: st.Insert) -> list[Action] | pa.Table:
    """The change of a table; for a stream, the rows to push."""
    catalog = session.catalog
    target = catalog.tables.get(s.target) or catalog.streams.get(s.target)
    if target is None:
        known = catalog.tables.names() + catalog.streams.names()
        raise CatalogError(f"There is no table or stream {s.target!r}.", hint=did_you_mean(s.target, known))
    fields = _target_fields(target, s.columns)
    if s.query is not None:
        given = _from_query(session, s.query, fields, target.name)
    else:
        given = _from_values(session, s.values, fields)
    n = len(given[0])
    by_name = {f.name: c for f, c in zip(fields, given, strict=True)}
    columns = [by_name.get(f.name, pa.nulls(n, f.type)) for f in target.fields]
    if isinstance(target, Stream):
        return pa.table(columns, names=[f.name for f in target.fields])
    return [ChangeTable(target.name, _NONE, tuple(columns))]


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


def _from_query(session: Session, text: st.QueryText, fields: Sequence[Field], target: str) -> list[pa.Array]:
    rows = select(session, text)
    if rows.num_columns != len(fields):
        raise DataError(f"{target!r} takes {len(fields)} columns, the query gives {rows.num_columns}.")
    what = f"table {target!r}"
    return [input_rows.cast_column(what, f, c.combine_chunks()) for f, c in zip(fields, rows.columns, strict=True)]


def _from_values(session: Session, values: exp.Expr | None, fields: Sequence[Field]) -> list[pa.Array]:
    binder = ExpressionBinder(session.catalog, Scope([]), Constants("keep"))
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
            column.append(evaluate(expr, (), (), 1, session.definitions.functions)[0].as_py())
    return [pa.array(c, f.type) for c, f in zip(columns, fields, strict=True)]


def update(session: Session, s: st.Update) -> list[Action]:
    table, rows, binder = _table_scope(session, s.target)
    assigned: dict[int, Expr] = {}
    for target, value in s.assignments:
        column = binder.bind(target)
        index = column.index  # type: ignore[union-attr]
        if index in assigned:
            fail(target, f"Column {target.name!r} is set twice.")
        assigned[index] = binder.assigned(value, table.fields[index].type)
    leave = _where(session, rows, binder, s.where)
    old = [c.take(pa.array(leave)) for c in rows.columns]
    functions = session.definitions.functions
    new = [evaluate(assigned[i], old, (), len(leave), functions) if i in assigned else c for i, c in enumerate(old)]
    return [ChangeTable(table.name, leave, tuple(new))]


def delete(session: Session, s: st.Delete) -> list[Action]:
    table, rows, binder = _table_scope(session, s.target)
    leave = _where(session, rows, binder, s.where)
    return [ChangeTable(table.name, leave, tuple(pa.array([], f.type) for f in table.fields))]


def _table_scope(session: Session, name: str) -> tuple[Table, TableRows, ExpressionBinder]:
    table = session.catalog.tables.get(name)
    if table is None:
        raise CatalogError(f"There is no table {name!r}.", hint=did_you_mean(name, session.catalog.tables.names()))
    scope = Scope([ScopeColumn(table.name, f.name, f.type) for f in table.fields])
    rows = session.definitions.tables[name.lower()]
    return table, rows, ExpressionBinder(session.catalog, scope, Constants("keep"))


def _where(session: Session, rows: TableRows, binder: ExpressionBinder, tree: exp.Expr | None) -> npt.NDArray[np.int64]:
    """The positions of the rows that satisfy a condition."""
    if tree is None:
        return np.arange(len(rows))
    condition = binder.condition(tree, "WHERE")
    return np.nonzero(holds(condition, rows.columns, (), len(rows), session.definitions.functions))[0]
