"""Results as text: tables, changes, counters and errors, for a terminal or for a pipe.

A terminal gets colours, its own width and the time taken. A pipe gets the same tables as wide as they need to be,
without colours or times, so that the same input gives the same text; errors go to stderr.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eddyline import types as t
from eddyline.delivery.changes import Changes
from eddyline.engine.family import Family
from eddyline.errors import Error
from eddyline.local.connection import Connection
from eddyline.operators.user_functions import FunctionWarning

WIDE = 100_000  # characters per line of output that is not for a screen
FEW = 3  # up to so many queries of a family get a table each; more share one
NAMES = 3  # names of queries shown beside a result they share
TOO_MANY = 200_000  # for more changes, only their number is printed


@dataclass(frozen=True, slots=True)
class Printer:
    console: Console
    errors: Console
    kind: Literal["terminal", "plain"]
    limit: int  # rows of a table that are shown; 0: all

    @staticmethod
    def terminal(limit: int) -> Printer:
        console = Console(highlight=False)
        return Printer(console, console, "terminal", limit)

    @staticmethod
    def plain(limit: int) -> Printer:
        """For scripts and pipes: colours only on a terminal, and no lines cut to the screen."""
        return Printer(
            Console(width=WIDE, highlight=False), Console(stderr=True, width=WIDE, highlight=False), "plain", limit
        )

    def line(self, text: str, style: str = "") -> None:
        self.console.print(Text(text, style=style), soft_wrap=True)

    def error(self, error: Error, where: str = "") -> None:
        message, _, rest = str(error).partition("\n")
        text = Text(f"Error{where}: {message}", style="bold red")
        if rest:
            text.append(f"\n{rest}", style="not bold red")
        self.errors.print(text, soft_wrap=True)

    def took(self, seconds: float, what: str = "") -> None:
        """The line under a result: its size, and on a terminal the time."""
        time = f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
        parts = [what] if self.kind == "plain" else [what, time]
        if any(parts):
            self.line(" · ".join(filter(None, parts)), "dim")
            self.line("")

    # tables

    def table(self, data: pa.Table, title: str = "") -> None:
        if title:
            self.line(title, "bold")
        shown = data if not self.limit else data.slice(0, self.limit)
        grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold cyan")
        for field in data.schema:
            number = t.is_numeric(field.type)
            fixed = number or pa.types.is_temporal(field.type) or field.name == "op"
            grid.add_column(Text(field.name), justify="right" if number else "left", no_wrap=fixed, overflow="fold")
        for row in zip(*(column.to_pylist() for column in shown.columns), strict=True):
            grid.add_row(*(cell(value) for value in row))
        self.console.print(grid)
        if data.num_rows > shown.num_rows:
            self.line(f"… {data.num_rows - shown.num_rows:,} more rows", "yellow")

    def plan(self, data: pa.Table) -> None:
        for row in data.column(0).to_pylist():
            self.line(row)

    # changes

    def changes(self, db: Connection, changes: Changes) -> None:
        """A table per query, or one per family where many queries changed."""
        names = changes.queries()
        if changes.count() > TOO_MANY:
            self.line(f"{changes.count():,} changes are too many to show: {some(names, len(names))}")
            return
        for family, queries in by_family(db, names):
            if len(queries) <= FEW:
                for name in queries:
                    self.table(changes.rows(name), name)
                    self.line("")
            else:
                self.table(shared(changes.compact(family.name)), f"{family.name}: {len(queries):,} queries")
                self.line("")

    def warnings(self, warnings: Iterable[FunctionWarning]) -> None:
        for warning in warnings:
            self.errors.print(Text(f"Warning: {warning}", "yellow"), soft_wrap=True)

    # counters

    def stats(self, stats: dict[str, Any]) -> None:
        tables = {
            k: v for k, v in stats.items() if isinstance(v, dict) and all(isinstance(x, dict) for x in v.values())
        }
        totals = flat({k: v for k, v in stats.items() if k not in tables})
        self.line(" · ".join(f"{k} {v:,}" for k, v in totals.items() if isinstance(v, int)), "bold")
        for what, entries in tables.items():
            if entries:
                rows = [{what.rstrip("s").replace("ie", "y"): name, **flat(values)} for name, values in entries.items()]
                self.line("")
                self.table(pa.Table.from_pylist(rows))
        self.line("")


def flat(values: dict[str, Any]) -> dict[str, Any]:
    """Values by name; those inside others have both names."""
    levels = ({f"{k} {x}": y for x, y in v.items()} if isinstance(v, dict) else {k: v} for k, v in values.items())
    return {name: value for level in levels for name, value in level.items()}


def cell(value: Any) -> Text:
    """A value as SQL's readers know it, on one line; characters that would move the cursor are escaped."""
    if value is None:
        return Text("NULL", style="dim")
    if isinstance(value, bool):
        return Text(str(value).lower())
    if isinstance(value, datetime):
        return Text(value.isoformat(" "))
    if isinstance(value, list):
        return Text(", ".join(map(str, value)))
    text = re.sub(r"\n\s*", "↵ ", str(value))
    return Text("".join(c if c.isprintable() else repr(c)[1:-1] for c in text))


def by_family(db: Connection, names: Iterable[str]) -> list[tuple[Family, list[str]]]:
    """The names of queries by family, in the order of first appearance."""
    by_family: dict[int, tuple[Family, list[str]]] = {}
    for name in names:
        family, _ = db.registry.query(name)
        by_family.setdefault(family.number, (family, []))[1].append(name)
    return list(by_family.values())


def shared(compact: pa.Table) -> pa.Table:
    """`Changes.compact` with op, ts and exp in front, and in place of all names their number and the first few."""
    lists = compact.column("queries").to_pylist()
    own = compact.num_columns - 4
    names = pa.array([some(sorted(queries, key=natural), len(queries)) for queries in lists], pa.string())
    return compact.select([own, own + 1, own + 2, *range(own)]).append_column("queries", names)


def some(names: list[str], count: int) -> str:
    """`3: a, b, c` or `40: a, b, c, …`."""
    return f"{count:,}: {', '.join(names[:NAMES])}{', …' if count > NAMES else ''}"


def natural(name: str) -> tuple[int, str]:
    """u9 before u10."""
    return len(name), name


def plural(count: int, one: str, many: str = "") -> str:
    """`1 row`, `2 rows`; `many` is for plurals that are not formed by an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
