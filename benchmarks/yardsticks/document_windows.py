"""Windows of document 2 in the terms of its tables, for the cost model of orders."""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.routing.join_graph import EAGER, InputStatistics, JoinGraph, JoinStatistics, Schedule
from eddyline.routing.probe_costs import ProbeCosts


def time_window(rate: float, length: float, distinct: float, buckets: float = 1.0) -> InputStatistics:
    """A time-based window of a join on one common key, in the document's terms: lambda, T, v and b."""
    return InputStatistics(rate, rate * length, {0: distinct}, buckets)


def result_size(
    statistics: JoinStatistics, graph: JoinGraph, inputs: Sequence[int], schedule: Schedule = EAGER
) -> float:
    """Expected results of a join of the whole windows of these inputs (phi)."""
    return ProbeCosts(statistics, graph, None, schedule).size(frozenset(inputs))
