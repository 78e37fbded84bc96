"""Parts: the changes of one family in one step, with its query table as it was then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eddyline.engine.definitions import Ids
from eddyline.engine.failures import FamilyFailure, computing
from eddyline.engine.family import Family
from eddyline.engine.running_family import InitialAnswers
from eddyline.operators.deferred import Deferred, Outcome, count_of, delta_of
from eddyline.state.delta import Delta, Ints, query_of
from eddyline.state.query_table import QueryRows


@dataclass(frozen=True)
class Part:
    """Changes, perhaps still to be computed; or how the family has failed."""

    family: Family
    queries: QueryRows
    found: Outcome | FamilyFailure

    def resolve(self) -> Part:
        return self

    @property
    def delta(self) -> Delta:
        with computing(self.family):
            return delta_of(self.given())

    def given(self) -> Outcome:
        if isinstance(self.found, FamilyFailure):
            raise self.found.refusal(self.family.name)
        return self.found

    def count(self) -> int:
        with computing(self.family):
            return 0 if isinstance(self.found, FamilyFailure) else count_of(self.found)

    def changed(self) -> Ints:
        """The positions of the queries whose answer changed."""
        if isinstance(self.found, FamilyFailure):
            return np.empty(0, np.int64)
        if isinstance(self.found, Deferred):
            with computing(self.family):
                return self.found.changed(len(self.queries))
        return self.queries.positions(np.unique(query_of(self.found)))


@dataclass(frozen=True)
class InitialPart:
    """The initial answers of new queries, computed together with those of others when somebody asks.

    `flush` computes what is due, and tells whether the family has failed.
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
