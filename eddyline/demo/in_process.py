"""The demo without Spark, as fast as one process can: `play` runs the job and yields a tally after each batch; `show`
displays it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from eddyline.delivery.changes import Changes
from eddyline.demo.families import FAMILIES, sizes
from eddyline.demo.market import COLUMNS, Market, stream
from eddyline.local.connection import Connection

BATCH = 500  # rows of each stream in one push
CHURN = 50  # alerts dropped, and as many added, after each push


@dataclass
class Tally:
    """The counters of the job so far."""

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
    for name in COLUMNS:
        db.execute(stream(name))
    for alerts in FAMILIES:
        db.execute(alerts.statement)
        count = counts[alerts.name]
        db.register(alerts.name, alerts.queries(market, 0, count))
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

        # alerts are dropped and registered between pushes
        churn = min(CHURN, newest - oldest)
        db.drop(level.name, level.named(oldest, oldest + churn))
        db.register(level.name, level.queries(market, newest, newest + churn))
        oldest, newest = oldest + churn, newest + churn
        tally.added, tally.dropped = tally.added + churn, tally.dropped + churn
        tally.seconds = perf_counter() - first
        yield tally


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
        return Group(Text(f"{tally.queries:,} alerts are registered; the first rows follow …"))
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
    for name, figures in tally.families.items():
        table.add_row(name, f"{figures['queries']:,}", f"{figures['changes']:,}", Text(tally.latest.get(name, "")))
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
