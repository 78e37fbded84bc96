"""Index selection of the hybrid join: which windows get a hash index, if the entries of all indexes are limited.

An index has one entry per stored row and key. Up to `EXHAUSTIVE` inputs every set of windows that fits is costed with
the best probe orders it allows; with more inputs, the index that saves most per entry is added while one fits.
(Document 2, sections 3.5 and 5.4.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations

from eddyline.routing.join_graph import EAGER, Inputs, JoinGraph, JoinStatistics, Schedule
from eddyline.routing.probe_orders import EXHAUSTIVE, best_orders


def choose_indexes(
    statistics: JoinStatistics, graph: JoinGraph, most_entries: float, schedule: Schedule = EAGER
) -> Inputs:
    """The inputs to index; the statistics give the buckets that an index of each would have. Of equally good sets the
    one with the fewest entries is chosen."""

    def cost(indexed: Inputs) -> float:
        inputs = tuple(i if n in indexed else replace(i, buckets=1.0) for n, i in enumerate(statistics.inputs))
        return sum(r.cost for r in best_orders(replace(statistics, inputs=inputs), graph, schedule=schedule))

    def entries(indexed: Inputs) -> float:
        return sum(statistics.inputs[i].rows * len(statistics.inputs[i].distinct) for i in indexed)

    if graph.inputs <= EXHAUSTIVE:
        fitting = [s for s in _subsets(graph.everything) if entries(s) <= most_entries]
        return min(fitting, key=lambda s: (cost(s), entries(s)), default=frozenset())
    indexed: Inputs = frozenset()
    while True:
        options = [indexed | {i} for i in sorted(graph.everything - indexed)]
        current = cost(indexed)
        saved = {
            o: (current - cost(o)) / max(entries(o) - entries(indexed), 1.0)
            for o in options
            if entries(o) <= most_entries
        }
        best = max(saved, key=lambda o: saved[o], default=None)
        if best is None or saved[best] <= 0.0:
            return indexed
        indexed = best


def _subsets(inputs: Inputs) -> Iterator[Inputs]:
    members = sorted(inputs)
    return map(frozenset, chain.from_iterable(combinations(members, n) for n in range(len(members) + 1)))
