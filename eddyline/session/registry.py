"""The registry: every family and query by name, and families by shape and by the template of a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline import types as t
from eddyline.arrays import Ints
from eddyline.engine.definitions import Definitions, Ids, NameKeeper, Names
from eddyline.engine.family import Family
from eddyline.errors import CatalogError, DataError, did_you_mean
from eddyline.session.query_names import FREE, QueryNames
from eddyline.session.templates import Templates
from eddyline.sql.bound import Call, Constant, Param, Query, StreamSource, sources, walk
from eddyline.sql.columns import as_type

FEW = 16  # names that are looked at one by one: Arrow's kernels cost more to call


class Registry(NameKeeper):
    """What is looked up here was defined by actions."""

    def __init__(self, definitions: Definitions) -> None:
        self.names = QueryNames()
        self.templates = Templates()
        self._definitions = definitions
        self._by_name: dict[str, Family] = {}
        self._by_shape: dict[tuple[Query, tuple[tuple[str, str], ...]], Family] = {}
        self._now: Mapping[int, tuple[Family, int]] | None = None
        definitions.names = self

    def __iter__(self) -> Iterator[Family]:
        return iter(list(self._definitions.families.values()))

    def __len__(self) -> int:
        return len(self._definitions.families)

    def families_now(self) -> Mapping[int, tuple[Family, int]]:
        """By number, the families that exist now, and the id that the next query of each will have."""
        if self._now is None:
            self._now = {f.number: (f, f.queries.next_id) for f in self}
        return self._now

    def number(self, number: int) -> Family:
        return self._definitions.families[number]

    def get(self, number: int) -> Family | None:
        return self._definitions.families.get(number)

    def find(self, name: str) -> Family | None:
        return self._by_name.get(name.lower())

    def named(self, name: str) -> Family:
        family = self.find(name) if isinstance(name, str) else None
        if family is None:
            known = [f.name for f in self if f.kind == "declared"]
            raise CatalogError(f"There is no family {name!r}.", hint=did_you_mean(str(name), known))
        return family

    def shaped(self, query: Query, options: Mapping[str, str]) -> Family | None:
        """The family of queries registered as text that have this shape."""
        return self._by_shape.get((query, tuple(options.items())))

    def owner(self, query: str) -> tuple[Family, int] | None:
        """The family and id of a query in use."""
        try:
            owner = self.names.owner(query)
        except UnicodeEncodeError:  # half a character: no name has one
            return None
        return None if owner is None else (self._definitions.families[owner[0]], owner[1])

    def query(self, name: str) -> tuple[Family, int]:
        owner = self.owner(name) if isinstance(name, str) else None
        if owner is None:
            known = [n for f in self for n in f.queries.some_names(100)]
            raise CatalogError(f"There is no query {name!r}.", hint=did_you_mean(str(name), known))
        return owner

    def family_of(self, name: str) -> tuple[Family, int | None]:
        """The family with this name; or that of the query with this name, and the id of the query."""
        family = self.find(name) if isinstance(name, str) else None
        if family is not None:
            return family, None
        owner = self.owner(name) if isinstance(name, str) else None
        if owner is None:
            known = [f.name for f in self] + [n for f in self for n in f.queries.some_names(100)]
            raise CatalogError(f"There is no query or family {name!r}.", hint=did_you_mean(str(name), known))
        return owner

    def is_free(self, name: str) -> bool:
        return self.find(name) is None and self.names.owner(name) is None

    def require_free(self, name: str) -> None:
        if self.find(name) is not None:
            raise CatalogError(
                f"The name {name!r} is taken by a family.", hint="Choose another name, or drop it first."
            )
        if self.names.owner(name) is not None:
            raise CatalogError(
                f"There is already a query {name!r}.",
                hint=f"Choose another name, or DROP CONTINUOUS QUERY {name} first.",
            )

    def unused_name(self) -> str:
        """A name for the next family, which nobody has chosen."""
        name = f"family_{self._definitions.next_family}"
        while not self.is_free(name):
            name += "_"
        return name

    def require_new(self, names: pa.Array) -> None:
        """Names for new queries: none twice, none in use."""
        if len(names) > 1 and len(names) != len(names.unique()):
            counts = names.value_counts()
            twice = counts.filter(pc.greater(counts.field(1), 1)).field(0)[0].as_py()
            raise DataError(f"The query {twice!r} stands in the table more than once.", hint="Names must be unique.")
        taken, _ = self.names.owners(names)
        clash = np.nonzero(taken != FREE)[0]
        if len(clash):
            raise CatalogError(
                f"There is already a query {names[int(clash[0])].as_py()!r} (row {int(clash[0])} of the table).",
                hint="Drop it first, or choose another name; no row of the table was registered.",
            )
        row = self._first_family(names)
        if row is not None:
            raise CatalogError(
                f"The name {names[row].as_py()!r} (row {row} of the table) is taken by a family.",
                hint="Choose another name; no row of the table was registered.",
            )

    def _first_family(self, names: pa.Array) -> int | None:
        """The first position of a name that is a family's."""
        if len(names) <= FEW:
            return next((i for i, name in enumerate(names.to_pylist()) if name.lower() in self._by_name), None)
        families = pc.is_in(pc.utf8_lower(names), pa.array(list(self._by_name), pa.string()))
        return int(pc.index(families, True).as_py()) if pc.any(families).as_py() else None

    def ids_of(self, family: Family, names: Sequence[str] | pa.Array | pa.ChunkedArray) -> Ints:
        """The ids of queries of a family, to be dropped."""
        if family.kind == "view":
            name = family.name.removeprefix("view ")
            raise CatalogError(f"{name!r} is a materialized view.", hint=f"DROP MATERIALIZED VIEW {name}.")
        wanted = _names(names)
        owner, ids = self.names.owners(wanted)
        strangers = np.nonzero(owner != family.number)[0]
        if len(strangers):
            name = wanted[int(strangers[0])].as_py()
            raise CatalogError(
                f"Family {family.name!r} has no query {name!r}.", hint="No query was dropped; SHOW QUERIES lists them."
            )
        return np.unique(ids)

    # as definitions change

    def family_created(self, family: Family) -> None:
        self._now = None
        self._by_name[family.name.lower()] = family
        if family.kind == "implicit":
            self._by_shape[family.bound.query, tuple(family.options.items())] = family

    def family_removed(self, family: Family) -> None:
        self._now = None
        rows = family.queries.rows()
        self.names.release(rows.names_at(rows.live()))
        self.templates.forget(family)
        del self._by_name[family.name.lower()]
        self._by_shape.pop((family.bound.query, tuple(family.options.items())), None)

    def claim(self, family: Family, ids: Ids, names: Names) -> None:
        self._now = None
        if isinstance(names, str):
            self.names.take_one(names, family.number, int(ids[0]))
        else:
            self.names.take(names, family.number, np.asarray(ids))

    def release(self, names: Names) -> None:
        if isinstance(names, str):
            self.names.release_one(names)
        else:
            self.names.release(names)


