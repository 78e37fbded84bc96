"""Joined rows built from pairs of a partially joined row and a row of a SteM.

Intervals intersect; signs are those of the probing side. Pairs without a common instant are dropped before any column
is gathered. Cost: O(pairs) per column.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.index.keys.sorted_runs import PAIRS_AT_ONCE
from eddyline.operators.base import Step
from eddyline.operators.evaluate import holds
from eddyline.operators.room import row_bytes
from eddyline.plan.physical import ProbeStep
from eddyline.state.buffers.segment import KeyMatches
from eddyline.state.delta import Delta


class Pairs(NamedTuple):
    """Positions of probing rows and of rows of a SteM; `end`: the ends of the latter, if not their current ones."""

    probing: Ints
    stored: Ints
    end: Ints | None = None


def combined(step: Step, partial: Delta, rows: Delta, pairs: Pairs, probe: ProbeStep, begin: int) -> Delta:
    """Pairs that have an instant in common and satisfy the conditions of the probe.

    The columns of `rows` are placed at `begin`; those of inputs that have not been probed yet are None.
    """
    left, right, end = pairs
    ts = np.maximum(partial.ts[left], rows.ts[right])
    exp = np.minimum(partial.exp[left], rows.exp[right] if end is None else end)
    kept = ts <= exp
    if not kept.all():
        left, right, ts, exp = left[kept], right[kept], ts[kept], exp[kept]
    at_left, at_right = pa.array(left), pa.array(right)
    columns = [None if c is None else c.take(at_left) for c in partial.columns]
    columns[begin : begin + len(rows.columns)] = [c.take(at_right) for c in rows.columns]
    query = rows.query[right] if rows.query is not None else None
    if partial.query is not None:
        query = partial.query[left]
    joined = Delta(
        tuple(columns),
        None,
        ts,
        exp,
        partial.sign[left],
        np.minimum(partial.first[left], rows.first[right]),
        np.maximum(partial.last[left], rows.last[right]),
        query,
    )
    if probe.conditions is not None and len(joined):
        true = holds(probe.conditions, columns, (), len(joined), step.functions)
        if not true.all():
            joined = _spread_some(joined.take(true))
    return joined


def require_room(step: Step, partial: Delta, matches: KeyMatches) -> None:
    """Checks the memory limit before pairs are built, if all pairs certainly join: they have an instant in common."""
    rows = matches.segment.rows
    if matches.total > PAIRS_AT_ONCE and partial.ts.max() <= rows.exp.min() and rows.ts.max() <= partial.exp.min():
        step.room.require(matches.total, row_bytes(partial, rows))


def _spread_some(delta: Delta) -> Delta:
    """As `spread`, for a delta some of whose columns are None."""
    assert delta.rows is not None
    where = pa.array(delta.rows)
    return replace(delta, columns=tuple(None if c is None else c.take(where) for c in delta.columns), rows=None)
