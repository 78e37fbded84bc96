"""Eddyline: very many standing SQL queries over streams, run as one pipeline.

The stages, in the order a query passes them:

    aggregates COUNT, SUM and the others: types, counters, reference semantics
    sql        text to bound statements; the catalog
    plan       bound queries to plans; update patterns; EXPLAIN
    index      sorted runs, hash tables and other structures, as kernels over arrays
    state      changes on edges; the table of queries; the runs and timelines operators keep
    routing    tickets and costs: which operator or strategy comes next
    operators  plans at work on batches
    engine     families of queries that take steps; actions that define them
    session    statements to actions; the registry of queries
    delivery   changes as users see them; sinks
    reference  the meaning of a query in the fewest lines, for tests
    local      the in-process host
    spark      the Spark host

    >>> import eddyline
    >>> db = eddyline.connect()
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from eddyline.errors import (
    BindError,
    CatalogError,
    DataError,
    Error,
    FamilyError,
    FamilyWarning,
    ParseError,
    StateError,
)

if TYPE_CHECKING:
    from eddyline.delivery.changes import Changes
    from eddyline.delivery.reading import Cursor, SinkRows
    from eddyline.local.connection import Connection

__version__ = "0.1.0"
__all__ = [
    "BindError",
    "CatalogError",
    "Changes",
    "Connection",
    "Cursor",
    "DataError",
    "Error",
    "FamilyError",
    "FamilyWarning",
    "ParseError",
    "SinkRows",
    "StateError",
    "connect",
    "read_sink",
]


def connect(
    path: str | Path | None = None,
    *,
    clock: Literal["min", "max"] | None = None,
    functions: dict[str, Any] | None = None,
    threads: int | None = None,
) -> Connection:
    """A new in-process connection, or the one saved at `path`.

    `clock` is 'min' (the slowest stream of a query leads; the default) or 'max'. `functions` gives the bodies of
    Python functions that the saved queries use. `threads` is how many work on a batch: by default, one for each
    processor.
    """
    from eddyline.local.connection import Connection

    if path is None:
        return Connection(clock or "min", threads)
    from eddyline.local.storage import restore

    return restore(Path(path), clock, functions or {}, threads)


def read_sink(
    path: str | Path, after: Cursor | str | int | None = None, *, most_batches: int | None = None
) -> SinkRows:
    """The rows that a pipeline has delivered to a parquet or JSON sink, each once, while it runs or not.

    `after` is the cursor of what was read before, as it is or as text, or the number of a micro-batch. Only
    micro-batches are read that are complete over all families.
    """
    from eddyline.delivery import reading

    return reading.read_sink(path, after, most_batches=most_batches)


def __getattr__(name: str) -> Any:
    """The classes of the in-process host on first use: Spark's Python workers import this package and need none."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)


_MODULES = {
    "Changes": "eddyline.delivery.changes",
    "Connection": "eddyline.local.connection",
    "Cursor": "eddyline.delivery.reading",
    "SinkRows": "eddyline.delivery.reading",
}
