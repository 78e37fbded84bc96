"""Candidates: rows that a join may emit, which routes shared by families return (`shared_routes.py`).

The join checks them exactly: windows, its conditions on single streams, and theta conditions. Conditions with
parameters are checked when the rows are matched with queries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Ints
from eddyline.operators.base import Step
from eddyline.operators.evaluate import holds
from eddyline.operators.joins.log_stem import LogStem, ended
from eddyline.operators.joins.routes import Layout, Partial
from eddyline.operators.joins.stems import Stems
from eddyline.plan.expressions import all_of, columns_of
from eddyline.state.delta import Delta
from eddyline.state.store.stream_log import LogView


class Candidates(NamedTuple):
    """The arrival numbers of tuples; by input, the positions of their partners in its log, and the log at that moment.

    `changes` is the number of changes that they make, if it is known without checking them.
    """

    arrivals: Ints
    rows: dict[int, Ints]
    views: dict[int, LogView]
    changes: int | None


def checked(step: Step, stems: Stems, i: int, delta: Delta, candidates: Candidates) -> Partial:
    """The candidates that are results of the join, apart from conditions with parameters."""
    place = np.searchsorted(delta.first, candidates.arrivals)  # tuples that a filter rejected are not in the delta
    place[place == len(delta)] = 0
    origin = delta.first[place] == candidates.arrivals
    place, rows = place[origin], {j: r[origin] for j, r in candidates.rows.items()}
    layout = Layout([candidates.views.get(j, stem) for j, stem in enumerate(stems.stems)], stems.node.starts)
    changes = Partial.of(layout, i, delta).take(place)
    ts, exp, first, last = changes.ts, changes.exp, changes.first, changes.last
    for j, row in rows.items():
        stem, view = stems.stems[j], candidates.views[j]
        assert isinstance(stem, LogStem)
        begin, arrivals = view.ts[row], view.arrivals[row]
        ts, exp = np.maximum(ts, begin), np.minimum(exp, ended(begin, stem.scan.width(step)))
        first, last = np.minimum(first, arrivals), np.maximum(last, arrivals)
    every = changes.rows | rows
    partial = Partial(layout, i, delta, every, ts, exp, first, last, None)
    partial = partial.take(ts <= exp)
    for j in rows:
        stem = stems.stems[j]
        assert isinstance(stem, LogStem)
        if stem.condition is not None and len(partial):
            used = columns_of(stem.condition)
            view, row = candidates.views[j], partial.rows[j]
            columns = [c.take(row) if k in used else None for k, c in enumerate(view.columns)]
            partial = partial.take(holds(stem.condition, columns, (), len(partial), step.functions))
    theta = all_of(p.conditions for p in stems.node.probes[i] if p.conditions is not None)
    if theta is not None and len(partial):
        columns = partial.columns(columns_of(theta))
        partial = partial.take(holds(theta, columns, (), len(partial), step.functions))
    return partial
