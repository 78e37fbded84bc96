"""The store of an engine: the logs of its streams, each stored once for all families that read it.

On Spark, tuples of a stream reach a bucket by several routes (`plan/routings.py`); families with the same route share a
log. In-process there is one route, named "".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from eddyline.state.store.stream_log import StreamLog


class LogName(NamedTuple):
    stream: str
    route: str = ""


class Store:
    def __init__(self) -> None:
        self.logs: dict[LogName, StreamLog] = {}

    def log(self, name: LogName, types: Sequence[pa.DataType], time: int) -> StreamLog:
        """A log, made on first use; `time` is the position of the column of event times."""
        if name not in self.logs:
            self.logs[name] = StreamLog(types, time)
        return self.logs[name]

    def rows(self, stream: str) -> int:
        """The number of rows in the logs of a stream."""
        return sum(len(log) for name, log in self.logs.items() if name.stream == stream)

    def remove(self, stream: str) -> None:
        """Drops the logs of a stream."""
        self.logs = {name: log for name, log in self.logs.items() if name.stream != stream}
