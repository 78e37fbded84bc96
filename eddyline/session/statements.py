"""What each statement means: actions, or a question to the host. One short function for each statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from eddyline.engine.actions import Action, AddQuery, Define, RemoveFamily, Undefine
from eddyline.engine.family import check_options
from eddyline.errors import CatalogError, Error, ParseError, did_you_mean
from eddyline.session.once import select
from eddyline.session.session import Session, new_family
from eddyline.session.table_statements import delete, insert, update
from eddyline.sql import statements as st
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
    changes = host.apply(_ACTIONS[type(body)](host.session, body, statement))
    return changes if isinstance(body, st.CreateQuery | st.CreateView | st.Update | st.Delete) else None


# CREATE


def _declare(session: Session, s: st.CreateStream | st.CreateTable, _: st.Statement) -> list[Action]:
    relation = declared(s, session.catalog)
    return [Define(relation.sql, relation)]


def _create_query(session: Session, s: st.CreateQuery, whole: st.Statement) -> list[Action]:
    return session.create_query(s.name, s.query, s.options, s.text, whole.sql)


def _create_family(session: Session, s: st.CreateFamily, _: st.Statement) -> list[Action]:
    session.registry.require_free(s.name)
    check_options(s.options)
    if any(p.name.lower() == "query" for p in s.params):
        raise CatalogError("A parameter cannot be called 'query'.", hint="That column holds the names of the queries.")
    binding = session.bind(s.query, s.params)
    return [new_family(session.declare_family(s.name, binding, s.options, "declared", s.text))]


def _create_view(session: Session, s: st.CreateView, _: st.Statement) -> list[Action]:
    view = declared(s, session.catalog)
    session.registry.require_free(s.name)
    family = session.declare_family(f"view {s.name}", session.bind(s.query, ()), {}, "view", s.text)
    return [new_family(family), Define(view.sql, view), AddQuery(family.number, s.name, ())]


def _create_sink(session: Session, s: st.CreateSink, _: st.Statement) -> list[Action]:
    sink = declared(s, session.catalog)
    for target in s.targets:
        if session.registry.is_free(target):
            known = [f.name for f in session.registry if f.kind == "declared"]
            raise CatalogError(f"There is no query or family {target!r}.", hint=did_you_mean(target, known))
    return [Define(sink.sql, sink)]


# DROP


def _drop(session: Session, s: st.Drop, _: st.Statement) -> list[Action]:
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
        case "sink":
            return [Undefine("sink", catalog.sinks[s.name].name)]
        case "stream" | "table":
            name = (catalog.streams if s.kind == "stream" else catalog.tables)[s.name].name
            _require_unused(session, name)
            return [Undefine(s.kind, name)]


def _exists(session: Session, s: st.Drop) -> bool:
    match s.kind:
        case "query":
            return session.registry.owner(s.name) is not None
        case "family":
            return session.registry.find(s.name) is not None
        case _:
            catalog = session.catalog
            space = {"stream": catalog.streams, "table": catalog.tables, "view": catalog.views}
            return space.get(s.kind, catalog.sinks).get(s.name) is not None  # type: ignore[attr-defined]


def _require_unused(session: Session, name: str) -> None:
    for family in session.registry:
        if name.lower() in family.reads():
            kind = "view" if family.kind == "view" else "family"
            raise CatalogError(
                f"{name!r} is read by {kind} {family.name.removeprefix('view ')!r} ({len(family.queries)} queries).",
                hint="Drop its queries first.",
            )


# UPDATE, DELETE


def _update(session: Session, s: st.Update, _: st.Statement) -> list[Action]:
    return update(session, s)


def _delete(session: Session, s: st.Delete, _: st.Statement) -> list[Action]:
    return delete(session, s)


_ACTIONS: dict[type, Callable[..., list[Action]]] = {
    st.CreateStream: _declare,
    st.CreateTable: _declare,
    st.CreateQuery: _create_query,
    st.CreateFamily: _create_family,
    st.CreateView: _create_view,
    st.CreateSink: _create_sink,
    st.Drop: _drop,
    st.Update: _update,
    st.Delete: _delete,
}
