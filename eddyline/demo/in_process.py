"""The main job on generated data: trades and quotes against very many alerts, some of which come and go all the time.

`play` is the job and yields a tally after each batch; `show` draws it. The families differ in cost: equality on the
symbol is found through an index, while plain ranges and bands are compared with every row, so these are fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from eddyline.local.changes import Changes
from eddyline.local.connection import Connection

BATCH = 500  # rows of each stream in one push
RATE = 50.0  # rows of each stream in one second of event time
CHURN = 50  # alerts dropped, and as many added, after each push
SYMBOLS = 500
DELAY = 2.0  # seconds that the watermarks lag
BEGIN = np.datetime64("2026-01-01T09:30:00", "us")

STREAMS = f"""
    CREATE STREAM trades (symbol STRING, price DOUBLE, qty INT, ts TIMESTAMP)
      WATERMARK ts DELAY OF INTERVAL {DELAY} SECONDS;
    CREATE STREAM quotes (symbol STRING, price DOUBLE, ts TIMESTAMP)
      WATERMARK ts DELAY OF INTERVAL {DELAY} SECONDS;
"""

Columns = dict[str, npt.NDArray[Any]]


class Market:
    """Symbols with a price each, around which trades and quotes scatter; a few rows come out of order or late."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.symbols = np.array([f"SYM{n:03}" for n in range(SYMBOLS)])
        self.prices = rng.uniform(50, 150, SYMBOLS)
        self.now = 0.0  # seconds of event time

    def rows(self, count: int) -> dict[str, pa.Table]:
        """The next rows of both streams, over the same stretch of event time."""
        took = count / RATE
        found = {"trades": self._rows(count, took), "quotes": self._rows(count, took)}
        found["trades"]["qty"] = self.rng.integers(1, 1000, count).astype(np.int32)
        self.now += took
        return {name: pa.table(columns) for name, columns in found.items()}

    def _rows(self, count: int, took: float) -> Columns:
        symbol = self.rng.integers(0, SYMBOLS, count)
        held_up = self.rng.exponential(DELAY, count) * (self.rng.random(count) < 0.02)
        seconds = np.maximum(self.now + np.sort(self.rng.random(count)) * took - held_up, 0)
        return {
            "symbol": self.symbols[symbol],
            "price": self.around(symbol),
            "ts": BEGIN + (seconds * 1e6).astype("timedelta64[us]"),
        }

    def around(self, symbol: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return np.round(self.prices[symbol] * self.rng.normal(1, 0.02, len(symbol)), 2)

    def pick(self, count: int) -> npt.NDArray[np.int64]:
        return self.rng.integers(0, SYMBOLS, count)


def _level(market: Market, n: int) -> Columns:
    symbol = market.pick(n)
    lo = market.around(symbol)
    return {"symbol": market.symbols[symbol], "lo": lo, "hi": lo + 0.2}


def _range(market: Market, n: int) -> Columns:
    lo = market.rng.uniform(50, 150, n)
    return {"lo": lo, "hi": lo + 0.01}


def _band(market: Market, n: int) -> Columns:
    lo = market.rng.uniform(-50, 50, n)
    return {"lo": lo, "hi": lo + 0.005}


def _near(market: Market, n: int) -> Columns:
    return {"symbol": market.symbols[market.pick(n)], "w": market.rng.integers(1, 5, n)}


def _busy(market: Market, n: int) -> Columns:
    return {"symbol": market.symbols[market.pick(n)], "least": market.rng.integers(4, 12, n)}


@dataclass(frozen=True, slots=True)
class Alerts:
    """A family of alerts: its SQL, which part of all alerts it is, and how the constants are drawn."""

    name: str
    params: str
    select: str
    share: float
    draw: Callable[[Market, int], Columns]


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


@dataclass
class Tally:
    """What the job has done so far."""

    queries: int = 0
    rows: int = 0
    batches: int = 0
    changes: int = 0
    late: int = 0
    added: int = 0
    dropped: int = 0
    registering: float = 0.0  # seconds
    seconds: float = 0.0  # since the first push
    slowest: float = 0.0  # seconds of one push
    families: dict[str, dict[str, Any]] = field(default_factory=dict)
    latest: dict[str, str] = field(default_factory=dict)  # per family, a change of the last push


def play(db: Connection, queries: int, rows: int, seconds: float, seed: int) -> Iterator[Tally]:
    """Registers the alerts, then pushes batches until `rows` or `seconds` are reached; yields after each step."""
    market = Market(np.random.default_rng(seed))
    tally = Tally()
    counts = sizes(queries)
    began = perf_counter()
    db.execute(STREAMS)
    for alerts in FAMILIES:
        db.execute(f"CREATE QUERY FAMILY {alerts.name} ({alerts.params}) AS {alerts.select}")
        count = counts[alerts.name]
        _register(db, market, alerts, 0, count)
        tally.queries += count
    tally.registering = perf_counter() - began
    yield tally

    first, level = perf_counter(), FAMILIES[0]
    oldest, newest = 0, len(db.registry.named(level.name).queries)
    while tally.rows < rows and tally.seconds < seconds:
        batch = market.rows(min(BATCH, -(-(rows - tally.rows) // 2)))
        before = perf_counter()
        changes = db.push(batch)
        tally.slowest = max(tally.slowest, perf_counter() - before)
        _count(db, tally, changes)

        # users come and go while the streams flow
        churn = min(CHURN, newest - oldest)
        db.drop(level.name, [f"{level.name}{n}" for n in range(oldest, oldest + churn)])
        _register(db, market, level, newest, churn)
        oldest, newest = oldest + churn, newest + churn
        tally.added, tally.dropped = tally.added + churn, tally.dropped + churn
        tally.seconds = perf_counter() - first
        yield tally


def sizes(queries: int) -> dict[str, int]:
    """How many queries each family gets: its share, at least one, and the first all that is left."""
    first, *others = FAMILIES
    counts = {alerts.name: max(1, round(queries * alerts.share)) for alerts in others}
    return {first.name: max(1, queries - sum(counts.values())), **counts}


def _register(db: Connection, market: Market, alerts: Alerts, start: int, count: int) -> None:
    names = [f"{alerts.name}{n}" for n in range(start, start + count)]
    db.register(alerts.name, pa.table({"query": names, **alerts.draw(market, count)}))


def _count(db: Connection, tally: Tally, changes: Changes) -> None:
    stats = db.stats()
    tally.rows, tally.late, tally.queries = stats["rows"], stats["late"], stats["queries"]
    tally.changes += changes.count()
    tally.batches += 1
    tally.families = stats["families"]
    for name in {query.rstrip("0123456789"): query for query in changes.queries()}.values():
        row = changes.rows(name).slice(0, 1).to_pylist()[0]
        values = ", ".join(f"{v:.2f}" if isinstance(v, float) else str(v) for v in list(row.values())[3:])
        tally.latest[name.rstrip("0123456789")] = f"{name} {row['op']} ({values})"


# showing it


def show(queries: int, rows: int, seconds: float, seed: int) -> None:
    console = Console(highlight=False)
    tally = Tally()
    waiting = Text(f"Registering {queries:,} alerts in {len(FAMILIES)} families …")
    with Live(waiting, console=console, refresh_per_second=8, transient=True) as live:
        for tally in play(Connection(), queries, rows, seconds, seed):
            live.update(_progress(tally, max(tally.rows / rows, tally.seconds / seconds)))
    console.print(_families(tally))
    console.print(summary(tally), style="bold", soft_wrap=True)


def _progress(tally: Tally, done: float) -> Group:
    if not tally.rows:
        return Group(Text(f"{tally.queries:,} alerts stand; the first rows are on their way …"))
    line = Text.assemble(
        (f"{tally.rows:,}", "bold"), " rows  ", (f"{per_second(tally.rows, tally):,.0f}", "bold green"), " rows/s  ",
        (f"{tally.queries:,}", "bold"), " queries  ",
        (f"+{tally.added:,} −{tally.dropped:,}", "cyan"), "  ",
        (f"{tally.changes:,}", "bold"), " changes  ",
        (f"{tally.late:,}", "yellow"), " late",
    )  # fmt: skip
    return Group(line, ProgressBar(total=1, completed=min(done, 1), width=60), Text("\n"), _families(tally))


def _families(tally: Tally) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold cyan")
    table.add_column("family")
    table.add_column("queries", justify="right")
    table.add_column("changes", justify="right")
    table.add_column("latest change", no_wrap=True, overflow="ellipsis")
    for name, found in tally.families.items():
        table.add_row(name, f"{found['queries']:,}", f"{found['changes']:,}", Text(tally.latest.get(name, "")))
    return table


def summary(tally: Tally) -> str:
    took = f"{tally.seconds:.1f} s; registering took {tally.registering:.1f} s"
    return f"""
{tally.rows:,} rows against {tally.queries:,} queries in {took}
{per_second(tally.rows, tally):,.0f} rows/s, {per_second(tally.changes, tally):,.0f} changes/s
{tally.changes:,} changes, {tally.late:,} late rows, {tally.added:,} queries added and {tally.dropped:,} dropped
{tally.batches:,} batches, the slowest in {tally.slowest * 1000:,.0f} ms"""


def per_second(count: int, tally: Tally) -> float:
    return count / tally.seconds if tally.seconds else 0.0
