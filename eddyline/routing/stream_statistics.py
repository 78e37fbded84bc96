"""Statistics that are measured while joins run: arrival rates of streams, and selectivities and costs of predicates.

Everything decays exponentially: what was measured one half-life ago counts half. Rates decay in event time, so they are
the same in a replay; the unit of time is that of the times given. An update costs a few operations per batch, whatever
the number of rows. Stored rows and distinct keys need no estimate: the store and its indexes count them.
(Document 2, section 5.4: fluctuating arrival rates.)
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
class ArrivalRate:
    """Rows of a stream per unit of event time: decayed rows divided by the decayed span in which they arrived.
    If the rows of every batch are spread evenly, it does not depend on how the stream is cut into batches."""

    half_life: float
    rows: float = 0.0
    span: float = 0.0
    latest: float | None = None

    def arrive(self, rows: int, low: float, high: float) -> None:
        """A batch arrived whose event times are between `low` and `high`."""
        if self.latest is None:
            self.advance(low)
        elapsed = high - (self.latest or 0.0)
        self.advance(high)
        self.rows += rows * _share_kept(elapsed, self.half_life)

    def advance(self, to: float) -> None:
        """Event time advances; a silent stream becomes slower by it."""
        if self.latest is None:
            self.latest = to
        elapsed = max(to - self.latest, 0.0)
        decay = 0.5 ** (elapsed / self.half_life)
        self.rows *= decay
        self.span = self.span * decay + elapsed * _share_kept(elapsed, self.half_life)
        self.latest = max(self.latest, to)

    @property
    def rate(self) -> float:
        """0 as long as no time has passed."""
        return self.rows / self.span if self.span > 0.0 else 0.0


@dataclass
class PredicateStatistics:
    """How many partial results a predicate saw and kept, and what an evaluation cost; decayed by what it saw."""

    half_life: float
    seen: float = 0.0
    kept: float = 0.0
    cost: float = 0.0

    def evaluate(self, seen: int, kept: int, cost: float) -> None:
        """A batch was evaluated; `cost` is that of the whole batch, in comparisons."""
        decay, share = 0.5 ** (seen / self.half_life), _share_kept(seen, self.half_life)
        self.seen, self.kept = self.seen * decay + share * seen, self.kept * decay + share * kept
        self.cost = self.cost * decay + share * cost

    def statistics(self) -> ThetaStatistics:
        """A predicate that has seen nothing is taken to keep everything."""
        return ThetaStatistics(self.kept / self.seen, self.cost / self.seen) if self.seen else ThetaStatistics(1.0)
