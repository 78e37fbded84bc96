"""Random joins of many inputs over shared streams as a pipeline, and micro-batches of random rows for it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.oracle.join_scenarios import Arriving, Contents, shapes, values
from tests.oracle.multi_joins import MULTI
from tests.oracle.scenario import at
from tests.spark.inputs import Batch, Row


class JoinWorld:
    """Makes up what happens to a pipeline of several shapes: queries come and go, tables change, rows arrive."""

    def __init__(self, rnd: Random, least_shapes: int = 4) -> None:
        self.rnd = rnd
        self.streams = rnd.sample("rsvw", rnd.choice([2, 3, 4]))
        of = shapes(rnd, self.streams, most=6)
        while len(of) < least_shapes:
            of += shapes(rnd, self.streams, most=4)
        self.keys = 1 if max(len(s.inputs) for s in of) > 3 else rnd.choice([1, 2])
        self.queries = Arriving(rnd, of)
        self.contents = Contents(rnd, self.keys)
        self.schema = replace(MULTI, families=self.queries.families)
        self.delays = {s: rnd.choice([0, 1, 3]) for s in MULTI.streams}
        self._now = 0.0

    def first(self) -> Batch:
        """Most queries, and no fewer than four, and rows in every table."""
        made = Batch(changes=[self.contents.first(t) for t in MULTI.tables])
        while self.queries.waiting and self.rnd.random() < 0.9:
            made.events.append(self.queries.come())
        while self.queries.waiting and len(self.queries.standing) < 4:
            made.events.append(self.queries.come())
        return made

    def batch(self, most_rows: int = 5) -> Batch:
        """Streams that no query reads have rows too: their watermarks must not matter."""
        rnd, made = self.rnd, Batch()
        if self.queries.waiting and rnd.random() < 0.7:
            made.events.append(self.queries.come())
        if self.queries.standing and rnd.random() < 0.3:
            made.events.append(self.queries.go(families=False))
        for _ in range(rnd.choice([0, 1, 1])):
            made.changes.append(self.contents.change())
        for stream in MULTI.streams:
            if rnd.random() < (0.9 if stream in self.streams else 0.2):
                made.rows[stream] = [self.rows(rnd.randint(1, most_rows)) for _ in range(rnd.choice([1, 1, 2]))]
        self._now += rnd.choice([0.5, 1, 2])
        return made

    def rows(self, count: int) -> list[Row]:
        """Near the present: several streams have the same times."""
        times = [self._now + self.rnd.choice([0, 0, 0.5, 1, -1, -2, -6]) for _ in range(count)]
        return [(*values(self.rnd, self.keys), self.rnd.random() < 0.5, at(max(0.0, t))) for t in times]

    def last(self) -> Batch:
        """Rows of every stream, so far ahead that all windows are over."""
        rows = {s: [[(*values(self.rnd, self.keys), True, at(self._now + 30))]] for s in MULTI.streams}
        return Batch(rows=rows)
