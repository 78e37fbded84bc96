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

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from eddyline.arrays import Ints, Mask, Words
from eddyline.index.filters.domains import as_integers
from eddyline.index.filters.slot_boxes import (
    LEAST,
    Matched,
    Times,
    Values,
    accepted,
    by_owner,
    having,
    narrowed,
    overlapping,
    wanting,
)
from eddyline.index.runtime.parallel import SMALLEST, at_once
from eddyline.operators.base import columns_for
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.operators.joins.candidates import Candidates
from eddyline.operators.joins.route_counts import StepCounts
from eddyline.operators.joins.route_tables import Member, Tables, TrieStep, assembled, bitmap
from eddyline.plan.expressions import (
    columns_of,
)
from eddyline.sql.bound import Column, Expr
from eddyline.state.delta import Delta
from eddyline.state.query_table import QueryRows
from eddyline.state.store.key_index import NO_MATCH, KeyIndex
from eddyline.state.store.stream_log import LogView, StreamLog

MOST_PARTIAL = 1 << 22  # partial results of one probe; beyond, every family probes alone, in portions


class TooManyResults(Exception):
    """A batch has too many partial results for shared probing."""


class Probed(NamedTuple):
    """What partial results have become at one step of the trie: joined with rows, and those that a query accepts."""

    step: TrieStep
    joined: int
    left: Level | None


class Level(NamedTuple):
    """Partial results: the positions of their tuples in the batch, of their partners in logs, and their lineage."""

    origin: Ints
    rows: list[Ints]
    times: Ints  # by level, the event times of tuples and partners
    bits: Words


class Arriving(NamedTuple):
    """The tuples of one stream that arrive in a step; for each log (its identity) that the step appends to, the first
    arrival number of its new rows; the number of threads that may probe."""

    batch: Delta
    fresh: Mapping[int, int]
    threads: int = 1


