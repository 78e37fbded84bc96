"""Lazy evaluation: the tuples that a family has collected since it was last evaluated, and when that is due again.

With `evaluate = tau`, a family is evaluated once the clock of its streams is tau ahead of the clock of its last
evaluation, so a result is delayed by at most tau of event time. All collected tuples are then one step: those of a
stream in the order of arrival, with their arrival numbers. The intervals of changes make the folded result independent
of tau. Where operators read the log of a stream, what is collected is a range of arrival numbers of the log.

Whatever a collected tuple must not see (a changed table or function, the initial answer of a new query), and a
snapshot, which must see it, evaluates the family before it is due. The changes of such an evaluation are held, and
returned by the family's next step. A family is also evaluated before it is due if its tuples take more than a share of
the memory that one of its steps may use. (Document 2, section 3.3; arrival numbers instead of the closed interval
[now - tau, now], which computes results at its ends twice.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.operators.room import CHANGE
from eddyline.state.delta import MAX, MIN, Delta, concat, query_of
from eddyline.state.query_table import QueryRows
from eddyline.state.saved_tables import loaded_columns, loaded_ints, saved_columns
from eddyline.state.store.stream_log import StreamLog

SHARE = 4  # a quarter of the bytes of a step may be collected tuples
WIDEST = 8  # bytes of a value whose type has a fixed size
BATCH = 2048  # bytes of a batch beside its rows: the objects that hold its columns


class ArrivalRange(NamedTuple):
    """Tuples of a log: the first arrival number, the one after the last, and how many there are."""

    begin: int
    end: int
    tuples: int

    def after(self, earlier: ArrivalRange | None) -> ArrivalRange:
        if earlier is None:
            return self
        return ArrivalRange(earlier.begin, self.end, earlier.tuples + self.tuples)

    def read(self, log: StreamLog) -> Delta:
        return log.rows(log.position_of(self.begin), log.position_of(self.end))


class Collecting:
    """Tuples by stream, and the changes of evaluations before they were due."""

    def __init__(
        self,
        every: int,
        streams: Iterable[str],
        most_bytes: int,
        logs: Mapping[str, StreamLog],
        *,
        several_clocks: bool,
    ) -> None:
        """`logs` has, by stream, the logs that operators read. `several_clocks`: a tuple may be behind the clock
        (policy 'max'), and is then not visible to the family."""
        self.every = every
        self.reached = MIN  # the clock of the streams, up to which tuples have been collected
        self.held: list[Delta] = []
        self._most_bytes = most_bytes // SHARE
        self._streams = sorted(streams)
        self._logs = logs
        self._ranges: dict[str, ArrivalRange] = {}
        self._batches: dict[str, list[Delta]] = {}  # of streams without a log
        self._bytes = 0
        self._several_clocks = several_clocks
        self._unsized: dict[str, list[int]] = {}  # by stream: its columns whose values differ in size

    def __len__(self) -> int:
        kept = sum(len(b) for batches in self._batches.values() for b in batches)
        return kept + sum(r.tuples for r in self._ranges.values())

    def __bool__(self) -> bool:
        return bool(self._batches or self._ranges)

    def add(self, streams: Mapping[str, Delta], reached: int) -> None:
        """Collects arriving tuples, after which the clock of the streams is `reached`."""
        for stream, batch in streams.items():
            if self._several_clocks:
                batch = batch.take(batch.ts >= self.reached).spread()
            if not len(batch):
                continue
            if stream in self._logs:
                arrivals = ArrivalRange(int(batch.first.min()), int(batch.last.max()) + 1, len(batch))
                self._ranges[stream] = arrivals.after(self._ranges.get(stream))
            else:
                self._batches.setdefault(stream, []).append(batch)
            self._bytes += self._bytes_of(stream, batch)
        self.reached = max(self.reached, reached)

    def _bytes_of(self, stream: str, batch: Delta) -> int:
        """The bytes of a batch; only columns whose types do not tell are asked, which takes long for a single tuple."""
        columns = batch.columns
        if stream not in self._unsized:
            self._unsized[stream] = [i for i, c in enumerate(columns) if not pa.types.is_primitive(c.type)]
        measured = sum(int(columns[i].nbytes) for i in self._unsized[stream])
        return measured + len(batch) * (CHANGE + WIDEST * len(columns)) + BATCH

    def due(self, evaluated: int) -> bool:
        """Whether the family must be evaluated; `evaluated` is the clock of its last evaluation."""
        return self.reached - evaluated >= self.every or self._bytes > self._most_bytes

    def take(self) -> dict[str, Delta]:
        """The collected tuples as one batch per stream; none are collected afterwards."""
        joined = {s: _joined(batches) for s, batches in self._batches.items()}
        joined |= {s: arrivals.read(self._logs[s]) for s, arrivals in self._ranges.items()}
        self._batches, self._ranges, self._bytes = {}, {}, 0
        return joined

    def release(self, types: Sequence[pa.DataType], queries: QueryRows, changes: Delta) -> Delta:
        """The changes that were held, without those of dropped queries, then the changes of a step."""
        held, self.held = self.held, []
        alive = [d.take(queries.alive[queries.positions(query_of(d))]) for d in held if len(d)]
        return concat([*alive, changes], types, attached=True)

    def forget(self, queries: Ints) -> None:
        """Removes the changes of dropped queries."""
        self.held = [d.take(~np.isin(query_of(d), queries)).spread() for d in self.held]

    # saving

    def save(self) -> dict[str, pa.Table]:
        """Tables by name; the names have no dot, unlike those of the operators' tables."""
        saved = {"collecting": pa.table({"bytes": [self._bytes]})}
        for i, stream in enumerate(self._streams):
            if stream in self._batches:
                self._batches[stream] = [rows := _joined(self._batches[stream])]
                saved[f"collected{i}"] = pa.table(saved_columns(rows) | {"ts": rows.ts, "arrival": rows.last})
            if stream in self._ranges:
                arrivals = self._ranges[stream]
                saved[f"collected{i}"] = pa.table({name: [n] for name, n in arrivals._asdict().items()})
        for i, held in enumerate(d.spread() for d in self.held):
            numbers = {name: getattr(held, name) for name in _NUMBERS}
            saved[f"held{i}"] = pa.table(saved_columns(held) | numbers)
        return saved

    def load(self, saved: Mapping[str, pa.Table], reached: int) -> None:
        self.reached = reached
        self._bytes = saved["collecting"].column("bytes")[0].as_py()
        for i, stream in enumerate(self._streams):
            if f"collected{i}" in saved:
                self._load_tuples(stream, saved[f"collected{i}"])
        while (table := saved.get(f"held{len(self.held)}")) is not None:
            numbers = dict(zip(_NUMBERS, loaded_ints(table, *_NUMBERS), strict=True))
            self.held.append(Delta(loaded_columns(table, table.num_columns - len(_NUMBERS)), None, **numbers))

    def _load_tuples(self, stream: str, table: pa.Table) -> None:
        if "begin" in table.column_names:
            self._ranges[stream] = ArrivalRange(*(int(x[0]) for x in loaded_ints(table, *ArrivalRange._fields)))
            return
        ts, arrival = loaded_ints(table, "ts", "arrival")
        columns, n = loaded_columns(table, table.num_columns - 2), len(ts)
        ends, signs = np.full(n, MAX, np.int64), np.ones(n, np.int64)
        tuples = Delta(columns, None, ts, ends, signs, arrival, arrival)
        if stream in self._logs:  # an earlier version saved them although they are in the log
            self._logs[stream].adopt(tuples)
            self._ranges[stream] = ArrivalRange(int(arrival.min()), int(arrival.max()) + 1, n)
        else:
            self._batches[stream] = [tuples]


_NUMBERS = ("ts", "exp", "sign", "first", "last", "query")


def _joined(batches: Sequence[Delta]) -> Delta:
    return concat(batches, [c.type for c in batches[0].columns], attached=False)
