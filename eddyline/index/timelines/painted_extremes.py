"""Painted extremes: the interval with the least value at each of many instants, which is the row that MIN answers.

Intervals are processed from the best value to the worst. Each paints the instants that it covers and that no better one
has painted; painted instants are skipped by following links (union-find). A row that paints no instant is never the
extreme.
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.runtime.kernel_cache import kernel


@kernel
def paint(instant_at: Ints, instants: Ints, group: Ints, start: Ints, end: Ints) -> Ints:
    """Per instant, the first interval (in the order given, best first) of its group that covers it, or -1.

    Group g has the ascending instants instant_at[g]:instant_at[g+1]. O((intervals + instants) log instants).
    """
    winner = np.full(len(instants), -1, np.int64)
    link = np.arange(len(instants) + 1)
    for i in range(len(group)):
        g = group[i]
        a, b = instant_at[g], instant_at[g + 1]
        p = a + np.searchsorted(instants[a:b], start[i])
        p = _find(link, p)
        while p < b and instants[p] <= end[i]:
            winner[p] = i
            link[p] = p + 1
            p = _find(link, p)
    return winner


@kernel
def _find(link: Ints, p: int) -> int:
    root = p
    while link[root] != root:
        root = link[root]
    while link[p] != root:
        link[p], p = root, link[p]
    return root
