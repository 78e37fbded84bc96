"""Routes that joins of different families share: arriving tuples probe each SteM once for all of them.

The routes of all families from one stream form a trie. Tuples go down the trie breadth-first, one level at a time: all
partial results that go on to the same SteM by the same key probe it together, whatever they were joined with before. A
partial result carries its lineage, the query slots that can still accept it: selections on single inputs, windows and
registration times of queries prune at every level (`index/filters/slot_boxes.py`), and a partial result that no query
accepts is dropped.

What comes out are candidates: the rows that a join may emit. Each join checks its own conditions on them. So the cost
of a batch follows the number of SteMs and of partial results, and not the number of families. (Document 1, sections 3.2
and 3.3.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints, Mask, Words
from eddyline.index.filters.domains import as_integers
from eddyline.index.filters.slot_boxes import (
    LEAST,
    Boxes,
    Pairing,
    Values,
    Windows,
    accepted,
    having,
    listed,
    narrowed,
)
from eddyline.operators.base import columns_for
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.operators.joins.candidates import Candidates
from eddyline.operators.joins.log_stem import LogStem
from eddyline.operators.joins.route_tables import Member, Tables, Target, assembled, bitmap
from eddyline.plan.expressions import (
    columns_of,
)
from eddyline.sql.bound import Expr
from eddyline.state.delta import Delta
from eddyline.state.query_table import QueryRows
from eddyline.state.store.key_index import KeyIndex
from eddyline.state.store.stream_log import LogView, StreamLog

MOST_PARTIAL = 1 << 22  # partial results of one probe; beyond, every family probes alone, in portions


class TooManyResults(Exception):
    """A batch has too many partial results for shared probing."""


class Level(NamedTuple):
    """Partial results: the positions of their tuples in the batch, of their partners in logs, and their lineage."""

    origin: Ints
    rows: list[Ints]
    times: list[Ints]  # by level, the event times of tuples and partners
    bits: Words


class SharedRoutes:
    """The routes of all families from one stream."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.built = 0  # partial results so far
        self._known: tuple[list[tuple[Member, int, int]], Tables] | None = None  # (members and their queries), tables

    def candidates(
        self, batch: Delta, queries: Mapping[int, QueryRows], functions: Functions
    ) -> dict[tuple[int, int], Candidates | None]:
        """By join (its identity) and input of every member: the rows that it may emit, or None.

        An empty dictionary means that members have to probe on their own.
        """
        try:
            alive = np.concatenate([queries[m.family].alive for m in self.members])
            run = _Run(self, self._tables(queries, functions), batch, alive)
        except TooManyResults:
            return {}
        nothing: dict[tuple[int, int], Candidates | None] = {(id(m.join), m.input): None for m in self.members}
        return nothing | run.results

    def _tables(self, queries: Mapping[int, QueryRows], functions: Functions) -> Tables:
        rows = [queries[m.family] for m in self.members]
        versions = [(m, r.version, r.removed) for m, r in zip(self.members, rows, strict=True)]
        if self._known is None or self._known[0] != versions:
            self._known = versions, assembled(self.members, queries, functions)
        return self._known[1]


