"""Changes: how one push, advance or change of a table changed the answers of queries.

Result rows are built on demand: counting and listing queries need only positions, not values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.arrays import Ints
from eddyline.delivery.query_sets import QuerySets
from eddyline.engine.failures import FamilyFailure, computing
from eddyline.engine.family import Family, length_text
from eddyline.engine.parts import InitialPart, Part
from eddyline.errors import CatalogError, did_you_mean
from eddyline.index.keys.key_table import ColumnCoder, KeyTable
from eddyline.index.runtime.row_sets import lists
from eddyline.operators.deferred import Deferred
from eddyline.operators.matcher import Portion
from eddyline.operators.user_functions import FunctionWarning
from eddyline.session.registry import Registry
from eddyline.state.delta import Delta, concat, empty, query_of, times


@dataclass(frozen=True)
class Arrival:
    """Rows of one stream in a push: arrival numbers begin at `start`; `positions` are their positions in the push."""

    stream: str
    start: int
    positions: Ints


class Changes:
    def __init__(
        self,
        parts: Sequence[Part | InitialPart],
        arrivals: Sequence[Arrival],
        names: Lookup,
        warnings: Callable[[], Sequence[FunctionWarning]] = tuple,
        warn_failures: Callable[[], None] = lambda: None,
    ) -> None:
        """`warnings` returns the failed calls of functions; `warn_failures` warns of families that failed."""
        self._unresolved = parts
        self._arrivals = arrivals
        self._names = names
        self._function_warnings = warnings
        self._warn_failures = warn_failures

    @cached_property
    def _parts(self) -> list[Part]:
        """The parts; the initial answers of new queries are computed on first use."""
        parts = [p.resolve() for p in self._unresolved]
        self._warn_failures()
        return parts

    def count(self) -> int:
        """The number of changes (query, row)."""
        return sum(p.count() for p in self._parts)

    def __len__(self) -> int:
        return self.count()

    def queries(self) -> list[str]:
        """The names of the queries whose answer changed, each once."""
        names: dict[str, None] = {}
        for p in self._parts:
            names.update(dict.fromkeys(p.queries.names_at(p.changed()).to_pylist()))
        return list(names)

    @cached_property
    def _warnings(self) -> list[FunctionWarning]:
        _ = self._parts  # computing the parts may add warnings
        return list(self._function_warnings())

    def warnings(self) -> list[FunctionWarning]:
        """The functions whose calls failed in this step, with the number of rows and the first error."""
        return list(self._warnings)

    def failures(self) -> list[FamilyFailure]:
        """The families in quarantine, which skipped this step; reading rows of their queries raises an error."""
        return list(dict.fromkeys(p.outcome for p in self._parts if isinstance(p.outcome, FamilyFailure)))

    def rows(self, name: str) -> pa.Table:
        """The changes of one query: op, ts, exp, then its own columns. For a family, `query` is the first column."""
        family, query = self._resolve(name)
        delta = self._delta(family)
        if query is not None:
            return as_table(family, delta.take(query_of(delta) == query).spread())
        delta = delta.spread()
        return as_table(family, delta).add_column(0, "query", self._query_names(family, query_of(delta)))

    def compact(self, family_name: str) -> pa.Table:
        """One row per distinct result: its columns, op, ts, exp, and the queries it belongs to."""
        family = self._family(family_name)
        delta = self._delta(family)
        keys = np.column_stack([_row_numbers(delta), delta.ts, delta.exp, delta.sign])
        which = KeyTable(4).insert(keys)  # numbers in order of first appearance
        order = np.argsort(which, kind="stable")
        offsets = np.append(0, np.cumsum(np.bincount(which)))
        first = order[offsets[:-1]]
        names = self._query_names(family, query_of(delta)[order])
        queries = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), names)
        changes = as_table(family, delta.take(first).spread())
        return changes.select([*range(3, changes.num_columns), 0, 1, 2]).append_column("queries", queries)

    def affected(self, family_name: str) -> pa.Table:
        """Per arriving row, the queries whose answers it changed: stream, row (its position in the push), queries."""
        family = self._family_by_row(family_name)
        last, query = self._pairs(family)
        arrivals, first = np.unique(last, return_index=True)
        offsets = np.append(first, len(last)).astype(np.int32)
        queries = pa.ListArray.from_arrays(pa.array(offsets), self._query_names(family, query))
        streams, rows = [pa.array([], pa.string())], np.empty(len(arrivals), np.int64)
        for a in self._arrivals:  # in ascending order of arrival numbers
            mine = (arrivals >= a.start) & (arrivals < a.start + len(a.positions))
            streams.append(pa.repeat(a.stream, int(mine.sum())))
            rows[mine] = a.positions[arrivals[mine] - a.start]
        return pa.table({"stream": pa.concat_arrays(streams), "row": rows, "queries": queries})

    def count_affected(self, family_name: str) -> int:
        """The number of (arriving row, query) pairs."""
        family = self._family_by_row(family_name)
        parts = [p.outcome for p in self._parts if p.family is family]
        if parts and all(isinstance(p, Deferred) for p in parts):
            with computing(family):
                return sum(p.affected() for p in parts if isinstance(p, Deferred))
        return len(self._pairs(family)[0])

    def sets(self, family_name: str) -> list[QuerySets]:
        """As `affected`, but compact, for rows that affect very many queries: by stream, a set for each row."""
        family = self._family_by_row(family_name)
        parts = [p for p in self._parts if p.family is family]
        sets = []
        for part in parts:
            for a in self._arrivals:
                rows, portions = self._portions(part, a)
                if portions:
                    sets.append(QuerySets(a.stream, rows, portions, part.queries))
        return sets

    def _portions(self, part: Part, arrival: Arrival) -> tuple[Ints, list[Portion]]:
        """The sets of one stream's rows, and their positions in the push; empty if the part is of another stream."""
        n = len(arrival.positions)
        changes = part.result()
        if isinstance(changes, Deferred):
            which = changes.arrived.last - arrival.start  # all rows of a part are of the same stream
            of_this_stream = len(which) > 0 and 0 <= which[0] < n
            with computing(part.family):
                return (arrival.positions[which], changes.sets) if of_this_stream else (which, [])
        last, query = distinct_pairs(changes, [arrival])
        row, position = (last - arrival.start).astype(np.int32), part.queries.positions(query).astype(np.int32)
        return arrival.positions, [Portion(0, n, (lists(n, row, position),))] if len(row) else []

    def _pairs(self, family: Family) -> tuple[Ints, Ints]:
        """Distinct (arrival number, query), in that order."""
        parts = [p for p in self._parts if p.family is family]
        if len(parts) == 1 and isinstance(parts[0].outcome, Deferred):
            with computing(family):
                change, position = parts[0].outcome.pairs
            return parts[0].outcome.arrived.last[change], parts[0].queries.ids_at(position)
        return distinct_pairs(self._delta(family), self._arrivals)

    def _family(self, name: str) -> Family:
        return self._resolve(name)[0]

    def _family_by_row(self, name: str) -> Family:
        """A family whose changes are asked for by arriving row."""
        family = self._family(name)
        if family.evaluate:
            raise CatalogError(
                f"Family {family.name!r} is evaluated every {length_text(family.evaluate)}: its changes come from rows"
                " of earlier pushes, which have no position in this one.",
                hint="Use rows, compact, queries or count; or register its queries without the option evaluate.",
            )
        return family

    def _resolve(self, name: str) -> tuple[Family, int | None]:
        """A family, or a query and its family; raises if the family failed, as its changes are incomplete."""
        named = self._names.family(name, self._parts)
        family, query = (named, None) if named is not None else self._names.query(name, self._parts)
        for p in self._parts:
            if p.family is family and isinstance(p.outcome, FamilyFailure):
                raise p.outcome.refusal(name)
        return family, query

    def _delta(self, family: Family) -> Delta:
        types = [f.type for f in family.fields]
        parts = [p.delta for p in self._parts if p.family is family]
        return concat(parts, types, attached=True) if parts else empty(types, attached=True)

    def _query_names(self, family: Family, query: Ints) -> pa.Array:
        part = next((p for p in reversed(self._parts) if p.family is family), None)
        return pa.array([], pa.string()) if part is None else part.queries.name_of(query)

    def __repr__(self) -> str:
        families = len({p.family.number for p in self._parts if p.count()})
        warnings = "".join(f"; {w}" for w in self._warnings)
        return f"<Changes: {self.count()} in {families} families{warnings}>"


