"""The general tactic: tuples probe the SteMs of the other inputs, and joined rows are matched with queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eddyline.operators.base import Step
from eddyline.operators.describe import describe_index
from eddyline.operators.joins.stems import Stems
from eddyline.operators.joins.tactic import Piece
from eddyline.operators.matcher import Matcher
from eddyline.operators.room import row_bytes
from eddyline.state.delta import Delta


class Probe:
    def __init__(self, stems: Stems, i: int, matcher: Matcher) -> None:
        self.stems = stems
        self.input = i
        self.matcher = matcher

    def results(self, step: Step, delta: Delta) -> list[Piece] | None:
        return list(kept(step, self.finished(step, self.stems.partners(step, self.input, delta))))

    def finished(self, step: Step, joined_rows: Iterable[Delta]) -> Iterator[Delta]:
        """Joined rows as changes of queries, where there are conditions with parameters."""
        for joined in joined_rows:
            if joined.query is not None:
                yield self.matcher.filter(step, joined)
            else:
                yield self.matcher.match(step, joined) if self.stems.node.attached else joined

    def details(self) -> list[str]:
        return describe_index(self.matcher.index)


def kept(step: Step, deltas: Iterable[Delta]) -> Iterator[Delta]:
    """The same deltas, counted towards the memory limit: their columns are kept until the step ends."""
    for delta in deltas:
        if len(delta):
            step.room.take(len(next((c for c in delta.columns if c is not None), delta)), row_bytes(delta))
        yield delta
