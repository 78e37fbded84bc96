"""What the cost model knows of the data: rates, sizes and distinct counts, or equal guesses where nothing is given.

A plan must be the same on every host and in a replay, so the statistics of a family are fixed when it is planned.
Nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from eddyline.sql.bound import Constant, StreamSource, TableSource, Window

RATE = 1.0  # tuples of a stream in a second
TABLE_RATE = 0.01  # changes of a table in a second
TABLE_ROWS = 100.0
SECONDS = 60.0  # of a window whose size is a parameter
UNBOUNDED_SECONDS = 3600.0
COUNT = 100.0  # rows of a count window whose size is a parameter


@dataclass(frozen=True, slots=True)
class Statistics:
    """Names are in lower case. A column without a distinct count is taken to have about as many values as rows."""

    rates: Mapping[str, float] = field(default_factory=dict)  # by stream or table: tuples or changes in a second
    rows: Mapping[str, float] = field(default_factory=dict)  # by table
    distinct: Mapping[tuple[str, str], float] = field(default_factory=dict)  # by stream or table, and column
    queries: float = 1.0  # of the family; what is not shared by them is computed for each

    def rate(self, source: StreamSource | TableSource) -> float:
        if isinstance(source, StreamSource):
            return self.rates.get(source.stream.lower(), RATE)
        return self.rates.get(source.table.lower(), TABLE_RATE)

    def size(self, source: StreamSource | TableSource) -> float:
        """The expected rows of a window or a table."""
        if isinstance(source, StreamSource):
            return _window_rows(source.window, self.rate(source))
        return self.rows.get(source.table.lower(), TABLE_ROWS)

    def distinct_counts(self, source: StreamSource | TableSource) -> tuple[float | None, ...]:
        """By column; None: unknown."""
        name = (source.stream if isinstance(source, StreamSource) else source.table).lower()
        return tuple(self.distinct.get((name, f.name.lower())) for f in source.fields)


def _window_rows(window: Window, rate: float) -> float:
    size = window.size.value if isinstance(window.size, Constant) else None
    if window.kind == "rows":
        return float(size) if isinstance(size, int) else COUNT
    if window.kind == "unbounded":
        return rate * UNBOUNDED_SECONDS
    return rate * (size.total_seconds() if isinstance(size, timedelta) else SECONDS)
