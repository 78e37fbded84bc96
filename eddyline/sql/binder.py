"""The query binder: resolves names and types in the sqlglot tree of a query, and refuses what is not supported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from eddyline import types as t
from eddyline.errors import BindError, Error, did_you_mean
from eddyline.sql import bound
from eddyline.sql.bound import BoundQuery, Expr, Field, Output, Query, SelectBlock, Source, Window
from eddyline.sql.catalog import Catalog
from eddyline.sql.constants import PendingConstant
from eddyline.sql.expressions import ExpressionBinder
from eddyline.sql.grouping import Grouping, has_aggregate, typed
from eddyline.sql.non_retroactive import check_non_retroactive_tables
from eddyline.sql.scope import Constants, InLists, ListRecipe, Recipe, Scope, ScopeColumn, fail, span_of
from eddyline.sql.statements import QueryText, WindowText
from eddyline.sql.unsupported import refuse_modifiers, refuse_other_args

_SELECT_ARGS = {"expressions", "from_", "joins", "where", "group", "having", "distinct", "with_", "kind", "hint"}
_SET_OPERATIONS: Mapping[type, str] = {exp.Union: "union", exp.Intersect: "intersect", exp.Except: "except"}
_MAX_DEPTH = 64  # nested queries; every later stage recurses this deep without running out of stack


@dataclass(frozen=True, slots=True)
class Binding:
    """A bound query, the recipes that compute its parameters from the literals of its text, and the views it reads."""

    bound: BoundQuery
    recipes: tuple[Recipe | ListRecipe, ...]
    views: frozenset[str]
    in_lists: InLists = "whole"


def bind_standing(catalog: Catalog, text: QueryText, in_lists: InLists = "whole") -> Binding:
    """Binds a query registered as text: its constants become parameters."""
    return _bind(catalog, text, Constants("lift", in_lists))


def bind_family(catalog: Catalog, text: QueryText, params: Sequence[Field]) -> Binding:
    """Binds a declared family: its parameters are named, and its constants are part of the shape."""
    return _bind(catalog, text, Constants("keep", declared=params))


def _bind(catalog: Catalog, text: QueryText, constants: Constants) -> Binding:
    try:
        _refuse_lost_windows(text)
        binder = QueryBinder(catalog, text, constants)
        query = binder.query(text.tree)
        check_non_retroactive_tables(query)
    except Error as e:
        raise e.at(text.sql, e.span or span_of(text.tree)) from None
    except RecursionError:
        raise BindError("The query is nested too deeply.", sql=text.sql, span=span_of(text.tree)) from None
    if constants.policy == "keep":
        return Binding(BoundQuery(query, tuple(constants.declared)), (), frozenset(binder.views))
    lifted = BoundQuery(query, tuple(constants.params), tuple(constants.values))
    return Binding(lifted, tuple(constants.recipes), frozenset(binder.views), constants.in_lists)


class QueryBinder:
    def __init__(self, catalog: Catalog, text: QueryText, constants: Constants) -> None:
        self.catalog = catalog
        self.windows = dict(text.windows)
        self.constants = constants
        self.with_queries: list[tuple[str, exp.Expr]] = []  # the WITH queries in scope by name, innermost last
        self.views: set[str] = set()  # names of the views the query reads, in lower case
        self.depth = 0

    def query(self, tree: exp.Expr) -> Query:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            message = f"The query is nested too deeply: more than {_MAX_DEPTH} levels."
            fail(tree, message, "Use views for the inner ones.")
        outer = len(self.with_queries)
        self._add_with_queries(tree)
        if isinstance(tree, (exp.Subquery, exp.Paren)):
            refuse_other_args(tree, {"this", "alias", "with_"})
            query = self.query(tree.this)
        elif type(tree) in _SET_OPERATIONS:
            query = self._set_operation(tree)
        elif isinstance(tree, exp.Select):
            query = self._block(tree)
        else:
            fail(tree, "Expected a SELECT.")
        del self.with_queries[outer:]
        self.depth -= 1
        return query

    def _add_with_queries(self, tree: exp.Expr) -> None:
        """Adds the queries of the WITH clause to the scope."""
        with_ = tree.args.get("with_")
        if with_ is None:
            return
        if with_.args.get("recursive"):
            fail(tree, "WITH RECURSIVE is not supported.")
        refuse_other_args(with_, {"expressions"})
        seen: set[str] = set()
        for cte in with_.expressions:
            refuse_other_args(cte, {"this", "alias"})
            if cte.alias.lower() in seen:
                fail(cte, f"WITH names {cte.alias!r} twice.", "Give every query of WITH a name of its own.")
            seen.add(cte.alias.lower())
            self.with_queries.append((cte.alias, cte))

    # set operations

    def _set_operation(self, tree: exp.Expr) -> Query:
        refuse_other_args(tree, {"this", "expression", "distinct", "with_"})
        left, right = self.query(tree.this), self.query(tree.expression)
        if len(left.fields) != len(right.fields):
            fail(tree, f"Both sides need as many columns; found {len(left.fields)} and {len(right.fields)}.")
        types = []
        for a, b in zip(left.fields, right.fields, strict=True):
            common = t.common(a.type, b.type)
            if common is None:
                one, other = t.name_of(a.type), t.name_of(b.type)
                fail(tree, f"Column {a.name!r} is {one} on one side and {other} on the other.")
            types.append(common)
        left, right = _with_types(left, types), _with_types(right, types)
        kind: Any = _SET_OPERATIONS[type(tree)]
        if not tree.args.get("distinct"):
            return bound.SetQuery(kind, left, right)
        if kind == "union":
            return _distinct(bound.SetQuery(kind, left, right))
        return bound.SetQuery(kind, _distinct(left), _distinct(right))

    # SELECT

    def _block(self, tree: exp.Select) -> SelectBlock:
        refuse_other_args(tree, _SELECT_ARGS)
        _check_order(tree)
        if tree.args.get("kind"):
            fail(tree, f"SELECT AS {tree.args['kind']} is not supported.")
        sources, conditions = self._from(tree)
        scope = Scope([ScopeColumn(s.alias, f.name, f.type) for s in sources for f in s.fields])
        binder = ExpressionBinder(self.catalog, scope, self.constants)
        where = tree.args.get("where")
        bound_conditions = [binder.condition(c, "ON") for c in conditions]
        if where is not None:
            bound_conditions.append(binder.condition(where.this, "WHERE"))
        condition = _all(bound_conditions)
        distinct = tree.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            fail(tree, "DISTINCT ON is not supported.", "Use GROUP BY.")
        items = self._items(tree, sources)
        group, having = tree.args.get("group"), tree.args.get("having")
        if group is None and having is None and not any(has_aggregate(e) for _, e in items):
            outputs = tuple(Output(name, typed(binder, e)) for name, e in items)
            return SelectBlock(tuple(sources), condition, None, (), None, outputs, distinct is not None)
        refuse_modifiers([e for _, e in items] + [e for e in (group, having) if e is not None])
        grouping = Grouping(binder, group, items)
        outputs = tuple(Output(name, grouping.bind(e)) for name, e in items)
        kept = grouping.condition(having.this) if having is not None else None
        grouped = grouping.keys, tuple(grouping.aggregates)
        return SelectBlock(tuple(sources), condition, *grouped, kept, outputs, distinct is not None)

    def _from(self, tree: exp.Select) -> tuple[list[Source], list[exp.Expr]]:
        """The sources of FROM and JOIN, and the conditions of ON and USING."""
        from_ = tree.args.get("from_")
        if from_ is None:
            fail(tree, "The query reads nothing.", "Add FROM with a stream or a table.")
        sources = [self._source(from_.this)]
        conditions: list[exp.Expr] = []
        for join in tree.args.get("joins") or []:
            side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
            if side or kind not in ("", "INNER", "CROSS") or join.args.get("method"):
                words = " ".join(w for w in (join.args.get("method") or "", side, kind) if w)
                hint = "Use an inner JOIN; EXCEPT ALL tells what has no partner."
                fail(join, f"{words} JOIN is not supported.", hint)
            left_sources = list(sources)
            sources.append(self._source(join.this))
            if join.args.get("on") is not None:
                conditions.append(join.args["on"])
            if join.args.get("using") == []:
                fail(join, "USING needs a column.", "Write USING (column).")
            refuse_other_args(join, {"this", "on", "using", "kind"})
            for column in join.args.get("using") or []:
                conditions.append(_using(column, left_sources, sources[-1]))
        seen: set[str] = set()
        for s, node in zip(sources, [from_.this, *[j.this for j in tree.args.get("joins") or []]], strict=True):
            if s.alias.lower() in seen:
                fail(node, f"Two sources are called {s.alias!r}.", f"Give one another name: … AS {s.alias}2.")
            seen.add(s.alias.lower())
        return sources, conditions

    def _source(self, node: exp.Expr) -> Source:
        window = self._window_of(node)
        alias = node.alias_or_name
        if isinstance(node, exp.Subquery):
            if window is not None:
                fail(node, "A window goes after a stream, not after a subquery.")
            refuse_other_args(node, {"this", "alias", "with_"})
            inner = self.query(node.this)
            return bound.DerivedSource(inner, alias or "_", _renamed(inner.fields, node))
        if isinstance(node, exp.Lateral):
            fail(node, "LATERAL is not supported.", "A subquery in FROM cannot see the sources beside it.")
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            fail(node, "FROM takes streams, tables, views and subqueries.")
        if node.args.get("db"):
            fail(node, f"Names have one part, found {node.sql()}.")
        refuse_other_args(node, {"this", "alias"})
        name = node.name
        for i in range(len(self.with_queries) - 1, -1, -1):
            if self.with_queries[i][0].lower() == name.lower():
                if window is not None:
                    fail(node, f"{name!r} is not a stream, so it has no window.", "Put the window inside WITH.")
                hidden = self.with_queries[i:]  # a WITH query sees only those before it
                del self.with_queries[i:]
                cte = hidden[0][1]
                inner = self.query(cte.this)
                self.with_queries += hidden
                return bound.DerivedSource(inner, alias, _renamed(_renamed(inner.fields, cte), node))
        stream = self.catalog.streams.get(name)
        table = self.catalog.tables.get(name)
        if (stream or table) and node.args.get("alias") is not None and node.args["alias"].args.get("columns"):
            fail(node, f"The columns of {name!r} cannot be renamed in FROM.", "Use AS in a subquery's SELECT.")
        if stream is not None:
            return bound.StreamSource(stream.name, alias, stream.fields, stream.time, window or Window("unbounded"))
        if window is not None:
            hint = did_you_mean(name, self.catalog.streams.names())
            fail(node, f"{name!r} is not a stream, so it has no window.", hint)
        if table is not None:
            return bound.TableSource(table.name, alias, table.fields, table.retroactive)
        view = self.catalog.views.get(name)
        if view is not None:
            self.views.add(view.name.lower())
            return bound.DerivedSource(view.query, alias, _renamed(view.query.fields, node))
        known = self.catalog.relation_names()
        how_to_declare = "CREATE STREAM, CREATE TABLE or CREATE MATERIALIZED VIEW declares one."
        hint = did_you_mean(name, known) if known else how_to_declare
        fail(node, f"There is no stream, table or view {name!r}.", hint)

    def _window_of(self, node: exp.Expr) -> Window | None:
        """The window written after the source's name or alias, if any."""
        places = [n.meta["start"] for n in _own_identifiers(node) if "start" in n.meta]
        texts: list[WindowText] = [self.windows[p] for p in places if p in self.windows]
        if not texts:
            return None
        text = texts[0]
        if len(texts) > 1:
            raise BindError(f"{node.name!r} has two windows.", hint="Keep one of them.", span=texts[1].span)
        binder = ExpressionBinder(self.catalog, Scope([]), self.constants)
        try:
            operand = binder.operand(text.size)
            if text.kind == "rows" and not t.is_integer(operand.type):
                given = t.name_of(operand.type) if not isinstance(operand, PendingConstant) else text.size.this
                fail(text.size, f"A count window needs a whole number that fits BIGINT, found {given}.")
            if (
                isinstance(operand, PendingConstant)
                and (operand.value if text.kind == "rows" else operand.value.total_seconds()) < 0
            ):
                fail(text.size, "A window cannot be negative.")
            want = t.BIGINT if text.kind == "rows" else t.INTERVAL
            return Window(text.kind, binder.expr(binder.converted(operand, want, text.size)))
        except Error as e:
            e.span = e.span or text.span
            raise

    def _items(self, tree: exp.Select, sources: Sequence[Source]) -> list[tuple[str, exp.Expr]]:
        """The output columns as (name, expression), with * expanded."""
        items: list[tuple[str, exp.Expr]] = []
        for i, e in enumerate(tree.expressions):
            if isinstance(e, exp.Star) or (isinstance(e, exp.Column) and isinstance(e.this, exp.Star)):
                refuse_other_args(e.this if isinstance(e, exp.Column) else e, set())
                alias = e.table if isinstance(e, exp.Column) else ""
                expanded = [s for s in sources if not alias or s.alias.lower() == alias.lower()]
                if not expanded:
                    fail(e, f"There is no source {alias!r} in FROM.", did_you_mean(alias, [s.alias for s in sources]))
                for s in expanded:
                    items += [(f.name, exp.column(f.name, table=s.alias, quoted=True)) for f in s.fields]
            elif isinstance(e, exp.Alias):
                if not isinstance(e.args["alias"], exp.Identifier):
                    fail(e, "A part of a value (a:b) is not supported.", "A name for the column follows AS.")
                items.append((e.alias, e.this))
            elif isinstance(e, exp.Column):
                items.append((e.name, e))
            else:
                plain = not any(isinstance(n, (exp.Literal, exp.Placeholder)) for n in e.walk())
                items.append((e.sql(dialect="spark", comments=False).lower() if plain else f"_c{i}", e))
        if not items:
            fail(tree, "The query selects nothing.")
        return items