class SharedRoutes:
    """The routes of all families from one stream."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.built = 0  # partial results so far
        self.tuples = 0  # that have arrived since members or queries changed
        self.steps: dict[tuple[int, int], StepCounts] = {}  # by level and target: what it did since then
        self._tables = Tables()
        self._alive = bitmap(np.empty(0, np.bool_))
        self._nothing: dict[tuple[int, int], Candidates | None] = {}

    def take(self, members: Sequence[Member], queries: Mapping[int, QueryRows], functions: Functions) -> None:
        """Members and their queries from now on."""
        self.tuples, self.steps = 0, {}
        self.members = list(members)
        self._tables = assembled(self.members, queries, functions)
        alive = [queries[m.family].alive for m in self.members]
        self._alive = bitmap(np.concatenate(alive) if alive else np.empty(0, np.bool_))
        self._nothing = {(id(m.join), m.input): None for m in self.members}

    def count(self, depth: int, target: int, joined: int, left: int) -> None:
        """Partial results of a level were joined with rows of a target, of which some are left."""
        self.built += joined
        done = self.steps.setdefault((depth, target), StepCounts())
        done.compared += joined
        done.left += left

    def candidates(self, arriving: Arriving) -> Routed | None:
        """The rows that members may emit; None if they have to probe on their own."""
        self.tuples += len(arriving.batch)
        try:
            run = _Run(self, self._tables, arriving, self._alive)
        except TooManyResults:
            return None
        return Routed(self._nothing | run.results, run.families)

    def describe(self, family: int) -> list[str]:
        """Lines of EXPLAIN ANALYZE: the part of the trie that the joins of a family take, with what its steps did."""
        lines = []
        numbers = {step.target: step.number for level in self._tables.steps for step in level}
        for m in self.members:
            if m.family != family:
                continue
            others = {tuple(o.targets[:n]) for o in self.members for n in range(1, len(o.targets) + 1)}
            lines.append(
                f"input {m.input + 1}: {self.tuples:,} tuples, with {len(self.members)} routes in a trie of "
                f"{len(others)} steps; since routes changed:"
            )
            for depth, (probe, target) in enumerate(zip(m.probes, m.targets, strict=True), 1):
                together = sum(o.targets[:depth] == m.targets[:depth] for o in self.members)
                done = self.steps.get((depth, numbers[target]), StepCounts())
                share = f", {done.left / done.compared:.1%} of them accepted by some query" if done.compared else ""
                routes = "1 route" if together == 1 else f"{together} routes"
                lines.append(f"  {probe.input + 1}: {routes} to here, partial results: {done.compared:,}{share}")
        return lines


class Routed(NamedTuple):
    """By join (its identity) and input of every member: the rows that it may emit, or None; families that have any."""

    candidates: dict[tuple[int, int], Candidates | None]
    families: set[int]


class _Run:
    """One batch on its way through the trie."""

    def __init__(self, routes: SharedRoutes, tables: Tables, arriving: Arriving, alive: Words) -> None:
        self.routes, self.tables, self.batch, self.fresh = routes, tables, arriving.batch, arriving.fresh
        self.threads = arriving.threads
        self.results: dict[tuple[int, int], Candidates | None] = {}
        self.families: set[int] = set()
        self._views: dict[int, LogView] = {}
        self._codes: dict[tuple[Expr, ...], Ints] = {}  # of keys of the arriving tuples
        self._wanted: dict[int, Ints] = {}  # by target: the slots of these keys
        batch = self.batch
        self.least = int(batch.ts.min())
        attributes = tables.attributes
        values = _stacked([as_integers(evaluate(a, batch.columns, (), len(batch))) for a in attributes], len(batch))
        bits = accepted(tables.boxes, values, alive)
        level, depth = Level(np.arange(len(batch)), [], batch.ts[np.newaxis], bits), 1
        while len(level.origin):
            level = self._next(level, depth)
            depth += 1

    def _next(self, level: Level, depth: int) -> Level:
        steps = self.tables.steps[depth - 1] if depth <= len(self.tables.steps) else []
        indexes = [(s, s.stems[-1].index(s.key)) for s in steps if len(s.stems[-1].log)]  # made here, if they are new
        work = [partial(self._probe, level, step, index) for step, index in indexes]
        parts = list[Level]()
        for step, joined, left in at_once(work, self.threads if len(level.origin) >= SMALLEST else 1):
            if joined:
                self.routes.count(depth, step.number, joined, 0 if left is None else len(left.origin))
            if left is not None:
                self._finish(left, depth)
                if overlapping(left.bits, self.tables.going[depth]):
                    parts.append(left)
        if not parts:
            return Level(np.empty(0, np.int64), [], level.times[:, :0], level.bits[:0])
        if len(parts) == 1:
            return parts[0]
        rows = [np.concatenate([p.rows[d] for p in parts]) for d in range(depth)]
        times = np.concatenate([p.times for p in parts], axis=1)
        return Level(np.concatenate([p.origin for p in parts]), rows, times, np.concatenate([p.bits for p in parts]))

    def _probe(self, level: Level, step: TrieStep, index: KeyIndex) -> Probed:
        """The partial results that go to a target, joined with its rows. Steps of one level are probed by threads, so
        nothing is changed here but caches."""
        log = step.stems[-1].log
        fresh = None if step.target.sees_step else self.fresh.get(id(log))
        high = len(log) if fresh is None else log.position_of(fresh)
        low = log.position_from(self.least - step.longest) if self.least > LEAST + step.longest else 0
        wants = wanting(level.bits, step.mask, self._wanted_slots(step, index, level), NO_MATCH)
        place, rows, total = index.some_matches(wants, low, high, MOST_PARTIAL)
        if total > MOST_PARTIAL:
            raise TooManyResults
        if not total:
            return Probed(step, 0, None)
        matched = Matched(place, rows)
        values = _stored_values(step.attributes, log, matched.row)
        times = Times(level.times, log.ts, log.arrivals)
        kept, row, joined_times, left = narrowed(
            step.boxes, values, step.windows, times, matched, level.bits, step.mask
        )
        if not len(kept):
            return Probed(step, total, None)
        joined = Level(level.origin[kept], [*(r[kept] for r in level.rows), row], joined_times, left)
        return Probed(step, total, joined)

    def _wanted_slots(self, step: TrieStep, index: KeyIndex, level: Level) -> Ints:
        """The slots that partial results want in a target. Keys of the arriving tuples are looked up once."""
        source = step.target.source
        if all(at == 0 for at, _, _ in source):
            if step.number not in self._wanted:
                self._wanted[step.number] = index.find(self._key_codes(index, tuple(e for _, _, e in source)))
            return self._wanted[step.number][level.origin]
        which, values = having(level.bits, step.mask), []
        for at, _, e in source:
            if at == 0:
                columns = columns_for(self.batch.take(level.origin[which]), columns_of(e))
            else:
                columns = step.stems[at].columns(e, level.rows[at - 1][which])
            values.append(evaluate(e, columns, (), len(which)))
        wanted = np.full(len(level.origin), NO_MATCH)
        wanted[which] = index.wanted(values, len(which))
        return wanted

    def _key_codes(self, index: KeyIndex, key: tuple[Expr, ...]) -> Ints:
        """The codes of a key of the arriving tuples: the same for every index, except where there are strings."""
        codes = self._codes.get(key)
        if codes is None:
            batch, n = self.batch, len(self.batch)
            codes = index.codes([evaluate(e, batch.columns, (), n) for e in key], n)
            if not index.has_strings:
                self._codes[key] = codes
        return codes

    def _finish(self, joined: Level, depth: int) -> None:
        """Collects the results of members whose routes end at this level."""
        members, starts, row = by_owner(
            joined.bits, self.tables.ending[depth], self.tables.member, len(self.routes.members)
        )
        for member, (begin, end) in zip(members.tolist(), pairwise(starts.tolist()), strict=True):
            owner, mine = self.routes.members[member], row[begin:end]
            if owner.size > 1:
                mine = mine[np.append(True, mine[1:] != mine[:-1])]
            rows = {p.input: r[mine] for p, r in zip(owner.probes, joined.rows, strict=True)}
            views = {p.input: self._view(s.log) for p, s in zip(owner.probes, owner.stems[1:], strict=True)}
            count = end - begin if owner.exact else None
            candidates = Candidates(self.batch.first[joined.origin[mine]], rows, views, count)
            self.results[id(owner.join), owner.input] = candidates
            self.families.add(owner.family)

    def _view(self, log: StreamLog) -> LogView:
        if id(log) not in self._views:
            self._views[id(log)] = log.view()
        return self._views[id(log)]


def _stored_values(attributes: Sequence[Expr], log: StreamLog, rows: Ints) -> Values:
    """The values of attributes at some rows of a log."""
    return _stacked([_stored(a, log, rows) for a in attributes], len(rows))


def _stored(attribute: Expr, log: StreamLog, rows: Ints) -> tuple[Ints, Mask | bool]:
    if isinstance(attribute, Column):
        numbers = log.column(attribute.index).integers(rows)
        if numbers is not None:
            return numbers, False
    used = columns_of(attribute)
    columns = [log.column(c).take(rows) if c in used else None for c in range(len(log.types))]
    return as_integers(evaluate(attribute, columns, (), len(rows)))


def _stacked(values: Sequence[tuple[Ints, Mask | bool]], n: int) -> Values:
    """By attribute: its values, and which are missing."""
    numbers, missing = np.empty((len(values), n), np.int64), np.empty((len(values), n), np.bool_)
    for i, (x, y) in enumerate(values):
        numbers[i], missing[i] = x, y
    return Values(numbers, missing)
