"""The memory limit of one step of a family, in bytes of joined rows and of changes attached to queries.

It is checked before rows are built, or after at most a few million of them, so that a join that explodes is stopped
while there is memory for the others. The count depends only on the data and the queries, not on the machine nor on the
measured times that choose a tactic: a replayed step stops at the same place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from eddyline.errors import StepTooLarge
from eddyline.state.delta import Delta

CHANGE = 56  # bytes of a change without its columns: position, times, sign, arrivals and query
PAIR = 24  # bytes of a joined row of a query, as positions
FEW, GUESS = 4096, 8  # fewer rows than FEW are assumed to have GUESS bytes a column: measuring takes longer
UNBOUNDED = 1 << 62


class Room:
    def __init__(self, most: int = UNBOUNDED) -> None:
        self.most = most
        self.used = 0

    def require(self, rows: int, row_bytes: float) -> None:
        """Raises if so many rows exceed the limit."""
        if self.used + rows * row_bytes > self.most:
            raise StepTooLarge(
                f"{rows:,} rows of about {row_bytes:.0f} bytes would make a step larger than {byte_text(self.most)},"
                f" after {byte_text(self.used)} in the same step.",
                hint="Restrict the query, push fewer rows at once, or allow more WITH (most_bytes = …).",
            )

    def take(self, rows: int, row_bytes: float) -> None:
        """Counts rows that are about to be built, or were just built, and are kept until the step ends."""
        self.require(rows, row_bytes)
        self.used += int(rows * row_bytes)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Counts rows within this context only: they are not kept until the step ends."""
        used = self.used
        try:
            yield
        finally:
            self.used = used


def row_bytes(*deltas: Delta) -> float:
    """The approximate bytes of a row with the columns of all these; a rough guess if there are few rows."""
    if len(deltas[0]) < FEW:
        return float(CHANGE + GUESS * len(deltas[0].columns))
    columns = [c for d in deltas for c in d.columns if c is not None]
    return CHANGE + sum(float(c.nbytes) / max(1, len(c)) for c in columns)


def byte_text(n: int) -> str:
    for name, unit in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if n >= unit:
            return f"{n / unit:.1f} {name}"
    return f"{n:,} bytes"
