"""State buffers: the rows that an operator keeps of one input, found by key.

Operators insert changes, probe by key, and read the matching rows segment by segment (`segment.py`). Contract of every
buffer:

    insert          adds the `+` rows and retracts the rows that the `-` rows name
    probe           returns exactly the rows with a wanted slot, and may return rows that its eviction policy would drop
    expire          drops every row that the eviction policy allows to drop at the clock; insertions do so in part
    retract         ends the rows that `-` rows name just before the retraction, and marks them as leaving
    nbytes          the bytes of its rows and indexes
    save, load      rows with both their ends; slots are assigned again on loading. After `save`, a buffer goes on like
                    one that has loaded what it saved: segments are divided, merged and expired in the same way

Invariant: every row is in exactly one segment, and a segment's rows keep their positions until it is replaced. What is
not stated here is free: how rows are divided into segments, when segments are merged, when expired rows are dropped.
That is all a buffer has to decide (`_arrange`); the rest of this class works on any division into segments.

The caller maps key values to slots (dense numbers) and passes the slots of each of its keys with every insertion.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints, Mask
from eddyline.errors import StateError
from eddyline.index.keys.key_table import ColumnCoder, KeyTable
from eddyline.index.keys.sorted_runs import equal_ranges, match_brackets
from eddyline.index.runtime.garbage import worth_compacting
from eddyline.state.buffers.eviction import EvictionPolicy, expired
from eddyline.state.buffers.segment import KeyMatches, Segment
from eddyline.state.delta import Delta, empty, query_of
from eddyline.state.pages import Pages, Saved, as_table
from eddyline.state.saved_tables import loaded_columns, loaded_ints, saved_columns

SlotsOf = Callable[[Delta], list[Ints]]
_PAGE = "page"  # where a segment caches its page
NO_KEY = -1  # the slot of a row with a NULL in its key: no probe by that key matches it


class Identity:
    """Identifies the row that a retraction names: by all its columns, its query, its first arrival and its end."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.coder = ColumnCoder(types)
        self.table = KeyTable(self.coder.width + 3)

    def slots(self, rows: Delta) -> Ints:
        codes = self.coder.codes(rows.columns, len(rows))
        query = np.zeros(len(rows), np.int64) if rows.query is None else rows.query
        return self.table.insert(np.column_stack([codes, query, rows.first, rows.exp]))


