"""The joins of document 2, section 5: streams by rate, window and distinct values. Inputs are numbered from 0."""

from __future__ import annotations

from benchmarks.yardsticks.document_windows import time_window
from eddyline.routing.join_graph import JoinGraph, JoinStatistics

FOUR = JoinGraph.on_common_key(4)


def streams(*parameters: tuple[float, float, float], buckets: float = 1.0) -> JoinStatistics:
    return JoinStatistics(tuple(time_window(*p, buckets=buckets) for p in parameters))


TABLE_5 = streams((10, 100, 500), (1, 100, 50), (1, 200, 40), (3, 100, 5))
TABLE_6 = streams((100, 100, 200), (1, 100, 200), (1, 100, 20), (3, 100, 2))
TABLE_7 = streams((11, 100, 200), (10, 100, 100), (1, 100, 65), (1, 100, 20))
EQUAL = streams(*[(1, 100, 50)] * 4)  # Figure 3(a)
FAST_FOURTH = streams(*[(1, 100, 50)] * 3, (10, 100, 50))  # Figure 3(b)
