"""Selectivities and costs of predicates, measured while joins run.

Everything decays exponentially: what was measured one half-life ago counts half. An update costs a few operations per
batch, whatever the number of rows. Stored rows, arrivals and distinct keys need no estimate: the store and its indexes
count them. (Document 2, section 5.4.)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1, log

from eddyline.routing.join_graph import ThetaStatistics


def _share_kept(elapsed: float, half_life: float) -> float:
    """How much counts of what was spread evenly over the time just elapsed: its beginning has decayed already."""
    decayed = log(2.0) * elapsed / half_life
    return -expm1(-decayed) / decayed if decayed > 0.0 else 1.0


@dataclass
class PredicateStatistics:
    """How many partial results a predicate saw and kept, and what an evaluation cost; decayed by what it saw."""

    half_life: float
    seen: float = 0.0
    kept: float = 0.0
    cost: float = 0.0

    def evaluate(self, seen: int, kept: float, cost: float) -> None:
        """A batch was evaluated; `cost` is that of the whole batch, in comparisons."""
        decay, share = 0.5 ** (seen / self.half_life), _share_kept(seen, self.half_life)
        self.seen, self.kept = self.seen * decay + share * seen, self.kept * decay + share * kept
        self.cost = self.cost * decay + share * cost

    def statistics(self) -> ThetaStatistics:
        """A predicate that has seen nothing is taken to keep everything."""
        return ThetaStatistics(self.kept / self.seen, self.cost / self.seen) if self.seen else ThetaStatistics(1.0)
