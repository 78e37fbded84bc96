"""NiagaraCQ's two plans for selections and a join (document 1, section 5), over the engine's own filters and SteMs.

`pull_up` joins all tuples once and matches the joined rows with the grouped filter. `push_down` matches the tuples with
the grouped filter and joins once per query. Where conditions call functions, `pull_up` calls them for each joined row.
Both replace the tactic of the engine that lets the measured costs decide;
everything else, arrival, SteMs, and the form of results, is the engine's, so times can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from eddyline.operators.base import Step
from eddyline.operators.joins.filter_first import FilterFirst
from eddyline.operators.joins.probe import built
from eddyline.operators.joins.routed_functions import RoutedFunctions
from eddyline.operators.joins.tactic import Piece
from eddyline.state.delta import Delta


def _pull_up(self: FilterFirst, step: Step, delta: Delta) -> list[Piece] | None:
    return list(self.probe.finished(step, self.stems.results(step, self.input, delta)))


def _pull_up_functions(self: RoutedFunctions, step: Step, delta: Delta) -> list[Piece] | None:
    results: list[Piece] = []
    for partial in self.stems.results(step, self.input, delta):
        results.append(self.probe.matcher.match(step, built(step, partial)))
    return results


def _push_down(self: FilterFirst, step: Step, delta: Delta) -> list[Piece] | None:
    sets = [p.listed() for p in self.filter.matcher.prepare(step, delta).sets()]
    counts = np.concatenate([np.zeros(0, np.int64), *(x.counts for x in sets)])
    members = np.concatenate([np.zeros(0, np.int32), *(x.members for x in sets)])
    tuples = np.repeat(np.arange(len(delta)), counts)
    by_query = np.argsort(members, kind="stable")
    ends = np.nonzero(np.diff(members[by_query], append=-1))[0] + 1
    results: list[Piece] = []
    for mine in np.split(by_query, ends)[:-1]:
        position = int(members[mine[0]])
        selected = delta.take(tuples[mine]).spread()
        for partial in self.stems.results(step, self.input, selected):
            joined = built(step, partial)
            owner = np.full(len(joined), position)
            results.append(self.filter.whole.attached(step, joined, np.arange(len(joined)), owner))
    return results


@contextmanager
def plan(name: str) -> Iterator[None]:
    """Runs what is pushed inside with "pull up", "push down", or the engine's own tactic."""
    own, own_functions = FilterFirst.results, RoutedFunctions.results
    try:
        if name == "pull up":
            FilterFirst.results = _pull_up  # type: ignore[method-assign]
            RoutedFunctions.results = _pull_up_functions  # type: ignore[method-assign]
        elif name == "push down":
            FilterFirst.results = _push_down  # type: ignore[method-assign]
        yield
    finally:
        FilterFirst.results = own  # type: ignore[method-assign]
        RoutedFunctions.results = own_functions  # type: ignore[method-assign]
