"""How much a family may build in one step, in bytes of joined rows and of changes attached to queries.

It is asked before rows are built, or after at most a few million of them, so that a join that explodes is stopped while
there is memory for the others. What is counted depends on the data and the queries alone, not on the machine nor on
which way through a join was measured to be faster: replayed, a step stops at the same place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from eddyline.errors import StepTooLarge
from eddyline.state.delta import Delta

CHANGE = 56  # bytes of a change without its columns: position, times, sign, arrivals and query
PAIR = 24  # bytes of a row that a tuple gives to a query: their positions
FEW, GUESS = 4096, 8  # rows of so few are taken to have so many bytes a column: measuring would take longer
UNBOUNDED = 1 << 62


class Room:
    def __init__(self, most: int = UNBOUNDED) -> None:
        self.most = most
        self.used = 0

    def require(self, rows: int, row_bytes: float) -> None:
        """Refuses to build so many rows at once if there is no room for them."""
        if self.used + rows * row_bytes > self.most:
            raise StepTooLarge(
                f"{rows:,} rows of about {row_bytes:.0f} bytes would make a step larger than {_size(self.most)},"
                f" after {_size(self.used)} in the same step.",
                hint="Restrict the query, push fewer rows at once, or allow more WITH (most_bytes = …).",
            )

    def take(self, rows: int, row_bytes: float) -> None:
        """Room for rows that are about to be built, or were just built, and stay until the step ends."""
        self.require(rows, row_bytes)
        self.used += int(rows * row_bytes)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """What is taken inside is given back: it does not stay until the step ends."""
        used = self.used
        try:
            yield
        finally:
            self.used = used


def row_bytes(*deltas: Delta) -> float:
    """About how many bytes a row takes that has the columns of all these; a rough guess if there are few."""
    if len(deltas[0]) < FEW:
        return float(CHANGE + GUESS * len(deltas[0].columns))
    columns = [c for d in deltas for c in d.columns if c is not None]
    return CHANGE + sum(float(c.nbytes) / max(1, len(c)) for c in columns)


def _size(n: int) -> str:
    for name, unit in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if n >= unit:
            return f"{n / unit:.1f} {name}"
    return f"{n:,} bytes"
