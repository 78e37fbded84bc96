"""Joins of any arity over SteMs (document 1, section 3.3): one state module per input, no intermediate results kept.

The changes of each input in turn probe the modules of the others, in an order in which every step has an equality to
search by if there is one, and are then built into their own module: build after probe, input after input, so that
every combination is found exactly once. Signs multiply and intervals intersect, so expirations need no code of their
own here.

Retractions come before insertions, so that a joined row is never sent with an end that the same step makes earlier; if
several inputs retract in one step, all their retractions are applied before any of them probes (`leaving.py`). So each
`-` of a join names one earlier `+` of the same row and end.

A non-retroactive table (document 3, section 4) is probed but never probes: its changes only reach its module, and the
flowing side is not kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from eddyline.errors import StepTooLarge
from eddyline.index.ranges import equal_ranges, pieces, spread
from eddyline.index.upkeep import worth_clearing
from eddyline.operators.base import Operator, PendingWindow, Step
from eddyline.operators.combining import Pairs, combined, require_room
from eddyline.operators.condition import may_overflow
from eddyline.operators.describe import describe_index, describe_ranges
from eddyline.operators.evaluate import Functions
from eddyline.operators.first_filter import FirstFilter
from eddyline.operators.leaving import first_to_leave
from eddyline.operators.matcher import Matcher
from eddyline.operators.ranged_join import Probing, RangedSide
from eddyline.operators.ranges import directions, inputs_of
from eddyline.operators.room import row_bytes
from eddyline.operators.stem_keys import ProbeStep, StemKey
from eddyline.plan.expressions import all_of, conjuncts, move_columns, params_of
from eddyline.sql.bound import Call, Expr
from eddyline.state.delta import Delta, Ints, concat, micros
from eddyline.state.stem import Stem


class Join(Operator):
    def __init__(self, children: Sequence[Operator], condition: Expr | None, frozen_table: int | None = None) -> None:
        """`frozen_table` is the position of a non-retroactive table among the inputs."""
        super().__init__(children)
        self.frozen_table = frozen_table
        if frozen_table is not None:
            self.takes_back = any(c.takes_back for i, c in enumerate(children) if i != frozen_table)
        self.types = tuple(x for c in children for x in c.types)
        self.starts = list(np.cumsum([0, *(len(c.types) for c in children)]))
        parts = conjuncts(condition)
        self.static = [p for p in parts if not params_of(p)]
        with_params = all_of(p for p in parts if params_of(p))
        windows = tuple(
            PendingWindow(w.time + int(self.starts[i]), w.size) for i, c in enumerate(children) for w in c.pending
        )
        some_attached = any(c.attached for c in children)
        # where only windows tell queries apart, they tell which queries a tuple affects
        by_window = len(windows) > 0 and len(children) == 2
        self.attached = some_attached or with_params is not None or by_window
        self.pending = () if self.attached else windows
        self.matcher = Matcher(with_params, windows, self.types)
        self.filters = [self._first_filter(i, [p for p in parts if params_of(p)]) for i in range(len(children))]
        self.keys: list[list[StemKey]] = [[] for _ in children]
        self.orders = [self._order(i) for i in range(len(children))]
        self.stems = self._new_stems()
        self.ranged = self._ranged(with_params, some_attached)

    # planning

    def _ranged(self, with_params: Expr | None, some_attached: bool) -> list[RangedSide | None]:
        """By input, the queries as its tuples see them, where they can be processed by groups of ranges."""
        plain = len(self.children) == 2 and self.attached and not some_attached
        if not plain:
            return [None for _ in self.children]
        parts = [c for c in (with_params, self.orders[0][0].conditions) if c is not None]
        found = directions(all_of(parts), self.matcher.pending, self.starts[:-1])
        return [None if d is None else RangedSide(d) for d in found]

    def _new_stems(self) -> list[Stem]:
        return [
            Stem(c.types, len(k), attached=c.attached, takes_back=c.takes_back)
            for c, k in zip(self.children, self.keys, strict=True)
        ]

    def _order(self, start: int) -> list[ProbeStep]:
        """The order in which changes of one input visit the others: first those with most equalities to search by."""
        bound = {start}
        waiting = list(self.static)
        alone = self._ready(waiting, bound)  # on the first input alone, or on none: checked with the first probe
        steps: list[ProbeStep] = []
        while len(bound) < len(self.children):
            options = [i for i in range(len(self.children)) if i not in bound]
            best = max(options, key=lambda i: (len(self._equalities(waiting, bound, i)), -i))
            pairs = self._equalities(waiting, bound, best)
            with_query = self.children[best].attached and any(self.children[b].attached for b in bound)
            start_of = int(self.starts[best])
            own = tuple(move_columns(k, partial(_less, start_of)) for _, k, _ in pairs)
            waiting = [w for w in waiting if not any(w is p for _, _, p in pairs)]
            bound.add(best)
            conditions = all_of(c for c in (alone, self._ready(waiting, bound)) if c is not None)
            alone = None
            steps.append(ProbeStep(best, self._key(best, own, with_query), tuple(e for e, _, _ in pairs), conditions))
        return steps

    def _first_filter(self, i: int, with_params: list[Expr]) -> FirstFilter | None:
        """The conditions with parameters that the tuples of an input can meet before they are joined."""
        child = self.children[i]
        # What may overflow is left to the joined rows: a tuple without a partner must not be a query's fault.
        own = [p for p in with_params if self.inputs_of(p) == {i} and not may_overflow(p)]
        if not own or any(c.attached for c in self.children) or child.takes_back or not child.reads_streams:
            return None
        moved = [move_columns(p, partial(_less, int(self.starts[i]))) for p in own]
        nothing_else, several = len(own) == len(with_params), len(self.children) > 2
        return FirstFilter(moved, self.matcher, child.types, nothing_else=nothing_else, always=several)

    def inputs_of(self, expr: Expr) -> set[int]:
        return inputs_of(expr, self.starts)

    def _ready(self, waiting: list[Expr], bound: set[int]) -> Expr | None:
        now = [w for w in waiting if self.inputs_of(w) <= bound]
        waiting[:] = [w for w in waiting if not any(w is x for x in now)]
        return all_of(now)

    def _equalities(self, waiting: list[Expr], bound: set[int], new: int) -> list[tuple[Expr, Expr, Call]]:
        """(expression over what is bound, expression over the new input, the condition) for each usable equality."""
        found = []
        for w in waiting:
            if isinstance(w, Call) and w.function == "eq":
                for a, b in (w.args, w.args[::-1]):
                    of_a, of_b = self.inputs_of(a), self.inputs_of(b)
                    if of_a and of_a <= bound and of_b == {new}:
                        found.append((a, b, w))
                        break
        return found

    def _key(self, i: int, exprs: tuple[Expr, ...], with_query: bool) -> int:
        for j, k in enumerate(self.keys[i]):
            if k.exprs == exprs and k.with_query == with_query:
                return j
        self.keys[i].append(StemKey(exprs, with_query))
        return len(self.keys[i]) - 1

    def follow(self, strategy: str) -> None:
        """How queries are found that a tuple affects: "auto", "by row", or one of STRATEGIES."""
        if strategy == "by row":
            self.ranged = [None for _ in self.children]
        for side in self.ranged:
            if side is not None:
                side.strategy = None if strategy == "auto" else strategy

    # running

    def pull(self, step: Step) -> Delta:
        deltas = [c.pull(step) for c in self.children]
        if step.kind == "arrivals":
            return self._run(step, deltas)
        if any(c.attached for c in self.children):
            # What is not attached stands in its module already; only what is new for the new queries moves.
            moving = [d if c.attached else c.none() for c, d in zip(self.children, deltas, strict=True)]
            return self._run(step, moving)
        if self.reads_streams:
            return self.none()
        kept, self.stems = self.stems, self._new_stems()
        found = self._run(step, deltas)
        self.stems = kept
        return found

    def pieces(self, step: Step) -> list[tuple[int, Probing] | Delta]:
        """A step in which tuples arrive: its changes as far as they have been found, and tuples, of which input, about
        to find theirs."""
        return self._moved(step, [c.pull(step) for c in self.children])

    def together(self, step: Step, pieces: Sequence[tuple[int, Probing] | Delta]) -> Delta:
        """All changes of a step."""
        parts: list[Delta] = []
        for piece in pieces:
            parts += [piece] if isinstance(piece, Delta) else self.given(step, *piece)
        return concat(parts, self.types, attached=self.attached)

    def _run(self, step: Step, deltas: Sequence[Delta]) -> Delta:
        return self.together(step, self._moved(step, deltas))

    def _moved(self, step: Step, deltas: Sequence[Delta]) -> list[tuple[int, Probing] | Delta]:
        found: list[tuple[int, Probing] | Delta] = []
        deltas = [d.spread() for d in deltas]
        retracting = [i for i, d in enumerate(deltas) if i != self.frozen_table and (d.sign < 0).any()]
        if len(retracting) > 1:
            found += self._retracted(step, {i: deltas[i].take(deltas[i].sign < 0).spread() for i in retracting})
            deltas = [d.take(d.sign > 0).spread() for d in deltas]
        for i in sorted(range(len(deltas)), key=lambda i: i not in retracting):
            delta = deltas[i]
            if not len(delta):
                continue
            if i != self.frozen_table:
                probing = self._probing(step, i, delta)
                found += [(i, probing)] if probing is not None else self._joined(step, i, delta)
            if self.frozen_table is None or i == self.frozen_table:
                self._build(i, delta, step)
        return found

    def _retracted(self, step: Step, retractions: Mapping[int, Delta]) -> list[Delta]:
        """The retractions of several inputs: each joined row is retracted by the part of it that leaves first."""
        for i, delta in retractions.items():
            self.stems[i].retract(delta)
        found: list[Delta] = []
        for i, delta in retractions.items():
            leaves = pa.array(delta.ts)
            for joined in self._partners(step, i, delta, leaves, leaving=i):
                found += self._kept(step, self._finished(step, [replace(joined, columns=joined.columns[:-1])]))
        for i in retractions:
            self.stems[i].forget_leaving()
        return found

    def _joined(self, step: Step, i: int, delta: Delta) -> list[Delta]:
        """The results that the tuples of an input have now. Their order does not tell what the tuples visited first."""
        first = self.filters[i]
        if first is None or step.kind == "replay":
            return list(self._kept(step, self._finished(step, self._partners(step, i, delta))))
        # Which of both ways is taken is measured: only what comes out in the end, the same of both, stays in the room.
        if first.first() == "stem":
            first.judge(step, delta)
            begun = time.perf_counter()
            together: list[Delta] | None = None
            with suppress(StepTooLarge), step.room.lent():  # then the filter comes first
                together = list(self._kept(step, self._partners(step, i, delta)))
            if together is not None:
                first.probed(len(delta), sum(len(j) for j in together), time.perf_counter() - begun)
                return list(self._finished(step, together))
        wanted = first.wanted(step, delta)
        begun = time.perf_counter()
        with step.room.lent():
            traced = list(self._traced(step, i, wanted.tuples))
        first.probed(len(wanted.tuples), sum(len(joined) for joined, _ in traced), time.perf_counter() - begun)
        if not first.carries:
            return list(self._finished(step, (joined for joined, _ in traced)))
        return [x for joined, origin in traced for x in first.attach(step, joined, origin, wanted)]

    def _probing(self, step: Step, i: int, delta: Delta) -> Probing | None:
        side = self.ranged[i]
        if side is None or step.kind == "replay":
            return None
        probe = self.orders[i][0]
        key = self.keys[probe.input][probe.key]
        slots = key.wanted(step.functions, probe.exprs, self._wide(i, delta), None, len(delta))
        return side.probing(step, delta, slots, probe.key, self.stems[probe.input])

    def given(self, step: Step, i: int, probing: Probing) -> list[Delta]:
        """The rows that tuples give to queries, as changes."""
        probe = replace(self.orders[i][0], conditions=None)  # their ranges have been looked at
        tuples = replace(probing.delta, columns=self._wide(i, probing.delta))
        found: list[Delta] = []
        for rows, parts in zip(probing.rows, probing.pairs(), strict=True):
            for p in parts:
                if len(p.tuples):
                    new = np.append(True, (np.diff(p.tuples) != 0) | (np.diff(p.places) != 0))
                    pairs = Pairs(p.tuples[new], p.places[new])
                    joined = combined(step, tuples, rows.rows, pairs, probe, self.starts[probe.input])
                    found += self._kept(step, [self.matcher.attached(step, joined, np.cumsum(new) - 1, p.queries)])
        return found

    def _wide(self, i: int, delta: Delta) -> tuple[pa.Array | None, ...]:
        """The columns of one input's tuples as those of joined rows, the others still missing."""
        columns: list[pa.Array | None] = [None] * len(self.types)
        columns[self.starts[i] : self.starts[i + 1]] = delta.columns
        return tuple(columns)

    def _partners(
        self, step: Step, i: int, delta: Delta, *beside: pa.Array, leaving: int | None = None
    ) -> Iterator[Delta]:
        """The tuples of an input joined with all they find; columns `beside` are carried along as the last ones."""
        return self._probe(step, replace(delta, columns=(*self._wide(i, delta), *beside)), self.orders[i], leaving)

    def _traced(self, step: Step, i: int, delta: Delta) -> Iterator[tuple[Delta, Ints]]:
        """As `_partners`, with the number of the tuple that each joined row came from."""
        for joined in self._kept(step, self._partners(step, i, delta, pa.array(np.arange(len(delta))))):
            yield replace(joined, columns=joined.columns[:-1]), micros(joined.columns[-1])

    def _build(self, i: int, delta: Delta, step: Step) -> None:
        stem = self.stems[i]
        stem.insert(delta, _slots(self.keys[i], step.functions, delta), step.before)
        if any(worth_clearing(len(k.table), len(stem)) for k in self.keys[i]):  # most keys have no row any more
            self.keys[i] = [StemKey(k.exprs, k.with_query) for k in self.keys[i]]
            stem.renumber(partial(_slots, self.keys[i], step.functions))

    def _probe(
        self, step: Step, partial: Delta, order: Sequence[ProbeStep], leaving: int | None = None
    ) -> Iterator[Delta]:
        """`leaving` is the input whose retractions probe, if others retract too; the last column says when they do."""
        if not order:
            yield partial
            return
        probe, rest = order[0], order[1:]
        key = self.keys[probe.input][probe.key]
        wanted = key.wanted(step.functions, probe.exprs, partial.columns, partial.query, len(partial))
        leaves = None if leaving is None else micros(partial.columns[-1])
        for segment in list(self.stems[probe.input].segments):
            low, high = equal_ranges(segment.sorted_slots[probe.key], wanted)
            if not rest and probe.conditions is None and leaving is None:
                require_room(step, partial, segment.rows, low, high)
            for start, begins, ends in pieces(low, high):
                owner, place = spread(begins, ends)
                if len(owner):
                    pairs = Pairs(owner + start, segment.orders[probe.key][place])
                    if leaves is not None and leaving is not None:
                        pairs = first_to_leave(segment, pairs, leaves, precedes=leaving < probe.input)
                    joined = combined(step, partial, segment.rows, pairs, probe, self.starts[probe.input])
                    if len(joined):
                        yield from self._probe(step, joined, rest, leaving)

    def _kept(self, step: Step, found: Iterable[Delta]) -> Iterator[Delta]:
        """The same, with room taken for the columns of those that are not empty: these are kept until the step ends."""
        for delta in found:
            if len(delta):
                step.room.take(len(next((c for c in delta.columns if c is not None), delta)), row_bytes(delta))
            yield delta

    def _finished(self, step: Step, found: Iterable[Delta]) -> Iterator[Delta]:
        """Joined rows as changes of queries, where there are conditions with parameters."""
        for joined in found:
            if joined.query is not None:
                yield self.matcher.filter(step, joined)
            else:
                yield self.matcher.match(step, joined) if self.attached else joined

    def details(self) -> list[str]:
        lines = [line for i, f in enumerate(self.filters) if f is not None for line in f.details(f"input {i + 1}")]
        for i, side in enumerate(self.ranged):
            lines += describe_ranges(side, f"input {i + 1}") if side is not None else []
        return lines + describe_index(self.matcher.index)

    # state

    def forget(self, queries: Ints) -> None:
        super().forget(queries)
        for stem in self.stems:
            if stem.attached:
                stem.forget(queries)

    def size(self) -> int:
        return sum(len(s) for s in self.stems)

    def save(self) -> dict[str, pa.Table]:
        return {f"stem{i}": s.save() for i, s in enumerate(self.stems)}

    def load(self, saved: dict[str, pa.Table], functions: Functions) -> None:
        """Keys are numbered anew from the rows, so they need not be saved."""
        for i, (stem, keys) in enumerate(zip(self.stems, self.keys, strict=True)):
            stem.load(saved[f"stem{i}"], partial(_slots, keys, functions))


def _less(start: int, column: int) -> int:
    return column - start


def _slots(keys: Sequence[StemKey], functions: Functions, rows: Delta) -> list[Ints]:
    return [k.slots(functions, rows) for k in keys]