def distinct_pairs(delta: Delta, arrivals: Sequence[Arrival]) -> tuple[Ints, Ints]:
    """Distinct (arrival number, query) of the changes that `arrivals` caused, in that order."""
    mine = np.zeros(len(delta), np.bool_)
    for a in arrivals:
        mine |= (delta.last >= a.start) & (delta.last < a.start + len(a.positions))
    last, query = delta.last[mine], query_of(delta)[mine]
    order = np.lexsort((query, last))
    last, query = last[order], query[order]
    new = np.append(True, (last[1:] != last[:-1]) | (query[1:] != query[:-1]))[: len(last)]
    return last[new], query[new]


class Lookup:
    """Resolves names given to `Changes` as of the step, families first, even if they were dropped since."""

    def __init__(self, registry: Registry, when: Literal["then", "now"] = "then") -> None:
        """`now`: resolves names at the time of the call, for empty changes."""
        self._registry = registry
        self._then = registry.families_now() if when == "then" else None

    def _existed(self, family: Family, query: int = 0) -> bool:
        return self._then is None or query < self._then.get(family.number, (family, 0))[1]

    def family(self, name: str, parts: Sequence[Part]) -> Family | None:
        family = self._registry.find(name) if isinstance(name, str) else None
        if family is not None and (self._then is None or family.number in self._then):
            return family
        known = [p.family for p in parts] + [f for f, _ in (self._then or {}).values()]
        return next((f for f in known if f.name.lower() == str(name).lower()), None)

    def query(self, name: str, parts: Sequence[Part]) -> tuple[Family, int]:
        owner = self._registry.owner(name) if isinstance(name, str) else None
        if owner is not None and self._existed(*owner):
            return owner
        for p in parts:  # dropped since; its name may belong to another query now
            places = np.nonzero(pc.equal(p.queries.names, str(name)).to_numpy(zero_copy_only=False))[0]
            if len(places):
                return p.family, int(p.queries.ids_at(places[-1:])[0])
        if owner is not None:
            return owner
        known = [f.name for f in self._registry] + [n for f in self._registry for n in f.queries.some_names(100)]
        raise CatalogError(f"There is no query or family {name!r}.", hint=did_you_mean(str(name), known))


def _row_numbers(delta: Delta) -> Ints:
    """A number for the row of each change, the same for equal rows."""
    height = len(delta.columns[0])
    coder = ColumnCoder([c.type for c in delta.columns])
    numbers = KeyTable(coder.width).insert(coder.codes(delta.columns, height))
    return numbers if delta.rows is None else numbers[delta.rows]


def as_table(family: Family, delta: Delta) -> pa.Table:
    """Changes with one row each: op, ts, exp, then the family's own columns."""
    op = pa.array(np.where(delta.sign > 0, "+", "-"), pa.string()) if len(delta) else pa.array([], pa.string())
    columns = [op, times(delta.ts), times(delta.exp), *delta.columns]
    return pa.table(columns, names=["op", "ts", "exp", *(f.name for f in family.fields)])
