"""The contract between a join and its tactics.

The driver (`stem_join.py`) decides the order of changes: retractions before insertions, one input after the other; the
changes of an input are built into its SteM after they have probed the others. For the changes of one input it tries the
tactics of that input, in this order:

    by ranges      tuples probe groups of the queries' ranges (`by_ranges.py`)
    functions      user functions are called before, between or after probes (`routed_functions.py`)
    filter first   tuples are filtered by the conditions of queries before they probe (`filter_first.py`)
    probe          tuples probe the SteMs of the other inputs in turn (`probe.py`)

A new tactic is a class in a file of its own and an entry in `TACTICS` of the driver.

The driver promises that there is at least one change, that each change has its own row, and that the SteMs contain all
earlier changes and none of these.

A tactic promises
- to return all results of the changes, or None if it cannot process them: then the next one is tried. `Probe` never
  returns None;
- to return them in an order that depends only on the changes and the state: measured times never affect a result;
- not to change the SteMs, and to keep no reference to what may change later: a deferred probe (`Probing`) uses the rows
  and the queries of this moment;
- to count all that it builds towards the memory limit (`step.room`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from eddyline.operators.base import Step
from eddyline.operators.joins.ranged import Probing
from eddyline.operators.query_index import QueryIndex
from eddyline.state.delta import Delta

Piece = tuple[int, Probing] | Delta  # changes, or a deferred probe of the tuples of an input


class Tactic(Protocol):
    def results(self, step: Step, delta: Delta) -> list[Piece] | None:
        """The results of one input's changes; None if this tactic cannot process them."""

    def indexes(self) -> Sequence[QueryIndex]:
        """The indexes of queries that it searches with grouped filters."""

    def details(self) -> list[str]:
        """Lines for EXPLAIN ANALYZE."""
