"""What shared routes know of queries: by member, the ranges, windows and registration of its queries; for all members
together, the tables that `shared_routes.py` searches.

A member is the route of one input of one join. Queries have slots, member after member. The tables are assembled again
when members change or queries are added. O(queries * levels).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import add
from typing import NamedTuple

import numpy as np

from eddyline.arrays import Ints, Mask, Words
from eddyline.index.filters.slot_boxes import (
    LEAST,
    MOST,
    Boxes,
    Windows,
    boxes_of,
)
from eddyline.operators.condition import Condition
from eddyline.operators.evaluate import Functions
from eddyline.operators.joins.log_stem import LogStem
from eddyline.operators.joins.stem_join import StemJoin
from eddyline.operators.query_boxes import are_boxes, box_ranges
from eddyline.plan.expressions import (
    all_of,
    anonymous,
    calls_functions,
    conjuncts,
    may_overflow,
    move_columns,
    params_of,
)
from eddyline.plan.physical import ProbeStep
from eddyline.plan.range_probes import inputs_of
from eddyline.sql.bound import Expr
from eddyline.state.query_table import QueryRows


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
        if node.scanned:
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
        boxes = [box_ranges(c.attributes, x) for c, x in zip(self.conditions, conditions, strict=True)]
        widths = [stem.scan.widths(queries, every, functions) for stem in self.stems]
        exact = all(are_boxes(x) for x in conditions)
        return MemberTables(len(queries), boxes, widths, queries.since_at(every), exact)


class MemberTables(NamedTuple):
    size: int
    boxes: list[dict[Expr, tuple[Ints, Ints]]]  # by level: the ranges of queries over attributes of the stream
    widths: list[Ints]  # by level: the window of each query
    since: Ints
    exact: bool  # whether boxes say all that conditions do


class TrieStep(NamedTuple):
    """A step of the trie: partial results with a slot of the mask probe a target."""

    number: int  # of the target
    target: Target
    stems: tuple[LogStem, ...]  # by level, as some member sees them; the last is that of the target
    key: int  # its number in that SteM
    mask: Words
    attributes: list[Expr]  # of the target that conditions of these slots restrict
    boxes: Boxes
    windows: Windows
    longest: int  # the largest window on the target


@dataclass
class Tables:
    """The queries of all members: what they accept at each level, and where they go next."""

    attributes: list[Expr] = field(default_factory=list)  # of arriving tuples that conditions restrict
    boxes: Boxes = field(
        default_factory=lambda: boxes_of(*np.empty((2, 0, 0), np.int64))
    )  # what queries accept of them
    steps: list[list[TrieStep]] = field(default_factory=list)  # by level: where its partial results go
    ending: list[Words] = field(default_factory=list)  # by level: the slots whose route ends
    going: list[Words] = field(default_factory=list)  # by level: the slots whose route goes on
    member: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # by slot


def assembled(members: Sequence[Member], queries: Mapping[int, QueryRows], functions: Functions) -> Tables:
    tables, of_members = Tables(), [m.tables(queries[m.family], functions) for m in members]
    starts = np.cumsum([0, *(x.size for x in of_members)])
    slots, levels = int(starts[-1]), max((len(m.stems) for m in members), default=0)
    tables.member = np.repeat(np.arange(len(members)), [x.size for x in of_members])
    since = np.concatenate([np.empty(0, np.int64), *(x.since for x in of_members)])
    widths = np.zeros((levels, slots), np.int64)
    next_target = np.full((levels, slots), -1, np.int64)
    known: dict[Target, int] = {}
    targets: list[tuple[Target, tuple[LogStem, ...], int]] = []
    for n, (member, own) in enumerate(zip(members, of_members, strict=True)):
        mine = slice(starts[n], starts[n + 1])
        for level, width in enumerate(own.widths):
            widths[level][mine] = width
        for level, target in enumerate(member.targets):
            if target not in known:
                known[target] = len(targets)
                targets.append((target, member.stems[: level + 2], member.probes[level].key))
            next_target[level, mine] = known[target]
    ranges = [
        _Ranges([(starts[n], x.boxes[d]) for n, x in enumerate(of_members) if d < len(x.boxes)], slots)
        for d in range(levels)
    ]
    if levels:
        tables.attributes, tables.boxes = ranges[0].boxes(np.ones(slots, np.bool_))
    for level in range(levels):
        tables.ending.append(bitmap(next_target[level] < 0))
        tables.going.append(bitmap(next_target[level] >= 0))
        going = np.unique(next_target[level][next_target[level] >= 0]).tolist()
        tables.steps.append([])
        for t in going:
            of, (target, stems, key) = next_target[level] == t, targets[t]
            attributes, boxes = ranges[level + 1].boxes(of)
            narrowest, widest = widths[:, of].min(axis=1), widths[:, of].max(axis=1)
            windows = Windows(widths, since, narrowest, int(since[of].max()), widest, int(since[of].min()))
            longest = int(widest[level + 1])
            tables.steps[level].append(TrieStep(t, target, stems, key, bitmap(of), attributes, boxes, windows, longest))
    return tables


class _Ranges:
    """The ranges of all queries at one level, by attribute: from the slot where those of each member begin."""

    def __init__(self, members: Sequence[tuple[int, Mapping[Expr, tuple[Ints, Ints]]]], slots: int) -> None:
        self.slots = slots
        self.low: dict[Expr, Ints] = {}
        self.high: dict[Expr, Ints] = {}
        for start, own in members:
            for attribute, (low, high) in own.items():
                if attribute not in self.low:
                    self.low[attribute], self.high[attribute] = np.full(slots, LEAST), np.full(slots, MOST)
                self.low[attribute][start : start + len(low)] = low
                self.high[attribute][start : start + len(high)] = high

    def boxes(self, of: Mask) -> tuple[list[Expr], Boxes]:
        """The boxes of some slots, along the attributes that they restrict."""
        restricted = [e for e in self.low if ((self.low[e] > LEAST) | (self.high[e] < MOST))[of].any()]
        low, high = np.full((len(restricted), self.slots), LEAST), np.full((len(restricted), self.slots), MOST)
        for a, e in enumerate(restricted):
            low[a, of], high[a, of] = self.low[e][of], self.high[e][of]
        return restricted, boxes_of(low, high)


def bitmap(flags: Mask) -> Words:
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