def _own_identifiers(node: exp.Expr) -> list[exp.Expr]:
    """The identifiers of a source's name and alias."""
    own = [node.this] if isinstance(node, exp.Table) else []
    alias = node.args.get("alias")
    return own + ([alias.this] if alias is not None and alias.this is not None else [])


def _renamed(fields: tuple[Field, ...], node: exp.Expr) -> tuple[Field, ...]:
    """The fields of a query, renamed by the column list of its alias: `x (a, b)`."""
    alias = node.args.get("alias")
    names = [c.name for c in alias.args.get("columns") or []] if alias is not None else []
    if not names:
        return fields
    if len(names) != len(fields):
        fail(node, f"{node.alias!r} names {len(names)} columns, but its query has {len(fields)}.")
    return tuple(Field(n, f.type) for n, f in zip(names, fields, strict=True))


def _check_order(tree: exp.Select) -> None:
    """Refuses clauses in the wrong order, which sqlglot accepts."""
    last, before = -1, ""
    for arg, word in (("from_", "FROM"), ("where", "WHERE"), ("group", "GROUP BY"), ("having", "HAVING")):
        span = span_of(tree.args[arg]) if tree.args.get(arg) else None
        if span is not None and span[0] < last:
            fail(tree.args[arg], f"{word} comes after {before}.")
        if span is not None:
            last, before = span[0], word


