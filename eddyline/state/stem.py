"""A state module (SteM): the rows of one input of a join, indexed by key.

Rows are stored in segments of geometrically growing size. A segment never changes, except that a retraction shortens
the interval of the row it retracts. Each segment has one sorted index per key the join probes by. Invariant: every row
is in exactly one segment, and the next merge drops a row whose interval ended before the clock.

Cost: a probe searches O(log n) segments; an inserted row is merged O(log n) times. (Document 1, section 3.3.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.errors import StateError
from eddyline.index.keys.key_table import ColumnCoder, KeyTable
from eddyline.index.keys.sorted_runs import equal_ranges, match_brackets, spread
from eddyline.index.runtime.garbage import worth_compacting
from eddyline.state.delta import Delta, concat, query_of

SlotsOf = Callable[[Delta], list[Ints]]
NO_KEY = -1  # the slot of a row with a NULL in its key: no probe by that key matches it


@dataclass(slots=True)
class Segment:
    """Rows with their slots under each key, and per key the order that sorts them; `born`: their ends when inserted.

    `derived` caches what callers compute from the segment, until a row is retracted. `leaving` has the positions of the
    rows that `Stem.retract` shortened, until `Stem.forget_leaving`."""

    rows: Delta
    born: Ints
    slots: list[Ints]
    orders: list[Ints]
    sorted_slots: list[Ints]
    derived: dict[Hashable, Any] = field(default_factory=dict)
    leaving: Ints | None = None

    def __len__(self) -> int:
        return len(self.rows)


def _segment(rows: Delta, born: Ints, slots: list[Ints]) -> Segment:
    orders = [np.argsort(s, kind="stable") for s in slots]
    return Segment(rows, born, slots, orders, [s[o] for s, o in zip(slots, orders, strict=True)])


class Identity:
    """Identifies the row that a retraction names: by all its columns, its query, its first arrival and its end."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.coder = ColumnCoder(types)
        self.table = KeyTable(self.coder.width + 3)

    def slots(self, rows: Delta) -> Ints:
        codes = self.coder.codes(rows.columns, len(rows))
        query = np.zeros(len(rows), np.int64) if rows.query is None else rows.query
        return self.table.insert(np.column_stack([codes, query, rows.first, rows.exp]))