def checked_parameters(family: Family, table: pa.Table) -> tuple[pa.Array, list[pa.Array]]:
    """The names and the parameter columns of a table, in the family's types; DataError says what does not fit."""
    expected = ["query", *(p.name for p in family.bound.params)]
    have = {c.lower(): i for i, c in enumerate(table.column_names)}
    missing = [c for c in expected if c.lower() not in have]
    if missing:
        raise DataError(
            f"The table for family {family.name!r} lacks column {missing[0]!r}.",
            hint=f"It needs {', '.join(expected)}; it has {', '.join(table.column_names) or 'none'}.",
        )
    known = {e.lower() for e in expected}
    extra = [c for c in table.column_names if c.lower() not in known]
    if extra:
        raise DataError(f"Family {family.name!r} has no parameter {extra[0]!r}.", hint=did_you_mean(extra[0], expected))
    if len(have) < table.num_columns:
        twice = next(c for i, c in enumerate(table.column_names) if have[c.lower()] != i)
        raise DataError(f"The table for family {family.name!r} has column {twice!r} twice.")
    names = _names(table.column(have["query"]))
    columns = []
    for p in family.bound.params:
        try:
            columns.append(as_type(table.column(have[p.name.lower()]), p.type, "checked"))
        except ValueError as e:
            raise DataError(
                f"Parameter {p.name!r} of family {family.name!r} must be {t.name_of(p.type)}: {e}.", hint=_NOTHING
            ) from None
    _check_windows(family, columns)
    return names, columns


def _check_windows(family: Family, columns: Sequence[pa.Array]) -> None:
    """A window has a size, and it is not negative."""
    for source in sources(family.bound.query):
        size = source.window.size if isinstance(source, StreamSource) else None
        unit = 1
        for e in walk(size) if size is not None else ():
            if isinstance(e, Call) and e.function == "interval" and isinstance(e.args[1], Constant):
                unit = e.args[1].value
            if isinstance(e, Param):
                column = columns[e.index]
                number = column.cast(pa.int64()) if e.type == t.INTERVAL else column
                fits = pc.and_(pc.greater_equal(number, 0), pc.less(number, 2**62 // unit))
                row = pc.index(pc.fill_null(fits, False), False).as_py()
                if row >= 0:
                    raise DataError(
                        f"Parameter {e.name!r} of family {family.name!r} is the size of a window; "
                        f"row {row} has {column[row].as_py()}.",
                        hint=f"It must be zero or more. {_NOTHING}",
                    )


_NOTHING = "No row of the table was registered."


def _names(values: Sequence[str] | pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(values, str):
        raise DataError(f"Expected a list of query names, found the text {values!r}.", hint=f"Write [{values!r}].")
    if not isinstance(values, pa.Array | pa.ChunkedArray) and not isinstance(values, Iterable):
        raise DataError(f"Expected a list of query names, found {type(values).__name__}.", hint="Write ['q1', 'q2'].")
    try:
        array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(list(values))
        array = as_type(array, t.STRING, "checked")
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
        raise DataError(f"Query names must be text: {e}.") from None
    if array.null_count:
        row = pc.index(array.is_null(), True).as_py()
        raise DataError(f"The name of query {row} is missing (null).", hint="Every query needs a name.")
    if pc.any(pc.equal(array, "")).as_py():
        raise DataError("A query name is empty.", hint="Every query needs a name.")
    return array