def _refuse_lost_windows(text: QueryText) -> None:
    """Refuses a window that does not follow a source."""
    sources = text.tree.find_all(exp.Table, exp.Subquery)
    places = {n.meta["start"] for node in sources for n in _own_identifiers(node) if "start" in n.meta}
    for place, window in text.windows.items():
        if place not in places:
            hint = "Write FROM trades [RANGE 5 SECONDS]."
            raise BindError("A window goes after a stream in FROM.", hint=hint, span=window.span)


def _using(column: exp.Expr, left: Sequence[Source], right: Source) -> exp.Expr:
    """The equality that `USING (column)` stands for."""
    name = column.name
    holders = [s for s in left if any(f.name.lower() == name.lower() for f in s.fields)]
    if len(holders) != 1:
        fail(column, f"USING ({name}) needs that column in exactly one source on the left, found {len(holders)}.")
    sides = [exp.column(name, table=s.alias, quoted=True) for s in (holders[0], right)]
    for side in sides:
        side.this.meta.update(column.meta)
    return exp.EQ(this=sides[0], expression=sides[1])


def _all(conditions: list[Expr]) -> Expr | None:
    """The conjunction of some conditions, flattened."""
    parts: list[Expr] = []
    for c in conditions:
        parts += c.args if isinstance(c, bound.Call) and c.function == "and" else (c,)
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else bound.Call("and", tuple(parts), t.BOOLEAN)


def _over(query: Query, outputs: tuple[Output, ...], distinct: bool) -> SelectBlock:
    """A block that selects `outputs` from a query."""
    source = bound.DerivedSource(query, "_", query.fields)
    return SelectBlock((source,), None, None, (), None, outputs, distinct)


def _with_types(query: Query, types: Sequence[Any]) -> Query:
    """The query with its columns cast to `types`."""
    if [f.type for f in query.fields] == list(types):
        return query
    columns = (bound.Column(i, f.type, f.name) for i, f in enumerate(query.fields))
    pairs = zip(columns, types, strict=True)
    casts = (Output(c.name, c if c.type == want else bound.Call("cast", (c,), want)) for c, want in pairs)
    return _over(query, tuple(casts), False)


def _distinct(query: Query) -> SelectBlock:
    if isinstance(query, SelectBlock):
        return replace(query, distinct=True)
    columns = (bound.Column(i, f.type, f.name) for i, f in enumerate(query.fields))
    return _over(query, tuple(Output(c.name, c) for c in columns), True)
