"""The general tactic: tuples probe the SteMs of the other inputs, and joined rows are matched with queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from eddyline.arrays import Ints
from eddyline.operators.base import Step
from eddyline.operators.describe import describe_index
from eddyline.operators.joins.routes import Partial
from eddyline.operators.joins.stems import Stems
from eddyline.operators.joins.tactic import Piece
from eddyline.operators.matcher import Matcher
from eddyline.operators.query_index import QueryIndex
from eddyline.operators.room import row_bytes
from eddyline.state.delta import Delta


class Probe:
    def __init__(self, stems: Stems, i: int, matcher: Matcher) -> None:
        self.stems = stems
        self.input = i
        self.matcher = matcher
        self._calls_functions = matcher.condition.calls_functions

    def results(self, step: Step, delta: Delta) -> list[Piece] | None:
        return list(self.finished(step, self.stems.results(step, self.input, delta)))

    def finished(self, step: Step, results: Iterable[Partial]) -> Iterator[Delta]:
        """Results as changes, of queries where there are conditions with parameters."""
        for partial in results:
            joined, _ = self.matched(step, partial)
            if len(joined):
                yield joined

    def matched(self, step: Step, partial: Partial) -> tuple[Delta, Ints]:
        """Results as changes, and the positions of those results that have changes."""
        if not self.stems.node.attached:
            return built(step, partial), np.arange(len(partial))
        # Only the columns of conditions are gathered for all rows, the others for rows that match a query.
        narrow, match = partial.joined(self.matcher.columns), self.matcher.match
        if partial.query is not None:
            match = self.matcher.filter
        return self.widened(step, partial, match(step, narrow, partial if self._calls_functions else None))

    def widened(self, step: Step, partial: Partial, matched: Delta) -> tuple[Delta, Ints]:
        """Changes with all columns of the results that they refer to, and the positions of these results."""
        rows = np.arange(len(matched)) if matched.rows is None else matched.rows
        needed, place = np.unique(rows, return_inverse=True)
        if not len(matched):
            return matched, needed
        wide = built(step, partial if len(needed) == len(partial) else partial.take(needed))
        return replace(matched, columns=wide.columns, rows=place), needed

    def indexes(self) -> Sequence[QueryIndex]:
        return (self.matcher.index,)

    def details(self) -> list[str]:
        return describe_index(self.matcher.index)


def built(step: Step, partial: Partial) -> Delta:
    """Results with all columns, counted towards the memory limit: they are kept until the step ends."""
    step.room.require(len(partial), row_bytes(partial.changes))
    joined = partial.joined()
    if len(joined):
        step.room.take(len(joined), row_bytes(joined))
    return joined
