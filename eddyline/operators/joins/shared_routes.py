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
from dataclasses import dataclass, field
from functools import partial
from operator import add
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints, Mask, Words
from eddyline.index.filters.clauses import Conditions
from eddyline.index.filters.domains import as_integers
from eddyline.index.filters.slot_boxes import (
    LEAST,
    MOST,
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
from eddyline.operators.condition import Condition
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.operators.joins.candidates import Candidates
from eddyline.operators.joins.log_stem import LogStem
from eddyline.operators.joins.stem_join import StemJoin
from eddyline.plan.expressions import (
    all_of,
    anonymous,
    calls_functions,
    columns_of,
    conjuncts,
    may_overflow,
    move_columns,
    params_of,
)
from eddyline.plan.physical import ProbeStep
from eddyline.plan.range_probes import inputs_of
from eddyline.sql.bound import Expr
from eddyline.state.delta import Delta
from eddyline.state.query_table import QueryRows
from eddyline.state.store.key_index import KeyIndex
from eddyline.state.store.stream_log import LogView, StreamLog

MOST_PARTIAL = 1 << 22  # partial results of one probe; beyond, every family probes alone, in portions


class TooManyResults(Exception):
    """A batch has too many partial results for shared probing."""


class Target(NamedTuple):
    """A SteM that routes probe: the log and its key, where the wanted key comes from, and which rows are visible."""

    log: int  # identity
    key: tuple[Expr, ...]
    source: tuple[tuple[int, int, Expr], ...]  # by part of the key: a level of the route, its log, and an expression
    sees_step: bool  # whether rows that arrived in the same step are visible


@dataclass(eq=False)
class Member:
    """The route of one input of a join."""

    family: int
    join: StemJoin
    input: int
    stems: tuple[LogStem, ...]  # by level; the first is that of the input itself
    targets: tuple[Target, ...]
    conditions: tuple[Condition, ...]  # by level: on that stream alone
    plain: bool  # whether all its conditions are keys, or with parameters on one stream alone
    known: tuple[tuple[int, int], MemberTables] | None = None

    @property
    def probes(self) -> tuple[ProbeStep, ...]:
        return self.join.stems.node.probes[self.input]

    @property
    def size(self) -> int:
        """The number of its queries when it was last asked for its tables."""
        return 0 if self.known is None else self.known[1].size

    @property
    def exact(self) -> bool:
        """Whether its candidates are its results: all its conditions are keys, boxes and windows."""
        return self.known is not None and self.known[1].exact and self.plain

    @classmethod
    def of(cls, family: int, join: StemJoin, i: int) -> Member | None:
        """The route of an input; None if it cannot be shared."""
        node = join.stems.node
        order = [i, *(p.input for p in node.probes[i])]
        stems = [s for j in order if isinstance(s := join.stems.stems[j], LogStem) and s.shared]
        calls = node.condition is not None and calls_functions(node.condition)
        if len(stems) < len(order) or calls or any(r is not None for r in node.ranges) or node.frozen_table is not None:
            return None
        targets = []
        for level, probe in enumerate(node.probes[i]):
            source = []
            for e in probe.exprs:
                of = inputs_of(e, node.starts[:-1])
                if len(of) != 1 or calls_functions(e) or may_overflow(e):
                    return None
                (j,) = of
                at = order.index(j)
                source.append((at, id(stems[at].log), anonymous(move_columns(e, partial(add, -node.starts[j])))))
            stem = stems[level + 1]
            targets.append(Target(id(stem.log), stem.keys[probe.key], tuple(source), probe.input < i))
        conditions = [Condition(_own_condition(join, j)) for j in order]
        single = all(
            len(inputs_of(c, node.starts[:-1])) == 1 and not may_overflow(c) for c in conjuncts(node.condition)
        )
        static = any(p.conditions is not None for p in node.probes[i]) or any(s.condition is not None for s in stems)
        plain = single and not static and all(c.others == 0 for c in conditions)
        return cls(family, join, i, tuple(stems), tuple(targets), tuple(conditions), plain)

    def tables(self, queries: QueryRows, functions: Functions) -> MemberTables:
        """What its queries accept, by level; computed again when queries are added."""
        version = queries.version, queries.removed
        if self.known is None or self.known[0] != version:
            self.known = version, self._tables(queries, functions)
        return self.known[1]

    def _tables(self, queries: QueryRows, functions: Functions) -> MemberTables:
        every = np.arange(len(queries))
        conditions = [c.of_queries(queries, every, functions) for c in self.conditions]
        boxes = [_ranges(c.attributes, x) for c, x in zip(self.conditions, conditions, strict=True)]
        widths = [stem.scan.widths(queries, every, functions) for stem in self.stems]
        exact = all(_is_box(x) for x in conditions)
        return MemberTables(len(queries), boxes, widths, queries.since_at(every), exact)


class MemberTables(NamedTuple):
    size: int
    boxes: list[dict[Expr, tuple[Ints, Ints]]]  # by level: the ranges of queries over attributes of the stream
    widths: list[Ints]  # by level: the window of each query
    since: Ints
    exact: bool  # whether boxes say all that conditions do


class Level(NamedTuple):
    """Partial results: the positions of their tuples in the batch, of their partners in logs, and their lineage."""

    origin: Ints
    rows: list[Ints]
    times: list[Ints]  # by level, the event times of tuples and partners
    bits: Words


@dataclass
class Tables:
    """The queries of all members: what they accept at each level, and where they go next."""

    attributes: dict[int, list[Expr]] = field(default_factory=dict)  # by log
    boxes: list[Boxes] = field(default_factory=list)
    widths: Ints = field(default_factory=lambda: np.empty((0, 0), np.int64))  # by level and slot
    since: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    leaving: list[dict[int, Words]] = field(default_factory=list)  # by level: the slots that go on to each target
    ending: list[Words] = field(default_factory=list)  # by level: the slots whose route ends
    longest: dict[int, dict[int, int]] = field(default_factory=dict)  # by level and target: the largest window
    restricted: dict[int, dict[int, Ints]] = field(default_factory=dict)  # the attributes that conditions restrict
    member: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # by slot
    targets: list[Target] = field(default_factory=list)
    stems: list[LogStem] = field(default_factory=list)  # by target, that of some member


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
            self._known = versions, _assembled(self.members, queries, functions)
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
        bits &= _bits(alive)
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


def _assembled(members: Sequence[Member], queries: Mapping[int, QueryRows], functions: Functions) -> Tables:
    tables, of_members = Tables(), [m.tables(queries[m.family], functions) for m in members]
    starts = np.cumsum([0, *(x.size for x in of_members)])
    slots, levels = int(starts[-1]), max((len(m.stems) for m in members), default=0)
    known: dict[Target, int] = {}
    tables.member = np.repeat(np.arange(len(members)), [x.size for x in of_members])
    tables.since = np.concatenate([np.empty(0, np.int64), *(x.since for x in of_members)])
    tables.widths = np.zeros((levels, slots), np.int64)
    for member, own in zip(members, of_members, strict=True):
        for level, stem in enumerate(member.stems):
            exprs = tables.attributes.setdefault(id(stem.log), [])
            exprs += [e for e in own.boxes[level] if e not in exprs]
    most = max((len(a) for a in tables.attributes.values()), default=0)
    shape = (most, slots)
    next_target = np.full((levels, slots), -1, np.int64)
    tables.boxes = [Boxes(np.full(shape, LEAST), np.full(shape, MOST)) for _ in range(levels)]
    for n, (member, own) in enumerate(zip(members, of_members, strict=True)):
        mine = slice(starts[n], starts[n + 1])
        for level, stem in enumerate(member.stems):
            tables.widths[level][mine] = own.widths[level]
            exprs = tables.attributes[id(stem.log)]
            for e, (low, high) in own.boxes[level].items():
                a = exprs.index(e)
                tables.boxes[level].low[a, mine], tables.boxes[level].high[a, mine] = low, high
        for level, target in enumerate(member.targets):
            if target not in known:
                known[target] = len(tables.targets)
                tables.targets.append(target)
                tables.stems.append(member.stems[level + 1])
            next_target[level, mine] = known[target]
    for level in range(levels):
        tables.ending.append(_bits(next_target[level] < 0))
        going = np.unique(next_target[level][next_target[level] >= 0]).tolist()
        slots_of = {t: next_target[level] == t for t in going}
        tables.leaving.append({t: _bits(mine) for t, mine in slots_of.items()})
        if level + 1 < levels:
            boxes, widths = tables.boxes[level + 1], tables.widths[level + 1]
            tables.longest[level + 1] = {t: int(widths[mine].max()) for t, mine in slots_of.items()}
            bounded = (boxes.low > LEAST) | (boxes.high < MOST)
            tables.restricted[level + 1] = {t: np.nonzero(bounded[:, m].any(axis=1))[0] for t, m in slots_of.items()}
    return tables


def _bits(flags: Mask) -> Words:
    """Flags as a bitmap."""
    padded = np.zeros(-(-len(flags) // 64) * 64, np.bool_)
    padded[: len(flags)] = flags
    return np.packbits(padded, bitorder="little").view(np.uint64)


def _own_condition(join: StemJoin, i: int) -> Expr | None:
    """The conditions with parameters on one input alone, over its own columns, without their names."""
    node = join.stems.node
    own = [
        anonymous(move_columns(c, lambda x: x - node.starts[i]))
        for c in conjuncts(node.condition)
        if inputs_of(c, node.starts[:-1]) == {i} and params_of(c) and not may_overflow(c)
    ]
    return all_of(own)


def _ranges(attributes: Sequence[Expr], conditions: Conditions) -> dict[Expr, tuple[Ints, Ints]]:
    """By attribute, the first and last integer that each query accepts; clauses that are no ranges are left out."""
    ranges = {}
    for attribute, clauses in zip(attributes, conditions.single, strict=True):
        if not clauses or any(isinstance(r.start, pa.Array) or r.null.any() for r in clauses):
            continue
        low, high = np.full(conditions.size, LEAST), np.full(conditions.size, MOST)
        for r in clauses:
            first = np.where(r.no_start, LEAST, r.start)
            last = np.where(r.no_stop, MOST, np.where(r.stop == LEAST, LEAST, r.stop - (r.stop > LEAST)))
            low[r.owner] = np.maximum(low[r.owner], first)
            high[r.owner] = np.minimum(high[r.owner], last)
        ranges[attribute] = low, high
    return ranges


def _is_box(conditions: Conditions) -> bool:
    """Whether every condition is a range of numbers along each attribute."""
    ranges = [r for clauses in conditions.single for r in clauses]
    numbers = not any(isinstance(r.start, pa.Array) or r.null.any() or (r.no_start & r.no_stop).any() for r in ranges)
    given = sum((np.bincount(r.owner, minlength=conditions.size) for r in ranges), np.zeros(conditions.size, np.int64))
    plain = not conditions.partial.any() and all(a is None for a in conditions.alternatives)
    return bool(numbers and plain and (given == conditions.required).all())


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
