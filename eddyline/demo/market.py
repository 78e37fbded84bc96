"""A market: symbols with a price each, and the trades and quotes that scatter around these.

A faster market has more symbols, so that the rate per symbol, and the rows of a symbol in a window, are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

RATE = 50.0  # rows of each stream in one second of event time
PER_SYMBOL = 0.1  # of them for one symbol
DELAY = 2.0  # seconds that the watermarks lag
BEGIN = np.datetime64("2026-01-01T09:30:00", "us")

COLUMNS = {
    "trades": "symbol STRING, price DOUBLE, qty INT, ts TIMESTAMP",
    "quotes": "symbol STRING, price DOUBLE, ts TIMESTAMP",
}

Columns = dict[str, npt.NDArray[Any]]


def stream(name: str) -> str:
    """The part of a stream's declaration that does not depend on its source."""
    return f"CREATE STREAM {name} ({COLUMNS[name]})\n  WATERMARK ts DELAY OF INTERVAL {DELAY:g} SECONDS"


class Market:
    """Symbols with a price each, around which trades and quotes scatter; a few rows are out of order or late."""

    def __init__(self, rng: np.random.Generator, rate: float = RATE, begin: np.datetime64 = BEGIN) -> None:
        self.rng = rng
        self.rate = rate
        self.begin = begin
        self.symbols = np.array([f"SYM{n:03}" for n in range(max(1, round(rate / PER_SYMBOL)))])
        self.prices = rng.uniform(50, 150, len(self.symbols))
        self.now = 0.0  # seconds of event time since the start

    def rows(self, count: int) -> dict[str, pa.Table]:
        """The next rows of both streams, over the same interval of event time."""
        took = count / self.rate
        streams = {"trades": self._rows(count, took), "quotes": self._rows(count, took)}
        streams["trades"]["qty"] = self.rng.integers(1, 1000, count).astype(np.int32)
        self.now += took
        return {name: pa.table(columns) for name, columns in streams.items()}

    def _rows(self, count: int, took: float) -> Columns:
        symbol = self.rng.integers(0, len(self.symbols), count)
        held_up = self.rng.exponential(DELAY, count) * (self.rng.random(count) < 0.02)
        seconds = np.maximum(self.now + np.sort(self.rng.random(count)) * took - held_up, 0)
        return {
            "symbol": self.symbols[symbol],
            "price": self.around(symbol),
            "ts": self.begin + (seconds * 1e6).astype("timedelta64[us]"),
        }

    def around(self, symbol: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return np.round(self.prices[symbol] * self.rng.normal(1, 0.02, len(symbol)), 2)

    def pick(self, count: int) -> npt.NDArray[np.int64]:
        return self.rng.integers(0, len(self.symbols), count)
