"""A session turns what users ask for into actions. It has the catalog and the registry of queries, and runs nothing.

Everything is checked here, so that a list of actions can be applied without a further question: by an engine
in-process, or by way of a commit log in a pipeline. The actions of a statement apply whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from eddyline import types as t
from eddyline.aggregates import AGGREGATES
from eddyline.arrays import Ints
from eddyline.engine import actions
from eddyline.engine.actions import Action, AddQuery, DefineFunction, FamilyKind, NewFamily
from eddyline.engine.definitions import Definitions
from eddyline.engine.family import Family, check_options
from eddyline.engine.memory import most_step_bytes
from eddyline.engine.table_rows import TableRows
from eddyline.errors import CatalogError, DataError, did_you_mean
from eddyline.operators.user_functions import KINDS, FunctionKind
from eddyline.session import input_rows
from eddyline.session.registry import Registry, checked_parameters
from eddyline.session.templates import cut, dropped_query
from eddyline.sql.binder import Binding, bind_family, bind_standing
from eddyline.sql.bound import Field
from eddyline.sql.dialect import OF_THE_SYNTAX
from eddyline.sql.functions import FORMS, NAMED
from eddyline.sql.statements import CreateQuery, QueryText


class Contents(Protocol):
    """What a session may look at to answer SELECT, INSERT, UPDATE and DELETE."""

    def table(self, name: str) -> TableRows: ...

    def view(self, name: str) -> pa.Table: ...


class Session:
    def __init__(self, definitions: Definitions, contents: Contents, most_bytes: int | None = None) -> None:
        """`most_bytes`: how much a query that is asked once may build."""
        self.definitions = definitions
        self.contents = contents
        self.most_bytes = most_bytes or most_step_bytes()
        self.catalog = definitions.catalog
        self.registry = Registry(definitions)
        self.prebound: dict[int, tuple[int, Binding]] = {}  # by text: bound against a version of the catalog

    # queries registered as text

    def known(self, text: str) -> Action | None:
        """The action of a text that need not be parsed: a lone DROP CONTINUOUS QUERY, or a query whose template is
        known. None: it must be parsed."""
        dropped = dropped_query(text)
        if dropped is not None:
            owner = self.registry.owner(dropped)
            return None if owner is None or owner[0].kind == "view" else self.drop_query(*owner, dropped)
        pieces = cut(text)
        if pieces is None:
            return None
        known = self.registry.templates.values(pieces, self.catalog.version)
        if known is None or not self.registry.is_free(pieces.name):
            return None
        family, values = known
        if self.registry.get(family.number) is not family:  # it was removed, or could not start
            return None
        return AddQuery(family.number, pieces.name, values)

    def create_query(self, s: CreateQuery, sql: str) -> list[Action]:
        """A query registered as text, in the family of its shape. `sql` is the text that was executed."""
        self.registry.require_free(s.name)
        binding = self.bind(s.query)
        family, creation = self.family_of_shape(binding, s.options, s.text)
        pieces = cut(sql)
        if pieces is not None and pieces.name == s.name:
            self.registry.templates.learn(pieces, family, binding.recipes, binding.bound)
        return [*creation, AddQuery(family.number, s.name, binding.bound.values)]

    def family_of_shape(self, binding: Binding, options: Mapping[str, str], text: str) -> tuple[Family, list[Action]]:
        """The family of queries with this shape, and the actions that create it if there is none."""
        checked = check_options(options)
        family = self.registry.shaped(binding.bound.query, checked)
        if family is not None:
            return family, []
        family = self.declare_family(self.registry.unused_name(), binding, checked, "implicit", text)
        return family, [new_family(family)]

    def bind(self, text: QueryText, params: Sequence[Field] | None = None) -> Binding:
        """Binds a query registered as text, or a declared family with its parameters."""
        version, binding = self.prebound.get(id(text), (-1, None))
        if binding is not None and version == self.catalog.version:
            return binding
        return bind_standing(self.catalog, text) if params is None else bind_family(self.catalog, text, params)

    def prebind(self, text: QueryText, params: Sequence[Field] | None) -> None:
        """Binds a text now, for when its statement runs, if the catalog is then still the same."""
        self.prebound[id(text)] = self.catalog.version, self.bind(text, params)

    def declare_family(
        self, name: str, binding: Binding, options: Mapping[str, str], kind: FamilyKind, sql: str
    ) -> Family:
        """A family that is still to be created."""
        self.registry.require_free(name)
        number, checked = self.definitions.next_family, check_options(options)
        return Family(number, name, binding.bound, checked, kind, sql, binding.views, binding.in_lists)

    # families and queries by name

    def register(self, family: str, rows: Any) -> list[Action]:
        """One query per row: column `query` is its name, the others its parameters. All rows or none."""
        target = self.registry.named(family)
        if target.kind != "declared":
            raise CatalogError(f"{target.name!r} is not a declared family.", hint="CREATE QUERY FAMILY declares one.")
        return [] if isinstance(rows, list) and not rows else self.add_queries(target, input_rows.to_table(rows))

    def add_queries(self, family: Family, rows: pa.Table) -> list[Action]:
        names, params = checked_parameters(family, rows)
        self.registry.require_new(names)
        return [actions.AddQueries(family.number, names, tuple(params))] if len(names) else []

    def drop(self, family: str, names: Sequence[str]) -> list[Action]:
        """Drops queries of a family by name. All or none."""
        target = self.registry.named(family)
        ids = self.registry.ids_of(target, names)
        if target.kind == "implicit" and len(ids) == len(target.queries):
            return [actions.RemoveFamily(target.number)]
        return [actions.DropQueries(target.number, ids)] if len(ids) else []

    def drop_query(self, family: Family, query: int, name: str) -> Action:
        """A family of texts is removed with its last query."""
        if family.queries.live == 1 and family.kind == "implicit":
            return actions.RemoveFamily(family.number)
        return actions.DropQuery(family.number, query, name)

    def resume(self, family: Family, ids: Ints) -> list[Action]:
        """The same queries under new ids, as if they had just been registered."""
        rows = family.queries.rows()
        positions = rows.positions(ids)
        again = actions.AddQueries(family.number, rows.names_at(positions), tuple(rows.all_params_at(positions)))
        return [actions.DropQueries(family.number, ids), again]

    # functions

    def function(
        self, name: str, body: Callable[..., Any], takes: Sequence[str], gives: str, kind: FunctionKind
    ) -> DefineFunction:
        """A function with its body as it was given."""
        if not isinstance(name, str) or not name.isidentifier():
            raise DataError(f"{name!r} is not a name for a function.")
        if name.upper() in OF_THE_SYNTAX or name.lower() in {*NAMED, *FORMS, *AGGREGATES}:
            raise CatalogError(
                f"{name!r} is a built-in function, or has a syntax of its own.", hint="Choose another name."
            )
        if not callable(body):
            raise DataError(f"The body of function {name!r} is not callable.")
        if isinstance(takes, str) or not isinstance(takes, Sequence):
            raise DataError(f"The types that {name!r} takes must be a list.", hint='Write ["INT", "STRING"].')
        if kind not in KINDS:
            raise DataError(f"{kind!r} is not a kind of function.", hint=f"It is one of {', '.join(map(repr, KINDS))}.")
        if kind != "scalar" and not takes:
            raise DataError(f"An {kind} function needs an argument, which says how many values it returns.")
        types = [_type(x) for x in (*takes, gives)]
        known = self.catalog.functions.get(name)
        if known is not None and (*known.takes, known.gives) != tuple(types):
            raise CatalogError(
                f"There is already a function {known.name!r} with other types.", hint="Choose another name."
            )
        return DefineFunction(known.name if known else name, tuple(takes), gives, body, kind)


def new_family(family: Family) -> NewFamily:
    return NewFamily(family.number, family.name, family.kind, family.sql, family.in_lists, family.rules, family)


def _type(name: str) -> pa.DataType:
    known = t.BY_NAME.get(str(name).upper())
    if known is None:
        raise DataError(f"{name!r} is not a type.", hint=did_you_mean(str(name), t.BY_NAME))
    return known
