"""Parts: the changes of one family in one step, with its query table as it was then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eddyline.arrays import Ints
from eddyline.engine.definitions import Ids
from eddyline.engine.failures import FamilyFailure, computing
from eddyline.engine.family import Family
from eddyline.engine.running_family import InitialAnswers
from eddyline.operators.deferred import Deferred, Outcome, count_of, delta_of
from eddyline.state.delta import Delta, query_of
from eddyline.state.query_table import QueryRows


@dataclass(frozen=True)
class Part:
    """Changes, computed or deferred; or the failure of the family."""

    family: Family
    queries: QueryRows
    outcome: Outcome | FamilyFailure

    def resolve(self) -> Part:
        return self

    @property
    def delta(self) -> Delta:
        with computing(self.family):
            return delta_of(self.result())

    def result(self) -> Outcome:
        if isinstance(self.outcome, FamilyFailure):
            raise self.outcome.refusal(self.family.name)
        return self.outcome

    def count(self) -> int:
        with computing(self.family):
            return 0 if isinstance(self.outcome, FamilyFailure) else count_of(self.outcome)

    def changed(self) -> Ints:
        """The positions of the queries whose answer changed."""
        if isinstance(self.outcome, FamilyFailure):
            return np.empty(0, np.int64)
        if isinstance(self.outcome, Deferred):
            with computing(self.family):
                return self.outcome.changed(len(self.queries))
        return self.queries.positions(np.unique(query_of(self.outcome)))


@dataclass(frozen=True)
class InitialPart:
    """The initial answers of new queries, computed when they are read, together with those of other new queries.

    `flush` computes them, and returns the failure of the family, if any.
    """

    family: Family
    pending: InitialAnswers
    ids: Ids
    flush: Callable[[], FamilyFailure | None]

    def resolve(self) -> Part:
        failure = self.flush()
        queries = self.family.queries.rows()
        changes = self.pending.changes
        if changes is None:
            return Part(self.family, queries, failure or FamilyFailure(self.family.name, "it was dropped"))
        return Part(self.family, queries, changes.take(np.isin(query_of(changes), np.asarray(self.ids, np.int64))))
