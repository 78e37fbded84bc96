"""Turns a CREATE statement into the catalog entry or bound query it declares, on every host and on recovery."""

from __future__ import annotations

from eddyline.errors import CatalogError
from eddyline.sql.binder import Binding, bind_family, bind_standing
from eddyline.sql.catalog import Catalog, Sink, Stream, Table, View
from eddyline.sql.scope import InLists
from eddyline.sql.statements import CreateFamily, CreateQuery, CreateView


def declared(statement: Stream | Table | Sink | CreateView, catalog: Catalog) -> Stream | Table | View | Sink:
    """The stream, table, view or sink that a statement declares; its name must not be taken."""
    if isinstance(statement, Sink):
        if catalog.sinks.get(statement.name) is not None:
            message = f"There is already a sink {statement.name!r}."
            raise CatalogError(message, hint="Choose another name, or DROP SINK first.")
        return statement
    catalog.require_new_relation(statement.name)
    if isinstance(statement, CreateView):
        query = bind_family(catalog, statement.query, ()).bound.query
        return View(statement.name, query, statement.refresh_within, statement.text)
    return statement


def shape(
    s: CreateQuery | CreateFamily | CreateView, catalog: Catalog, in_lists: InLists = "whole"
) -> tuple[Binding, dict[str, str]]:
    """The bound query of a family and its options, from the statement that created the family.

    `in_lists` is how long IN lists became parameters when the family was created."""
    match s:
        case CreateQuery():
            return bind_standing(catalog, s.query, in_lists), dict(s.options)
        case CreateFamily():
            return bind_family(catalog, s.query, s.params), dict(s.options)
        case CreateView():
            return bind_family(catalog, s.query, ()), {}
