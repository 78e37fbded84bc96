"""The contract between a join and its tactics.

The driver (`stem_join.py`) decides what moves when: retractions before insertions, one input after the other, and each
input's changes are built into their SteM after they have probed the others. For the changes of one input it asks the
tactics of that input, in this order:

    by ranges      tuples meet groups of the queries' ranges (`by_ranges.py`)
    filter first   tuples meet the conditions of queries before they probe (`filter_first.py`)
    probe          tuples probe the SteMs of the other inputs in turn (`probe.py`)

A new tactic is a class in a file of its own and an entry in `TACTICS` of the driver.

The driver promises that the changes are at least one, with a row each, and that the SteMs hold all that was built
before these changes and nothing of them.

A tactic promises
- to give all results of the changes, or None if it cannot process them: then the next one is asked. Probing can always;
- to give them in an order that follows from the changes and the state alone: measured times never show in a result;
- not to change the SteMs, and to hold on to nothing of them that may change later: what it leaves to be computed (a
  `Probing`) sees the rows and the queries of this moment;
- to take room (`step.room`) for all that it leaves built.
"""

from __future__ import annotations

from typing import Protocol

from eddyline.operators.base import Step
from eddyline.operators.joins.ranged import Probing
from eddyline.state.delta import Delta

Piece = tuple[int, Probing] | Delta  # results, or tuples of an input about to find theirs


class Tactic(Protocol):
    def results(self, step: Step, delta: Delta) -> list[Piece] | None:
        """The results of one input's changes; None if this tactic cannot process them."""

    def details(self) -> list[str]:
        """What EXPLAIN ANALYZE says of it."""
