"""The state modules (SteMs) of a join, one per input: building and probing. (Document 1, section 3.3.)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.index.runtime.garbage import worth_compacting
from eddyline.operators.base import Step
from eddyline.operators.evaluate import Functions
from eddyline.operators.joins.combining import Pairs, combined, require_room
from eddyline.operators.joins.leaving import first_to_leave
from eddyline.operators.joins.stem_keys import StemKey
from eddyline.operators.room import byte_text
from eddyline.plan import physical
from eddyline.plan.physical import ProbeStep
from eddyline.state.buffers import build_buffer
from eddyline.state.buffers.buffer import StateBuffer
from eddyline.state.delta import Delta, micros


class Stems:
    def __init__(self, node: physical.StemJoin) -> None:
        self.node = node
        self.starts, self.width = node.starts, len(node.types)
        self.keys = [[StemKey(k) for k in keys] for keys in node.keys]
        self.stems = self.empty()

    def empty(self) -> list[StateBuffer]:
        """SteMs without rows."""
        return [
            build_buffer(b, i.types, len(k), attached=i.attached, retracts=i.retracts)
            for b, i, k in zip(self.node.buffers, self.node.inputs, self.keys, strict=True)
        ]

    def build(self, step: Step, i: int, delta: Delta) -> None:
        """Builds the changes of an input into its SteM."""
        stem = self.stems[i]
        stem.insert(delta, _slots(self.keys[i], step.functions, delta), step.before)
        if any(worth_compacting(len(k.table), len(stem)) for k in self.keys[i]):  # most keys have no rows
            self.keys[i] = [StemKey(k.plan) for k in self.keys[i]]
            stem.renumber(partial(_slots, self.keys[i], step.functions))

    def partners(
        self, step: Step, i: int, delta: Delta, *beside: pa.Array, leaving: int | None = None
    ) -> Iterator[Delta]:
        """The changes of an input joined with all rows they match; the columns `beside` are appended to them.

        `leaving` is the input whose retractions probe, if others retract too; the last column has their times."""
        wide = replace(delta, columns=(*self.wide(i, delta), *beside))
        return self._probe(step, wide, self.node.probes[i], leaving)

    def wide(self, i: int, delta: Delta) -> tuple[pa.Array | None, ...]:
        """The columns of one input's tuples at their places in joined rows; the others are None."""
        columns: list[pa.Array | None] = [None] * self.width
        columns[self.starts[i] : self.starts[i + 1]] = delta.columns
        return tuple(columns)

    def wanted(self, step: Step, probe: ProbeStep, partial: Delta) -> Ints:
        """The slots that partially joined rows probe in the next SteM."""
        key = self.keys[probe.input][probe.key]
        return key.wanted(step.functions, probe.exprs, partial.columns, partial.query, len(partial))

    def _probe(self, step: Step, partial: Delta, order: Sequence[ProbeStep], leaving: int | None) -> Iterator[Delta]:
        if not order:
            yield partial
            return
        probe, rest = order[0], order[1:]
        wanted = self.wanted(step, probe, partial)
        leaves = None if leaving is None else micros(partial.columns[-1])
        for matches in self.stems[probe.input].probe(probe.key, wanted):
            segment = matches.segment
            if not rest and probe.conditions is None and leaving is None:
                require_room(step, partial, matches)
            for probing, stored in matches.pairs():
                pairs = Pairs(probing, stored)
                if leaves is not None and leaving is not None:
                    pairs = first_to_leave(segment, pairs, leaves, precedes=leaving < probe.input)
                joined = combined(step, partial, segment.rows, pairs, probe, self.starts[probe.input])
                if len(joined):
                    yield from self._probe(step, joined, rest, leaving)

    def forget(self, queries: Ints) -> None:
        for stem in self.stems:
            if stem.attached:
                stem.forget(queries)

    def details(self) -> list[str]:
        """Lines for EXPLAIN ANALYZE."""
        stems = [(i, self.stems[i]) for i in self.node.stored]
        return [f"input {i + 1} has {len(s):,} rows in {byte_text(s.nbytes)} of state" for i, s in stems]

    def __len__(self) -> int:
        return sum(len(s) for s in self.stems)

    def save(self) -> dict[str, pa.Table]:
        return {f"stem{i}": s.save() for i, s in enumerate(self.stems)}

    def load(self, saved: dict[str, pa.Table], functions: Functions) -> None:
        """Slots are assigned again from the rows, so they are not saved."""
        for i, (stem, keys) in enumerate(zip(self.stems, self.keys, strict=True)):
            stem.load(saved[f"stem{i}"], partial(_slots, keys, functions))


def _slots(keys: Sequence[StemKey], functions: Functions, rows: Delta) -> list[Ints]:
    return [k.slots(functions, rows) for k in keys]