class StateBuffer(ABC):
    """`keys` is the number of keys the caller probes by; if rows may be retracted, their identity is one more."""

    def __init__(
        self,
        types: Sequence[pa.DataType],
        keys: int,
        *,
        attached: bool,
        retracts: bool,
        policy: EvictionPolicy = expired,
    ) -> None:
        self.types = tuple(types)
        self.keys = keys
        self.attached = attached
        self.identity = Identity(types) if retracts else None
        self.policy = policy
        self.segments: list[Segment] = []

    def __len__(self) -> int:
        return sum(len(s) for s in self.segments)

    @property
    def nbytes(self) -> int:
        return sum(s.nbytes for s in self.segments)

    @abstractmethod
    def _arrange(self, inserted: int, clock: int) -> None:
        """Called after each insertion, whose rows, if any, are the last segment: merges segments, drops old rows."""

    def insert(self, rows: Delta, slots: Sequence[Ints], clock: int) -> None:
        """Adds the `+` rows, then retracts the rows that the `-` rows name. Rows must be spread."""
        all_slots = list(slots)
        if self.identity is not None:
            all_slots.append(self.identity.slots(rows))
        plus = rows.sign > 0
        if plus.any():
            added = rows.take(plus).spread()
            born = added.exp
            if self.identity is not None:  # retractions shorten these ends in place, and others share the array
                added = replace(added, exp=born.copy())
            self.segments.append(Segment.of(added, born, [s[plus] for s in all_slots]))
        if self.identity is not None and not plus.all():
            self._retract(all_slots[-1][~plus], rows.ts[~plus])
        self._arrange(len(rows), clock)
        if self.identity is not None and worth_compacting(len(self.identity.table), len(self)):
            self._renew_identity()

    def probe(self, key: int, wanted: Ints) -> Iterator[KeyMatches]:
        """The rows whose slot under a key is the wanted one, per segment. O(w log n) for w wanted slots."""
        for segment in list(self.segments):
            low, high = equal_ranges(segment.sorted_slots[key], wanted)
            total = int((high - low).sum())
            if total:
                yield KeyMatches(segment, key, low, high, total)

    def expire(self, clock: int) -> None:
        """Drops all rows that the eviction policy allows to drop at the clock."""
        self.drop(self.policy(self.segments, clock))

    # retractions

    def retract(self, rows: Delta) -> None:
        """Retracts the rows that the `-` rows name, and marks them as leaving."""
        assert self.identity is not None
        for segment, places in self._retract(self.identity.slots(rows), rows.ts):
            segment.leaving = places

    def forget_leaving(self) -> None:
        for s in self.segments:
            s.leaving = None

    def _retract(self, identities: Ints, at: Ints) -> Iterable[tuple[Segment, Ints]]:
        """Ends, just before `at`, one row for each identity given: the latest that began by then.

        Returns the rows, as positions in the segments that have some."""
        order = np.lexsort((at, identities))
        identities, at = identities[order], at[order]
        wanted = np.unique(identities)
        probed = list(self.probe(-1, wanted))
        parts = [np.empty((0, 4), np.int64)]  # identity, ts, probed segment and row of those that were never retracted
        for i, matches in enumerate(probed):
            s = matches.segment
            for which, row in matches.pairs():
                live = s.rows.exp[row] == s.born[row]
                parts.append(np.column_stack([wanted[which], s.rows.ts[row], np.full(len(row), i), row])[live])
        candidates = np.concatenate(parts)
        candidates = candidates[np.lexsort((candidates[:, 1], candidates[:, 0]))]
        row = match_brackets(candidates[:, 0], candidates[:, 1], identities, at)
        hit = row >= 0
        _, _, number, place = candidates[row[hit]].T
        shortened = {i: number == i for i in np.unique(number).tolist()}
        for i, mine in shortened.items():
            probed[i].segment.rows.exp[place[mine]] = at[hit][mine] - 1
            probed[i].segment.derived.clear()
        return [(probed[i].segment, place[mine]) for i, mine in shortened.items()]

    def _renew_identity(self) -> None:
        """Drops the identities of rows that no longer exist, by numbering the others again."""
        self.identity = Identity(self.types)
        for i, s in enumerate(self.segments):
            slots = [*s.slots[:-1], self.identity.slots(replace(s.rows, exp=s.born))]
            self.segments[i] = Segment.of(s.rows, s.born, slots)

    # changes of queries and slots

    def drop(self, dropped: Sequence[Mask]) -> None:
        """Drops, per segment, the rows under the mask."""
        segments = [s.without(mask) for s, mask in zip(self.segments, dropped, strict=True)]
        self.segments = [s for s in segments if len(s)]

    def forget(self, queries: Ints) -> None:
        """Drops the rows of dropped queries."""
        self.drop([np.isin(query_of(s.rows), queries) for s in self.segments])

    def move(self, mapping: Ints) -> None:
        """Renumbers rows whose slot is their query; those mapped to -1 are dropped."""
        self.drop([mapping[query_of(s.rows)] < 0 for s in self.segments])
        for i, s in enumerate(self.segments):
            query = mapping[query_of(s.rows)]
            self.segments[i] = Segment.of(replace(s.rows, query=query), s.born, [query, *s.slots[self.keys :]])
        if self.identity is not None:
            self._renew_identity()

    def renumber(self, slots_of: SlotsOf) -> None:
        """Gives all rows new slots."""
        for i, s in enumerate(self.segments):
            self.segments[i] = Segment.of(s.rows, s.born, [*slots_of(s.rows), *s.slots[self.keys :]])

    # saving

    def save(self) -> Pages:
        """The rows, without slots: a page per segment, which is the same object until a row of it is retracted."""
        nothing = self._page(empty(self.types, attached=self.attached), np.empty(0, np.int64))
        for s in self.segments:
            if _PAGE not in s.derived:
                s.derived[_PAGE] = self._page(s.rows, s.born)
        return Pages(nothing.schema, tuple(s.derived[_PAGE] for s in self.segments))

    def _page(self, rows: Delta, born: Ints) -> pa.RecordBatch:
        data = saved_columns(rows) | {"ts": rows.ts, "exp": rows.exp, "first": rows.first, "last": rows.last}
        if rows.query is not None:
            data["query"] = rows.query
        if self.identity is not None:  # a retracted row keeps its first end, so that it stays retracted
            data["born"] = born
        return pa.record_batch(data)

    def load(self, saved: Saved, slots_of: SlotsOf) -> None:
        table = as_table(saved)
        if ("query" in table.column_names) != self.attached:
            raise StateError(
                "These rows of a join were saved by a version that keeps them in another way.",
                hint="Go on with the version that saved them, or begin anew.",
            )
        self.segments = [self._loaded(batch, slots_of) for batch in table.to_batches() if batch.num_rows]

    def _loaded(self, saved: pa.RecordBatch, slots_of: SlotsOf) -> Segment:
        ts, exp, first, last = loaded_ints(saved, "ts", "exp", "first", "last")
        query = loaded_ints(saved, "query")[0] if self.attached else None
        ones = np.ones(saved.num_rows, np.int64)
        rows = Delta(loaded_columns(saved, len(self.types)), None, ts, exp, ones, first, last, query)
        slots, born = slots_of(rows), rows.exp
        if self.identity is not None:
            (born,) = loaded_ints(saved, "born")
            slots.append(self.identity.slots(replace(rows, exp=born)))
        return Segment.of(rows, born, slots)
