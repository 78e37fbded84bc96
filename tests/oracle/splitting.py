"""A family in one place and, beside it, the same family split over buckets: after every step all must say the same.

`SplitFamily` stands in for `RunningFamily` inside a connection, so that the scenarios of the oracle drive both. Tuples
go where the routing says, tables to all buckets, and every bucket takes every step with the same clock. Where tuples
may go anywhere they go somewhere at random; buckets of a stateless plan forget everything after every step. A family
with parameters is split in two ways: by data, as its plan allows, and by queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

import numpy as np

from eddyline.arrays import Ints
from eddyline.engine.family import Family
from eddyline.engine.running_family import EngineOptions, RunningFamily
from eddyline.index.keys.bucket_hash import bucket_of, bucket_of_cell, cell, reach, widest
from eddyline.operators.base import Step
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.operators.joins.stems import own_log, own_table
from eddyline.plan.partitioning import Partitioning, by_queries, partitioning
from eddyline.plan.routings import Anywhere, ByKey, Everywhere, Home, Reach
from eddyline.reference import Change, canonical, normalise
from eddyline.state.delta import MAX, Delta, query_of
from eddyline.state.query_table import QueryRows
from tests.oracle.scenario import keeps_promises


@dataclass
class Trial:
    """How families are split for now, and how many were split in each way."""

    rnd: Random = field(default_factory=lambda: Random(0))
    buckets: int = 2
    width: float = 1.0
    kinds: Counter[str] = field(default_factory=Counter)  # families, and steps that changed an answer, by kind
    copies: int = 0  # of reaching tuples, beyond the first


class SplitFamily(RunningFamily):
    trial: ClassVar[Trial] = Trial()

    def __init__(self, family: Family, functions: Functions, options: EngineOptions, *given: Any) -> None:
        super().__init__(family, functions, options, *given)
        self.ways = [
            partitioning(family.plan, keeps_tuples=family.keeps_tuples),
            *([by_queries(family.plan)] if family.bound.params else []),
        ]
        assert self.ways[0] == partitioning(family.plan, keeps_tuples=family.keeps_tuples)
        assert all({s for s, _ in how.routings} == self.streams for how in self.ways)
        self.of_a_part = family, functions, EngineOptions(options.clock), own_log, own_table
        trial = self.trial
        self.rnd, self.width = Random(trial.rnd.random()), trial.width
        self.parts = {how: [RunningFamily(*self.of_a_part) for _ in range(trial.buckets)] for how in self.ways}
        self.said: dict[str, list[Change]] = {how.kind: [] for how in self.ways}  # what all buckets said so far

    def arrive(self, clock: int, queries: QueryRows, streams: Mapping[str, Delta], *given: Any) -> Delta:
        return self.run(self.step(clock, queries, streams))

    def only_routes(self, stream: str, shared: Any) -> bool:
        return False  # the parts have logs of their own, which need all tuples

    def run(self, step: Step) -> Delta:
        queries = step.queries
        whole = super().run(step)
        for how in self.ways:
            self.trial.kinds[how.kind] += len(whole) > 0
            if how.kind == "one place":
                continue
            if not how.keeps_state:
                self.parts[how] = [RunningFamily(*self.of_a_part) for _ in self.parts[how]]
            routed = {s: self._split(how, s, d, queries) for s, d in step.streams.items()}
            found = []
            for i, part in enumerate(self.parts[how]):
                part.clock = step.before
                mine = self._own(queries, i) if how.kind == "by queries" else queries
                rows = {s: d[i] for s, d in routed.items()}
                found.append(part.run(part.step(step.now, mine, rows, step.tables, step.kind)))
            said = [c for delta in found for c in changes(delta)]
            assert fold(said) == fold(changes(whole)), f"{how}\n{self.family.sql}\n{said}\n{changes(whole)}"
            assert ends(said) == ends(changes(whole)), f"{how}\n{self.family.sql}"
            self.said[how.kind] += said
        return whole

    def check_logs(self) -> None:
        """Raises if what the buckets said together breaks what a log promises."""
        for kind, log in self.said.items():
            emit_all = self.family.emit == "all"
            keeps_promises(log, self.clock, f"{self.family.sql}, {kind}", emit_all=emit_all)

    def _own(self, queries: QueryRows, bucket: int) -> QueryRows:
        ids = queries.ids_at(queries.live())
        return queries.only(ids[ids % self.trial.buckets == bucket])

    def _split(self, how: Partitioning, stream: str, delta: Delta, queries: QueryRows) -> list[Delta]:
        """The tuples of each bucket."""
        row, bucket = self._places_of(how, stream, delta, queries)
        return [delta.take(row[bucket == i]).spread() for i in range(len(self.parts[how]))]

    def _places_of(self, how: Partitioning, stream: str, delta: Delta, queries: QueryRows) -> tuple[Ints, Any]:
        n, places = len(delta), len(self.parts[how])
        rows = np.arange(n)

        def value(expr: Any) -> Any:
            return evaluate(expr, delta.columns, (), n, self.functions)

        match how.routing(stream):
            case Anywhere():
                return rows, np.array([self.rnd.randrange(places) for _ in range(n)], np.int32)
            case Everywhere():
                return np.tile(rows, places), np.repeat(np.arange(places), n)
            case ByKey(key):
                return rows, bucket_of([value(e) for e in key], places)
            case Home(number):
                return rows, bucket_of_cell(cell(value(number), self.width), places)
            case Reach(number, low, high):
                bounds = [evaluate(b, (), queries.params, len(queries.ids)).filter(queries.alive) for b in (low, high)]
                furthest = widest(bounds[0], bounds[1])
                if furthest is None:
                    return rows[:0], np.empty(0, np.int32)
                row, bucket = reach(value(number), *furthest, self.width, places)
                self.trial.copies += len(row) - len(np.unique(row))
                return row, bucket
        raise AssertionError(f"{stream} is not split")

    def compact(self) -> None:
        for part in (p for parts in self.parts.values() for p in parts):
            part._forgotten = list(self._forgotten)
            part.compact()
        super().compact()


def changes(delta: Delta) -> list[Change]:
    """Operation, begin, end and row of every change; the query is the first column of the row."""
    delta = delta.spread()
    columns = [query_of(delta).tolist(), *(c.to_pylist() for c in delta.columns)]
    rows = zip(*columns, strict=True)
    numbers = zip(delta.sign.tolist(), delta.ts.tolist(), delta.exp.tolist(), strict=True)
    return [
        ("+" if sign > 0 else "-", ts, None if exp == MAX else exp, row)
        for row, (sign, ts, exp) in zip(rows, numbers, strict=True)
        for _ in range(abs(sign))
    ]


def fold(said: list[Change]) -> dict[Any, int]:
    """How often each row enters and leaves each answer at every instant, to come too."""
    return normalise(said, MAX)


def ends(said: list[Change]) -> Counter[Any]:
    """The rows that are said to have reached their ends, which folding does not see."""
    return Counter((ts, canonical(row)) for _, ts, exp, row in said if exp is not None and ts > exp)