class _Run:
    """One batch on its way through the trie."""

    def __init__(self, routes: SharedRoutes, tables: Tables, batch: Delta, alive: Mask) -> None:
        self.routes, self.tables, self.batch, self.first = routes, tables, batch, int(batch.first[0])
        self._views: dict[int, LogView] = {}
        self.results: dict[tuple[int, int], Candidates] = {}
        self._wanted: dict[int, Ints] = {}
        origin = routes.members[0].stems[0]
        attributes = tables.attributes[id(origin.log)]
        values = _values(attributes, batch.columns, len(batch))
        bits = accepted(tables.boxes[0].first(len(attributes)), values, len(tables.member))
        bits &= bitmap(alive)
        level, depth = Level(np.arange(len(batch)), [], [batch.ts], bits), 1
        while len(level.origin):
            level = self._next(level, depth)
            depth += 1

    def _next(self, level: Level, depth: int) -> Level:
        targets = self.tables.leaving[depth - 1] if depth <= len(self.tables.leaving) else {}
        probed = [self._probe(level, t, mask, depth) for t, mask in targets.items()]
        parts = [p for p in probed if p is not None]
        if not parts:
            return Level(np.empty(0, np.int64), [], [], level.bits[:0])
        if len(parts) == 1:
            return parts[0]
        rows = [np.concatenate([p.rows[d] for p in parts]) for d in range(depth)]
        times = [np.concatenate([p.times[d] for p in parts]) for d in range(depth + 1)]
        return Level(np.concatenate([p.origin for p in parts]), rows, times, np.concatenate([p.bits for p in parts]))

    def _probe(self, level: Level, t: int, mask: Words, depth: int) -> Level | None:
        """The partial results that go to a target, joined with its rows; those whose routes end there are results."""
        tables, stem, target = self.tables, self.tables.stems[t], self.tables.targets[t]
        log, which = stem.log, having(level.bits, mask)
        if not len(log) or not len(which):
            return None
        origin, index = level.origin[which], stem.index(target.key)
        high = len(log) if target.sees_step else log.position_of(self.first)
        least = int(self.batch.ts[origin].min())
        longest = tables.longest[depth][t]
        low = log.position_from(least - longest) if least > LEAST + longest else 0
        wanted = self._wanted_slots(t, target, index, level, which)
        counts = index.counts(wanted, low, high)
        total = int(counts.sum())
        if total > MOST_PARTIAL:
            raise TooManyResults
        if not total:
            return None
        probing, rows = index.matches(wanted, low, high, counts)
        self.routes.built += total
        attributes = tables.restricted[depth][t]
        boxes = Boxes(tables.boxes[depth].low[attributes], tables.boxes[depth].high[attributes])
        values = _stored_values([tables.attributes[id(log)][a] for a in attributes], log, rows)
        from_level = which[probing]
        before = np.stack([t[from_level] for t in level.times])
        pairs = Pairing(from_level, before, log.ts[rows], log.arrivals[rows])
        windows = Windows(tables.widths, tables.since)
        matches, left = narrowed(boxes, values, windows, pairs, level.bits, mask)
        if not len(matches):
            return None
        kept = from_level[matches]
        times = [*(t[kept] for t in level.times), pairs.ts[matches]]
        joined = Level(level.origin[kept], [*(r[kept] for r in level.rows), rows[matches]], times, left)
        self._finish(joined, depth)
        return joined if (left & ~tables.ending[depth]).any() else None

    def _wanted_slots(self, t: int, target: Target, index: KeyIndex, level: Level, which: Ints) -> Ints:
        """The slots that partial results want in a target. Keys of the arriving tuples are looked up once."""
        origin = level.origin[which]
        if all(at == 0 for at, _, _ in target.source):
            if t not in self._wanted:
                batch, n = self.batch, len(self.batch)
                self._wanted[t] = index.wanted([evaluate(e, batch.columns, (), n) for _, _, e in target.source], n)
            return self._wanted[t][origin]
        values = []
        for at, _, e in target.source:
            if at == 0:
                columns = columns_for(self.batch.take(origin), columns_of(e))
            else:
                stem = self._stem_at(t, at)
                columns = stem.columns(e, level.rows[at - 1][which])
            values.append(evaluate(e, columns, (), len(which)))
        return index.wanted(values, len(which))

    def _stem_at(self, t: int, at: int) -> LogStem:
        """The SteM at a level of the routes that probe a target."""
        return next(m for m in self.routes.members if self.tables.targets[t] in m.targets).stems[at]

    def _finish(self, joined: Level, depth: int) -> None:
        """Collects the results of members whose routes end at this level."""
        row, slot = listed(joined.bits, self.tables.ending[depth])
        if not len(row):
            return
        member = self.tables.member[slot]
        order = np.argsort(member, kind="stable")
        row, member = row[order], member[order]
        starts = np.nonzero(np.append(True, member[1:] != member[:-1]))[0]
        for begin, end in zip(starts.tolist(), [*starts[1:].tolist(), len(row)], strict=True):
            owner, mine = self.routes.members[int(member[begin])], row[begin:end]
            if owner.size > 1:
                mine = mine[np.append(True, mine[1:] != mine[:-1])]
            rows = {p.input: r[mine] for p, r in zip(owner.probes, joined.rows, strict=True)}
            views = {p.input: self._view(s.log) for p, s in zip(owner.probes, owner.stems[1:], strict=True)}
            count = end - begin if owner.exact else None
            candidates = Candidates(self.batch.first[joined.origin[mine]], rows, views, count)
            self.results[id(owner.join), owner.input] = candidates

    def _view(self, log: StreamLog) -> LogView:
        if id(log) not in self._views:
            self._views[id(log)] = log.view()
        return self._views[id(log)]


def _stored_values(attributes: Sequence[Expr], log: StreamLog, rows: Ints) -> Values:
    """The values of attributes at some rows of a log."""
    used = {c for a in attributes for c in columns_of(a)}
    columns = [log.column(c).take(rows) if c in used else None for c in range(len(log.types))]
    return _values(attributes, columns, len(rows))


def _values(attributes: Iterable[Expr], columns: Sequence[pa.Array], n: int) -> Values:
    of = [as_integers(evaluate(a, columns, (), n)) for a in attributes]
    numbers, missing = np.empty((len(of), n), np.int64), np.empty((len(of), n), np.bool_)
    for i, (x, y) in enumerate(of):
        numbers[i], missing[i] = x, y
    return Values(numbers, missing)
