"""Turns a CREATE statement into the catalog entry or bound query it declares, on every host and on recovery."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import pyarrow as pa

from eddyline.errors import CatalogError, did_you_mean
from eddyline.sql.binder import Binding, bind_family, bind_standing
from eddyline.sql.catalog import Catalog, Sink, Stream, Table, View
from eddyline.sql.scope import InLists
from eddyline.sql.statements import CreateFamily, CreateQuery, CreateSink, CreateStream, CreateTable, CreateView


@singledispatch
def declared(statement: Any, catalog: Catalog) -> Stream | Table | View | Sink:
    """The stream, table, view or sink that a statement declares; its name must not be taken."""
    raise TypeError(f"{type(statement).__name__} declares nothing")


@declared.register
def _(s: CreateStream, catalog: Catalog) -> Stream:
    catalog.require_new_relation(s.name)
    names = [f.name.lower() for f in s.fields]
    if s.time.lower() not in names:
        hint = did_you_mean(s.time, [f.name for f in s.fields])
        raise CatalogError(f"There is no column {s.time!r} for the watermark.", hint=hint, span=s.span)
    time = names.index(s.time.lower())
    if s.fields[time].type != pa.timestamp("us"):
        raise CatalogError(f"The watermark column {s.time!r} must be a TIMESTAMP.", span=s.span)
    return Stream(s.name, s.fields, time, s.delay, s.idle, s.external, s.text, s.future)


@declared.register
def _(s: CreateTable, catalog: Catalog) -> Table:
    catalog.require_new_relation(s.name)
    names = [f.name.lower() for f in s.fields]
    key = tuple(names.index(k.lower()) for k in s.key)
    return Table(s.name, s.fields, key, s.retroactive, s.external, s.text)


@declared.register
def _(s: CreateView, catalog: Catalog) -> View:
    catalog.require_new_relation(s.name)
    return View(s.name, bind_family(catalog, s.query, ()).bound.query, s.refresh_within, s.text)


@declared.register
def _(s: CreateSink, catalog: Catalog) -> Sink:
    if catalog.sinks.get(s.name) is not None:
        raise CatalogError(f"There is already a sink {s.name!r}.", hint="Choose another name, or DROP SINK first.")
    return Sink(s.name, s.external, s.targets, s.text)


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
