"""Routes: the buckets to which the rows of a stream are sent, for all families that keep state.

Families with the same routing of a stream share a route, so that its rows are sent once. The name of a route is the
same in the process that sends and in the bucket that receives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints, Ints32
from eddyline.engine.actions import FixCells
from eddyline.engine.family import Family
from eddyline.index.keys.bucket_hash import bucket_of, bucket_of_cell, cell, reach, widest
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.plan.expressions import params_of
from eddyline.plan.partitioning import Partitioning
from eddyline.plan.routings import Anywhere, ByKey, Everywhere, Home, OnePlace, Reach, Routing
from eddyline.spark.catalog.following import Follower
from eddyline.spark.worker import blocks
from eddyline.spark.worker.placement import Placement, place_of_family
from eddyline.sql.bound import Expr
from eddyline.sql.catalog import Stream
from eddyline.state.delta import Delta

CELL = 4  # the width of a cell, in widths of the widest band among the family's first queries


def route_name(family: Family, split: Partitioning, stream: str, buckets: int) -> str:
    routing = split.routing(stream)
    match routing:
        case Anywhere():
            return "anywhere"
        case ByKey():
            return f"key {blocks.digest(repr(routing.key).encode())}"
        case Everywhere():
            return "everywhere"
        case OnePlace():
            return f"bucket {place_of_family(family, buckets)}"
        case Home():
            return f"home {family.number}"
        case Reach():
            return f"reach {family.number}"


@dataclass
class Route:
    routing: Routing
    family: Family  # the first family that uses it


class Routes:
    def __init__(self, follower: Follower, placement: Placement) -> None:
        self._follower = follower
        self._definitions = follower.definitions
        self._placement = placement
        self.buckets = placement.buckets
        self._routes: dict[str, dict[str, Route]] = {}  # by stream and name
        self._version = -1

    def refresh(self) -> None:
        """Rebuilds the routes if the version of the catalog has changed."""
        if self._version == self._follower.version:
            return
        self._version = self._follower.version
        self._routes = {}
        for number, family in self._definitions.families.items():
            split = self._placement.of(family, self._definitions.splits.get(number))
            if split.keeps_state and self._definitions.live[number]:
                for stream, routing in split.routings:
                    name = route_name(family, split, stream, self.buckets)
                    self._routes.setdefault(stream, {}).setdefault(name, Route(routing, family))

    def route(self, stream: Stream, rows: Delta, partition: int) -> Iterator[tuple[int, bytes]]:
        """Yields (bucket, block) for every part of the rows that a bucket needs."""
        key = stream.name.lower()
        if not len(rows):
            return
        table = pa.table([*rows.columns, rows.last], names=[*(f"c{i}" for i in range(len(rows.columns))), "#"])
        for name, r in self._routes.get(key, {}).items():
            header = {"kind": "rows", "stream": key, "route": name}
            if r.routing == Everywhere():
                yield from ((b, block) for block in blocks.encode_parts(header, table) for b in range(self.buckets))
            for bucket, part in self._parts(r, rows, table, partition):
                for block in blocks.encode_parts(header, part):
                    yield bucket, block

    def _parts(self, r: Route, rows: Delta, table: pa.Table, partition: int) -> Iterator[tuple[int, pa.Table]]:
        n = len(rows)
        match r.routing:
            case Anywhere():
                share = -(-n // self.buckets)
                for i in range(self.buckets):
                    if i * share < n:
                        yield (i + partition) % self.buckets, table.slice(i * share, share)
            case OnePlace():
                yield place_of_family(r.family, self.buckets), table
            case ByKey():
                keys = [_values(k, rows) for k in r.routing.key]
                yield from _by_bucket(table, np.arange(n), bucket_of(keys, self.buckets), self.buckets)
            case Home():
                cells = cell(_values(r.routing.value, rows), self._width(r.family))
                yield from _by_bucket(table, np.arange(n), bucket_of_cell(cells, self.buckets), self.buckets)
            case Reach():
                ends = bounds(r.family, r.routing, self._definitions.functions)
                if ends is not None:
                    values = _values(r.routing.value, rows)
                    row, bucket = reach(values, *ends, self._width(r.family), self.buckets)
                    yield from _by_bucket(table, row, bucket, self.buckets)

    def _width(self, family: Family) -> float:
        split = self._definitions.splits[family.number]
        assert isinstance(split, FixCells)
        return split.width


def cell_width(family: Family, split: Partitioning, functions: Functions) -> float:
    """The width of the cells of a family, computed from the queries it has."""
    (routing,) = (r for _, r in split.routings if isinstance(r, Reach))
    low, high = bounds(family, routing, functions) or (0.0, 0.0)
    return CELL * (high - low) if 0 < high - low < np.inf else 1.0


def bounds(family: Family, routing: Reach, functions: Functions) -> tuple[float, float] | None:
    """Minimum of the lower and maximum of the upper bounds of the live queries; None if no query has both."""
    return widest(*band_ends(family, routing, functions))


def band_ends(family: Family, routing: Reach, functions: Functions) -> tuple[pa.Array, pa.Array]:
    """The lower and the upper bound of every live query."""
    queries = family.queries.rows()
    live = queries.live()
    params = queries.params_at(params_of(routing.low) | params_of(routing.high), live)
    low, high = (evaluate(e, (), params, len(live), functions) for e in (routing.low, routing.high))
    return low, high


def _values(expr: Expr, rows: Delta) -> pa.Array:
    return evaluate(expr, rows.columns, (), len(rows), Functions({}, {}))


def _by_bucket(table: pa.Table, row: Ints, bucket: Ints32, buckets: int) -> Iterator[tuple[int, pa.Table]]:
    order = np.argsort(bucket, kind="stable")
    ends = np.searchsorted(bucket[order], np.arange(buckets + 1))
    for b in range(buckets):
        positions = order[ends[b] : ends[b + 1]]
        if len(positions):
            yield b, table.take(pa.array(row[positions]))
