"""Measures of SteMs at one moment, from which orders of probes are chosen: rows, arrivals, distinct keys, and how
many rows a selection accepts.

Rows and arrivals are counted. How often keys of two inputs are equal, and how many rows a selection accepts, is
estimated from samples: with 2048 rows of each, keys of 50,000 values are equal about 84 times. No index is needed, and
values need not be uniform, nor those of one input contain those of the other. Everything is a function of the stored
rows, so it is the same in a replay. Joins share what is measured. A sample costs a sort of `SAMPLE` values, a pair of
keys a search of as many.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import expm1, log1p, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.arrays import Ints, Mask
from eddyline.index.filters.domains import as_integers
from eddyline.operators.evaluate import evaluate, holds
from eddyline.operators.joins.buffer_stem import BufferStem
from eddyline.operators.joins.count_stem import CountStem
from eddyline.operators.joins.log_stem import LogStem
from eddyline.operators.joins.stem import Stem
from eddyline.operators.joins.table_stem import TableStem
from eddyline.plan.expressions import columns_of
from eddyline.sql.bound import Expr
from eddyline.state.delta import MAX, MIN
from eddyline.state.store.stream_log import BLOCK

SAMPLE = 2048  # rows
FEW = 256  # rows, of which a quarter would say little
SECOND = 1_000_000  # microseconds

Selections = Mapping[Expr, tuple[Ints, Ints]]  # by attribute, the least and the greatest value that each query accepts


@dataclass(frozen=True)
class KeySample:
    """The distinct values of a key in a sample, in order, how often each is in it, and the rows it was drawn from."""

    values: npt.NDArray[Any]
    counts: Ints
    rows: int

    @classmethod
    def of(cls, sampled: pa.Array, rows: int) -> KeySample:
        whole = sampled.drop_null()
        text = pa.types.is_string(whole.type) or pa.types.is_large_string(whole.type)
        numbers = whole.to_numpy(zero_copy_only=False) if text else as_integers(whole)[0]
        values, counts = np.unique(numbers, return_counts=True)
        return cls(values, counts, rows)

    def __len__(self) -> int:
        return max(int(self.counts.sum()), 1)

    @property
    def distinct(self) -> float:
        """The distinct values of all rows, estimated."""
        return max(distinct_values(len(self.values), len(self), self.rows), 1.0)

    def matches(self, other: KeySample) -> int:
        """The number of pairs with equal values."""
        place = np.searchsorted(other.values, self.values)
        place[place == len(other.values)] = 0
        if not len(other.values):
            return 0
        equal = other.values[place] == self.values
        return int((self.counts * other.counts[place])[equal].sum())


class StreamMeasures:
    def __init__(self) -> None:
        self._keys: dict[tuple[int, Expr, int], KeySample] = {}
        self._domains: dict[tuple[int, int], float] = {}
        self._values: dict[tuple[int, Expr, int], tuple[Ints, Mask]] = {}

    def low(self, stem: LogStem, now: int, width: int, since: int) -> int:
        """The position of the first row of a window that ends at `now`, without arrivals before `since`."""
        log = stem.log
        first = log.position_of(since)
        if width >= MAX - 1 or now - width <= MIN:
            return first
        start = min(log.position_from(now - width), len(log))
        return max(first, start + int(np.count_nonzero(log.ts[start : start + BLOCK] < now - width)))

    def rows(self, stem: LogStem, now: int, low: int) -> float:
        """The rows from a position on that had arrived by an event time."""
        return float(np.count_nonzero(stem.log.ts[low:] <= now))

    def rate(self, stem: LogStem, now: int, low: int) -> float:
        """Rows per microsecond of event time, in the last quarter of the time since the row at a position; in all of it
        if there are few rows."""
        ts = stem.log.ts[low:]
        ts = ts[ts <= now]
        span = now - int(ts[0]) if len(ts) else 0
        span = span // 4 if len(ts) > FEW else span
        return int(np.count_nonzero(ts > now - span)) / span if span > 0 else len(ts) / SECOND

    def keys(self, stem: Stem, key: Expr, low: int) -> KeySample:
        """The values of a key at a sample of the rows from a position on."""
        known = id(stem.log) if isinstance(stem, LogStem) else id(stem), key, low
        if known not in self._keys:
            rows, used = _sample(low, stored_rows(stem)), columns_of(key)
            columns = [stem.column(i, rows) if i in used else None for i in range(max(used, default=-1) + 1)]
            self._keys[known] = KeySample.of(evaluate(key, columns, (), len(rows)), stored_rows(stem) - low)
        return self._keys[known]

    def domain(self, a: KeySample, b: KeySample) -> float:
        """The number of values among which two keys are equal as often as these, if all are equally frequent."""
        known = id(a), id(b)
        if known not in self._domains:
            self._domains[known] = len(a) * len(b) / max(a.matches(b), 0.5)
        return self._domains[known]

    def accepted(self, stem: LogStem, boxes: Selections, low: int) -> float:
        """The share of rows that some query accepts."""
        if not boxes or low >= len(stem.log):
            return 1.0
        accepting: Mask | None = None
        for attribute, (least, most) in boxes.items():
            values, missing = self._sampled(stem, attribute, low)
            within = (values >= least[:, None]) & (values <= most[:, None]) & ~missing
            accepting = within if accepting is None else accepting & within
        assert accepting is not None
        some: Mask = np.logical_or.reduce(accepting, axis=0)
        return _share(some)

    def satisfied(self, stem: LogStem, low: int) -> float:
        """The share of rows that satisfy the condition of the join on the stream alone."""
        if stem.condition is None or not stem.shared or low >= len(stem.log):
            return 1.0
        rows = _sample(low, len(stem.log))
        true = holds(stem.condition, stem.columns(stem.condition, rows), (), len(rows))
        return _share(true)

    def _sampled(self, stem: LogStem, expr: Expr, low: int) -> tuple[Ints, Mask]:
        """The values of an expression over the stream at a sample of rows, as integers, and where they are NULL."""
        known = id(stem.log), expr, low
        if known not in self._values:
            rows = _sample(low, len(stem.log))
            values, missing = as_integers(evaluate(expr, stem.columns(expr, rows), (), len(rows)))
            self._values[known] = values, missing
        return self._values[known]


def _share(true: Mask) -> float:
    """The share of a sample; a bit more than none if it is none of it."""
    return (int(np.count_nonzero(true)) + 0.5) / (len(true) + 0.5)


def stored_rows(stem: Stem) -> int:
    """The number of rows that may be probed, as row numbers count them, whoever stores them."""
    match stem:
        case BufferStem():
            return sum(len(s) for s in stem.buffer.segments)
        case TableStem():
            return len(stem.table)
        case CountStem():
            return len(stem.log)
    return len(stem)


def _sample(low: int, high: int) -> Ints:
    """Positions spread evenly."""
    if high - low <= SAMPLE:
        return np.arange(low, high)
    return np.linspace(low, high - 1, SAMPLE).astype(np.int64)


def distinct_values(seen: int, sampled: int, rows: int) -> float:
    """How many distinct values rows have of which a sample has `seen`, if all values are equally frequent: the number
    d for which d (1 - (1 - 1/d)^sampled) values are expected in the sample."""
    if sampled >= rows or seen == 0:
        return float(seen)
    if seen >= sampled:
        return float(rows)
    low, high = float(seen), float(rows)
    for _ in range(20):
        middle = sqrt(low * high)
        expected = -middle * expm1(sampled * log1p(-1.0 / max(middle, 1.0 + 1e-9)))
        low, high = (middle, high) if expected < seen else (low, middle)
    return sqrt(low * high)