class Stem:
    """`keys` is the number of keys the caller probes by; the caller passes the slots with every insert."""

    def __init__(self, types: Sequence[pa.DataType], keys: int, *, attached: bool, retracts: bool) -> None:
        self.types = tuple(types)
        self.keys = keys
        self.attached = attached
        self.identity = Identity(types) if retracts else None
        self.segments: list[Segment] = []
        self._unswept = 0  # rows inserted since the last sweep

    def __len__(self) -> int:
        return sum(len(s) for s in self.segments)

    def insert(self, rows: Delta, slots: Sequence[Ints], clock: int) -> None:
        """Adds the `+` rows, then retracts the rows that the `-` rows name. Rows must be spread."""
        all_slots = list(slots)
        if self.identity is not None:
            all_slots.append(self.identity.slots(rows))
        plus = rows.sign > 0
        self._unswept += len(rows)
        if plus.any():
            added = rows.take(plus).spread()
            born = added.exp
            if self.identity is not None:  # retractions shorten these ends in place, and others share the array
                added = replace(added, exp=born.copy())
            self.segments.append(_segment(added, born, [s[plus] for s in all_slots]))
        if self.identity is not None and not plus.all():
            self._retract(all_slots[-1][~plus], rows.ts[~plus])
        self._merge(clock)

    def retract(self, rows: Delta) -> None:
        """Retracts the rows that the `-` rows name, and marks them as leaving."""
        assert self.identity is not None
        for i, places in self._retract(self.identity.slots(rows), rows.ts):
            self.segments[i].leaving = places

    def forget_leaving(self) -> None:
        for s in self.segments:
            s.leaving = None

    def _retract(self, identities: Ints, at: Ints) -> list[tuple[int, Ints]]:
        """Ends, just before `at`, one row for each identity given: the latest that began by then.

        Returns the rows, as positions in the segments that have some."""
        order = np.lexsort((at, identities))
        identities, at = identities[order], at[order]
        candidates = self._live(identities)
        candidates = candidates[np.lexsort((candidates[:, 1], candidates[:, 0]))]
        row = match_brackets(candidates[:, 0], candidates[:, 1], identities, at)
        hit = row >= 0
        _, _, segment, place = candidates[row[hit]].T
        shortened = []
        for i in np.unique(segment).tolist():
            mine = segment == i
            self.segments[i].rows.exp[place[mine]] = at[hit][mine] - 1
            self.segments[i].derived.clear()
            shortened.append((i, place[mine]))
        return shortened

    def _live(self, wanted: Ints) -> Ints:
        """(identity, ts, segment, row) of the rows that have one of the identities and were never retracted."""
        wanted, parts = np.unique(wanted), [np.empty((0, 4), np.int64)]
        for i, s in enumerate(self.segments):
            owner, position = spread(*equal_ranges(s.sorted_slots[-1], wanted))
            row = s.orders[-1][position]
            live = s.rows.exp[row] == s.born[row]
            parts.append(np.column_stack([wanted[owner], s.rows.ts[row], np.full(len(row), i), row])[live])
        return np.concatenate(parts)

    def probe(self, key: int, wanted: Ints) -> Iterator[tuple[Segment, Ints, Ints]]:
        """Per segment: (segment, which of the wanted, which row) for all rows whose slot is the wanted one."""
        for segment in self.segments:
            low, high = equal_ranges(segment.sorted_slots[key], wanted)
            owner, position = spread(low, high)
            if len(owner):
                yield segment, owner, segment.orders[key][position]

    def rows(self) -> Delta:
        return concat([s.rows for s in self.segments], self.types, attached=self.attached)

    def forget(self, gone: Ints) -> None:
        """Drops the rows of dropped queries."""
        assert self.attached
        self._replace([self._only(s, ~np.isin(query_of(s.rows), gone)) for s in self.segments])

    def move(self, mapping: Ints) -> None:
        """Renumbers rows whose slot is their query; those mapped to -1 are dropped."""
        moved = []
        for s in self.segments:
            query = mapping[query_of(s.rows)]
            live = query >= 0
            own = [x[live] for x in s.slots[self.keys :]]
            rows = replace(s.rows, query=query).take(live).spread()
            moved.append(_segment(rows, s.born[live], [query[live], *own]))
        self._replace(moved)
        if self.identity is not None:
            self._renew_identity()

    def keep(self, kept: Sequence[np.ndarray]) -> None:
        """Keeps, per segment, only the rows under the mask."""
        self._replace([self._only(s, k) for s, k in zip(self.segments, kept, strict=True)])

    def _replace(self, segments: list[Segment]) -> None:
        self.segments = [s for s in segments if len(s)]

    def _only(self, segment: Segment, kept: np.ndarray) -> Segment:
        if kept.all():
            return segment
        return _segment(segment.rows.take(kept).spread(), segment.born[kept], [s[kept] for s in segment.slots])

    def _merge(self, clock: int) -> None:
        """Merges the newest segments until each is at least twice as long as the next; drops rows that have ended.

        All segments are swept once half as many rows have been inserted as there are, so that old segments do not
        keep rows that have ended.
        """
        if 2 * self._unswept > len(self):
            self._unswept = 0
            self.keep([s.rows.exp >= clock for s in self.segments])
        while len(self.segments) >= 2 and len(self.segments[-2]) < 2 * len(self.segments[-1]):
            newer, older = self.segments.pop(), self.segments.pop()
            merged = concat([older.rows, newer.rows], self.types, attached=self.attached)
            slots = [np.concatenate([a, b]) for a, b in zip(older.slots, newer.slots, strict=True)]
            born = np.concatenate([older.born, newer.born])
            live = merged.exp >= clock
            if not live.all():
                merged, born, slots = merged.take(live).spread(), born[live], [s[live] for s in slots]
            if len(merged):
                self.segments.append(_segment(merged, born, slots))
        if self.identity is not None and worth_compacting(len(self.identity.table), len(self)):
            self._renew_identity()

    def _renew_identity(self) -> None:
        """Drops the identities of rows that no longer exist, by numbering the others again."""
        self.identity = Identity(self.types)
        for i, s in enumerate(self.segments):
            slots = [*s.slots[:-1], self.identity.slots(replace(s.rows, exp=s.born))]
            self.segments[i] = _segment(s.rows, s.born, slots)

    def renumber(self, slots_of: SlotsOf) -> None:
        """Gives all rows new slots."""
        for i, segment in enumerate(self.segments):
            own = segment.slots[self.keys :]
            self.segments[i] = _segment(segment.rows, segment.born, [*slots_of(segment.rows), *own])

    def save(self) -> pa.Table:
        """The rows as a table with a chunk per segment, without slots.

        A segment that has not changed gives a chunk with the same content.
        """
        if not self.segments:
            return self._saved(concat([], self.types, attached=self.attached), np.empty(0, np.int64))
        return pa.concat_tables([self._saved(s.rows, s.born) for s in self.segments])

    def _saved(self, rows: Delta, born: Ints) -> pa.Table:
        data = {f"c{i}": c for i, c in enumerate(rows.columns)}
        data |= {"ts": rows.ts, "exp": rows.exp, "first": rows.first, "last": rows.last}
        if rows.query is not None:
            data["query"] = rows.query
        if self.identity is not None:  # a retracted row keeps its first end, so that it stays retracted
            data["born"] = born
        return pa.table(data)

    def load(self, table: pa.Table, slots_of: SlotsOf) -> None:
        if ("query" in table.column_names) != self.attached:
            raise StateError(
                "These rows of a join were saved by a version that keeps them in another way.",
                hint="Go on with the version that saved them, or begin anew.",
            )
        self.segments = [self._loaded(batch, slots_of) for batch in table.to_batches() if batch.num_rows]

    def _loaded(self, saved: pa.RecordBatch, slots_of: SlotsOf) -> Segment:
        def ints(name: str) -> Ints:
            return np.array(saved.column(name).to_numpy(), np.int64)

        columns = tuple(saved.column(f"c{i}") for i in range(len(self.types)))
        query = ints("query") if self.attached else None
        ones = np.ones(saved.num_rows, np.int64)
        rows = Delta(columns, None, ints("ts"), ints("exp"), ones, ints("first"), ints("last"), query)
        slots, born = slots_of(rows), rows.exp
        if self.identity is not None:
            born = ints("born")
            slots.append(self.identity.slots(replace(rows, exp=born)))
        return _segment(rows, born, slots)
