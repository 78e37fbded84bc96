"""The contract of SteMs: the rows of one input of a join, searched by key. (Document 1, section 3.3.)

There are four kinds: `log_stem.py` reads the log of a stream, which families share; `count_stem.py` reads the count
windows of a log; `table_stem.py` reads a table, which families share too; `buffer_stem.py` keeps the changes of any
other input in a state buffer of its own. A route (`routes.py`) searches SteMs and carries row numbers; columns are
gathered by row number when they are needed.

Row numbers are valid within one step. A SteM shows the rows of a step only after `show`, which the join calls once the
changes of that input have probed the others: so every combination of rows is produced exactly once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from eddyline.arrays import Ints, Mask
from eddyline.index.keys import sorted_runs
from eddyline.operators.base import Step
from eddyline.operators.evaluate import Functions
from eddyline.plan.physical import Key
from eddyline.state.delta import Delta
from eddyline.state.pages import Saved
from eddyline.state.store.stored_table import StoredTable
from eddyline.state.store.stream_log import StreamLog


class Matches(NamedTuple):
    """Rows of a SteM that match probing rows: which probing row, the row's number, and its numbers as in a delta."""

    probing: Ints
    rows: Ints
    ts: Ints
    exp: Ints
    first: Ints
    last: Ints
    query: Ints | None

    def pieces(self) -> Iterator[Matches]:
        """The matches in portions of bounded size."""
        most = sorted_runs.PAIRS_AT_ONCE
        if len(self.rows) <= 2 * most:
            yield self
            return
        for start in range(0, len(self.rows), most):
            yield self.take(slice(start, start + most))

    def take(self, which: Mask | slice) -> Matches:
        probing, rows, ts, exp, first, last = (a[which] for a in self[:6])
        return Matches(probing, rows, ts, exp, first, last, None if self.query is None else self.query[which])


class Retracting(NamedTuple):
    """Probing rows are retractions of one input, while other inputs retract rows in the same step (`leaving.py`)."""

    leaves: Ints  # when each probing row's own row leaves
    precedes: bool  # whether the input of the retractions is before that of the SteM


class StemSegment(Protocol):
    """A part of a SteM's rows. It never changes; `derived` caches what is computed from it."""

    @property
    def derived(self) -> dict[Hashable, Any]: ...

    @property
    def key(self) -> Hashable:
        """The key that `slots` are of."""

    def __len__(self) -> int: ...

    @property
    def rows(self) -> Delta: ...

    def take(self, rows: Ints) -> Delta:
        """The rows at some positions."""

    @property
    def slots(self) -> Ints:
        """The slot of each row under the key that was asked for."""

    @property
    def ends(self) -> Hashable:
        """Tells apart segments of the same rows with other ends."""


class Search(Protocol):
    """The rows of a SteM that match each wanted slot."""

    @property
    def counts(self) -> Ints:
        """By wanted slot, how many rows match at most."""

    def times(self) -> tuple[int, int]:
        """The latest beginning and the earliest end of the rows that may match."""

    def matches(self, start: int, stop: int, retracting: Retracting | None = None) -> Matches:
        """The matches of the wanted slots start … stop - 1; `probing` counts from 0."""


class Stem(Protocol):
    def prepare(self, step: Step, delta: Delta) -> None:
        """Called before any input probes: `delta` are the changes of this input in the step."""

    def show(self, step: Step, delta: Delta) -> None:
        """Called after the changes of this input have probed: from now on its rows are visible to the others."""

    def retract(self, delta: Delta) -> None:
        """Ends the rows that retractions name, and marks them as leaving: other inputs retract rows in the step too."""

    def forget_leaving(self) -> None:
        """Called after the retractions of all inputs have probed."""

    def add_keys(self, keys: Sequence[Key]) -> None:
        """`keys` begins with the present keys; the SteM may be searched by the others too from now on."""

    def wanted(self, step: Step, key: int, values: Sequence[pa.Array], query: Ints | None, n: int) -> Ints:
        """The slots of key values under one of its keys."""

    def search(self, step: Step, key: int, wanted: Ints, least: int) -> Search:
        """The rows with each wanted slot, except rows that end before `least`, of which some may be left."""

    def column(self, i: int, rows: Ints) -> pa.Array:
        """The values of a column at some rows."""

    def arrivals_at(self, rows: Ints) -> Ints | None:
        """The arrival numbers of some rows, if they are tuples of a stream that never change."""

    def expire(self, step: Step) -> None:
        """Drops all rows that the join does not need any more."""

    def forget(self, queries: Ints) -> None:
        """Drops the rows of dropped queries."""

    def save(self) -> Saved | None:
        """Its rows; None if they are saved elsewhere."""

    @property
    def restores_exactly(self) -> bool:
        """Whether it goes on, after `save`, like a SteM that has loaded what it saved."""

    def load(self, saved: pa.Table, functions: Functions) -> None:
        """Restores saved rows."""

    @property
    def shared_store(self) -> StreamLog | StoredTable | None:
        """The log or table that has its rows, if other families may read it too."""

    @property
    def nbytes(self) -> int:
        """The bytes of its rows and indexes; those of a shared store count for everyone who reads it."""

    def segments(self, step: Step, key: int) -> Sequence[StemSegment]:
        """The visible rows in parts, for searches by ranges."""

    def __len__(self) -> int: ...


class ReadsElsewhere:
    """What SteMs have in common whose rows are stored by the engine, for all joins: they keep and save none."""

    def forget(self, queries: Ints) -> None:
        """The rows belong to no query."""

    def save(self) -> None:
        return None

    @property
    def restores_exactly(self) -> bool:
        return True

    def load(self, saved: pa.Table, functions: Functions) -> None:
        """Rows that an earlier version saved for this join are in the store too."""
