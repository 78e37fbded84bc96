"""Runs parsed statements on a host: a statement becomes actions, which the host applies, or a question to the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from eddyline.engine.actions import Action, AddQuery, Define, RemoveFamily, Undefine
from eddyline.engine.family import check_options
from eddyline.errors import CatalogError, Error, ParseError, did_you_mean
from eddyline.session.once import select
from eddyline.session.session import Session, new_family
from eddyline.session.table_statements import delete, insert, update
from eddyline.sql import statements as st
from eddyline.sql.catalog import Sink, Stream, Table
from eddyline.sql.declared import declared


class Host(Protocol):
    """What a host does with the statements of its session."""

    session: Session

    def apply(self, actions: Sequence[Action]) -> Any:
        """Applies the actions of one statement, whole or not at all; returns the changes that they make."""

    def insert(self, stream: str, rows: pa.Table) -> Any: ...

    def show(self, what: str) -> pa.Table: ...

    def explain(self, name: str, analyze: bool) -> str: ...


def run_script(host: Host, script: Sequence[st.Statement], sql: str) -> Any:
    """Runs statements in order, and returns what the last one gives; the first error stops the script and names its
    place."""
    if not script:
        raise ParseError("There is no statement to run.", sql=sql, span=(0, 0))
    result: Any = None
    for statement in script:
        try:
            result = _run(host, statement)
        except Error as e:
            raise e.at(statement.sql, statement.span) from None
    return result


def _run(host: Host, statement: st.Statement) -> Any:
    body = statement.body
    match body:
        case st.Show():
            return host.show(body.what)
        case st.Explain():
            return pa.table({"plan": host.explain(body.name, body.analyze).split("\n")})
        case st.SelectOnce():
            return select(host.session, body.query)
        case st.Insert():
            rows = insert(host.session, body)
            return host.insert(body.target, rows) if isinstance(rows, pa.Table) else host.apply(rows)
    changes = host.apply(_actions(host.session, statement))
    return changes if isinstance(body, st.CreateQuery | st.CreateView | st.Update | st.Delete) else None


def _actions(session: Session, statement: st.Statement) -> list[Action]:
    """The actions that a statement stands for."""
    body = statement.body
    match body:
        case Stream() | Table():
            return [Define(body.sql, declared(body, session.catalog))]
        case Sink():
            return _create_sink(session, body)
        case st.CreateQuery():
            return session.create_query(body, statement.sql)
        case st.CreateFamily():
            return _create_family(session, body)
        case st.CreateView():
            return _create_view(session, body)
        case st.Drop():
            return _drop(session, body)
        case st.Update():
            return update(session, body)
        case st.Delete():
            return delete(session, body)
    raise TypeError(f"{type(body).__name__} has no actions")


def _create_family(session: Session, s: st.CreateFamily) -> list[Action]:
    session.registry.require_free(s.name)
    check_options(s.options)
    if any(p.name.lower() == "query" for p in s.params):
        raise CatalogError("A parameter cannot be called 'query'.", hint="That column holds the names of the queries.")
    binding = session.bind(s.query, s.params)
    return [new_family(session.declare_family(s.name, binding, s.options, "declared", s.text))]


def _create_view(session: Session, s: st.CreateView) -> list[Action]:
    view = declared(s, session.catalog)
    session.registry.require_free(s.name)
    family = session.declare_family(f"view {s.name}", session.bind(s.query, ()), {}, "view", s.text)
    return [new_family(family), Define(view.sql, view), AddQuery(family.number, s.name, ())]


def _create_sink(session: Session, sink: Sink) -> list[Action]:
    declared(sink, session.catalog)
    for target in sink.targets:
        if session.registry.is_free(target):
            known = [f.name for f in session.registry if f.kind == "declared"]
            raise CatalogError(f"There is no query or family {target!r}.", hint=did_you_mean(target, known))
    return [Define(sink.sql, sink)]


# DROP


def _drop(session: Session, s: st.Drop) -> list[Action]:
    if s.if_exists and not _exists(session, s):
        return []
    catalog, registry = session.catalog, session.registry
    match s.kind:
        case "query":
            family, query = registry.query(s.name)
            if family.kind == "view":
                raise CatalogError(f"{s.name!r} is a materialized view.", hint=f"DROP MATERIALIZED VIEW {s.name}.")
            return [session.drop_query(family, query, s.name)]
        case "family":
            family = registry.named(s.name)
            if family.kind != "declared":
                raise CatalogError(f"{s.name!r} was not declared.", hint="It is removed with its last query.")
            return [RemoveFamily(family.number)]
        case "view":
            view = catalog.views[s.name]
            _require_unused(session, view.name)
            return [RemoveFamily(registry.named(f"view {view.name}").number), Undefine("view", view.name)]
        case "sink" | "stream" | "table":
            name = catalog.space(s.kind)[s.name].name
            if s.kind != "sink":
                _require_unused(session, name)
            return [Undefine(s.kind, name)]


def _exists(session: Session, s: st.Drop) -> bool:
    match s.kind:
        case "query":
            return session.registry.owner(s.name) is not None
        case "family":
            return session.registry.find(s.name) is not None
        case _:
            return session.catalog.space(s.kind).get(s.name) is not None


def _require_unused(session: Session, name: str) -> None:
    for family in session.registry:
        if name.lower() in family.reads():
            kind = "view" if family.kind == "view" else "family"
            raise CatalogError(
                f"{name!r} is read by {kind} {family.name.removeprefix('view ')!r} ({len(family.queries)} queries).",
                hint="Drop its queries first.",
            )
