"""Prepares the rows of a push: separates late rows, and computes the clocks after them.

It changes nothing of the connection, so that a push is applied completely or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.arrays import Ints
from eddyline.delivery.changes import Arrival
from eddyline.engine.clocks import StreamClock
from eddyline.engine.running_family import arrived
from eddyline.errors import DataError
from eddyline.session import input_rows
from eddyline.sql.catalog import Stream
from eddyline.state.delta import Delta, micros


@dataclass(frozen=True)
class Incoming:
    """Rows of one stream: the tuples on time, the late rows, and the new clock."""

    stream: Stream
    clock: StreamClock
    batch: Delta
    late: list[pa.Array] | None
    arrival: Arrival

    @property
    def key(self) -> str:
        return self.stream.name.lower()


def incoming(streams: list[tuple[Stream, Any]], clocks: Mapping[str, StreamClock], start: int) -> list[Incoming]:
    """The checked rows of each stream; arrival numbers begin at `start`."""
    prepared: list[Incoming] = []
    for stream, rows in streams:
        columns = input_rows.columns(f"stream {stream.name!r}", stream.fields, rows)
        ts = _event_times(stream, columns)
        clock = replace(clocks[stream.name.lower()])
        late = clock.arrive(ts)
        positions, late_rows = np.arange(len(ts)), None
        if late.any():
            late_rows = selected(columns, late)
            positions = np.nonzero(~late)[0]
            columns, ts = selected(columns, ~late), ts[positions]
        batch = arrived(columns, ts, start)
        prepared.append(Incoming(stream, clock, batch, late_rows, Arrival(stream.name, start, positions)))
        start += len(batch)
    return prepared


def selected(columns: list[pa.Array], which: np.ndarray) -> list[pa.Array]:
    where = pa.array(np.nonzero(which)[0])
    return [c.take(where) for c in columns]


def _event_times(stream: Stream, columns: list[pa.Array]) -> Ints:
    column = columns[stream.time]
    if column.null_count:
        row = pc.index(column.is_null(), True).as_py()
        raise DataError(
            f"Row {row} for stream {stream.name!r} has no event time ({stream.fields[stream.time].name!r} is NULL).",
            hint="Every tuple needs one; no row was applied.",
        )
    return micros(column)
