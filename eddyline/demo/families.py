"""The families of alerts: filters, a join by key and time, a windowed aggregate, a join within a band.

They differ in cost: an alert on a symbol reads the rows of that symbol, a range the rows within it, and a band compares
every trade with every quote of the same second at nearly its price.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from eddyline.demo.market import Columns, Market


def _level(market: Market, n: int) -> Columns:
    symbol = market.pick(n)
    lo = market.around(symbol)
    return {"symbol": market.symbols[symbol], "lo": lo, "hi": lo + 0.2}


def _range(market: Market, n: int) -> Columns:
    lo = market.rng.uniform(50, 150, n)
    return {"lo": lo, "hi": lo + 0.01}


def _band(market: Market, n: int) -> Columns:
    lo = market.rng.uniform(-0.1, 0.1, n)
    return {"lo": lo, "hi": lo + 0.0005}


def _near(market: Market, n: int) -> Columns:
    return {"symbol": market.symbols[market.pick(n)], "w": market.rng.integers(1, 5, n)}


def _busy(market: Market, n: int) -> Columns:
    return {"symbol": market.symbols[market.pick(n)], "least": market.rng.integers(4, 12, n)}


@dataclass(frozen=True, slots=True)
class Alerts:
    """A family of alerts: its SQL, its share of all alerts, and the distribution of its constants."""

    name: str
    params: str
    select: str
    share: float
    draw: Callable[[Market, int], Columns]

    @property
    def statement(self) -> str:
        return f"CREATE QUERY FAMILY {self.name} ({self.params}) AS\n  {self.select}"

    def named(self, start: int, stop: int) -> list[str]:
        """The names of its queries by number."""
        return [f"{self.name}{n}" for n in range(start, stop)]

    def queries(self, market: Market, start: int, stop: int) -> pa.Table:
        """Queries with new constants, as `register` takes them."""
        return pa.table({"query": self.named(start, stop), **self.draw(market, stop - start)})


FAMILIES = (
    Alerts(
        "level",
        "symbol STRING, lo DOUBLE, hi DOUBLE",
        "SELECT symbol, price, qty FROM trades WHERE symbol = :symbol AND price BETWEEN :lo AND :hi",
        0.688,
        _level,
    ),
    Alerts(
        "range",
        "lo DOUBLE, hi DOUBLE",
        "SELECT symbol, price FROM trades WHERE price BETWEEN :lo AND :hi",
        0.3,
        _range,
    ),
    Alerts(
        "near",
        "symbol STRING, w INT",
        "SELECT t.symbol, t.price, q.price AS quote FROM trades [RANGE 5 SECONDS] t, quotes [RANGE 5 SECONDS] q "
        "WHERE t.symbol = q.symbol AND t.symbol = :symbol AND abs(t.ts - q.ts) <= INTERVAL :w SECONDS",
        0.005,
        _near,
    ),
    Alerts(
        "busy",
        "symbol STRING, least BIGINT",
        "SELECT symbol, COUNT(*) AS trades, AVG(price) AS mean FROM trades [RANGE 20 SECONDS] "
        "WHERE symbol = :symbol GROUP BY symbol HAVING COUNT(*) >= :least",
        0.005,
        _busy,
    ),
    Alerts(
        "band",
        "lo DOUBLE, hi DOUBLE",
        "SELECT t.symbol, t.price, q.symbol AS other, q.price AS quote "
        "FROM trades [RANGE 1 SECOND] t, quotes [RANGE 1 SECOND] q WHERE q.price - t.price BETWEEN :lo AND :hi",
        0.002,
        _band,
    ),
)


def sizes(queries: int) -> dict[str, int]:
    """The number of queries of each family: its share, at least one; the first gets the remainder."""
    first, *others = FAMILIES
    counts = {alerts.name: max(1, round(queries * alerts.share)) for alerts in others}
    return {first.name: max(1, queries - sum(counts.values())), **counts}
