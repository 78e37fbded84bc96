"""The figures of a running pipeline as text: a screen that is redrawn, or plain lines for logs and pipes.

`screen` and `line` are functions of the figures; a `Display` shows the figures of each micro-batch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Self

from rich import box
from rich import live as rich_live
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from eddyline.shell.printing import plural
from eddyline.spark.run.progress import BatchFigures, BatchSeconds, Totals

EVERY = 5.0  # seconds between lines, at least
QUIET = 3.0  # seconds without a micro-batch after which the screen shows it
FAMILIES = 10  # on the screen, those with the most changes first
BAR = 40  # characters
COLOURS = {"pack": "cyan", "process": "green", "state": "yellow", "sink": "magenta", "spark": "bright_black"}


class Display:
    """Shows the figures of a run. The base class shows nothing and keeps sums."""

    def __init__(self) -> None:
        self.totals = Totals()

    def say(self, what: str) -> None:
        """Sets the status."""

    def take(self, f: BatchFigures) -> None:
        """Shows a micro-batch that has ended."""
        self.totals.add(f)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Lines(Display):
    """One line for each micro-batch, or for several if they are quick."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console
        self._waiting: list[BatchFigures] = []
        self._last = -EVERY
        self._lock = threading.Lock()

    def say(self, what: str) -> None:
        if what:
            self.console.print(Text(what[0].upper() + what[1:]), soft_wrap=True)

    def take(self, f: BatchFigures) -> None:
        super().take(f)
        with self._lock:
            self._waiting.append(f)
            if time.monotonic() - self._last >= EVERY:
                self._flush()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self.say(line(self._waiting))
            self._waiting, self._last = [], time.monotonic()


class Live(Display):
    """A live screen; other output scrolls above it."""

    def __init__(self, console: Console, title: str) -> None:
        super().__init__()
        self.title = title
        self.status = ""
        self.started = time.time()
        self.latest: BatchFigures | None = None
        self._live = rich_live.Live(console=console, get_renderable=self._screen, refresh_per_second=4)

    def _screen(self) -> RenderableType:
        return screen(self.title, self.status, self.latest, self.totals, self.started, time.time())

    def say(self, what: str) -> None:
        self.status = what

    def take(self, f: BatchFigures) -> None:
        super().take(f)
        self.latest = f

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.status = ""
        self._live.stop()


# text


def line(batches: Sequence[BatchFigures]) -> str:
    """Consecutive micro-batches in one line: sums, and the state after the last."""
    first, last = batches[0], batches[-1]
    seconds = sum(f.seconds for f in batches)
    which = f"batch {last.batch}" if first is last else f"batches {first.batch}–{last.batch}"
    rows, changes = (sum(getattr(f, n) for f in batches) for n in ("rows", "changes"))
    late, bad = (sum(getattr(f, n) for f in batches) for n in ("late", "bad"))
    parts = [
        f"{which} in {duration(seconds)}",
        f"{plural(rows, 'row')} ({rate(rows, seconds)})",
        f"{plural(changes, 'change')} ({rate(changes, seconds)})",
        plural(last.queries, "query", "queries"),
        f"state {size(last.state_bytes)}",
    ]
    lag = last.lag()
    parts += [f"lag {duration(lag)}"] if lag is not None else []
    parts += [f"backlog {last.backlog:,}"] if last.backlog else []
    parts += [f"{late:,} late"] if late else []
    parts += [f"{bad:,} bad ({last.first_bad or 'see eddyline late'})"] if bad else []
    parts += [f"{last.quarantined:,} in quarantine"] if last.quarantined else []
    parts += list(dict.fromkeys(str(w) for f in batches for w in f.warnings))
    return " · ".join(parts)


def screen(
    title: str, status: str, f: BatchFigures | None, totals: Totals, started: float, now: float
) -> RenderableType:
    """All figures of the last micro-batch, and sums since the run began."""
    head = Table.grid(expand=True, padding=(0, 1))
    head.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    head.add_column(justify="right", no_wrap=True)
    if f is None:
        head.add_row(Text(title, "bold"), Text(status or f"waiting for rows · {duration(now - started)}", "dim"))
        return head
    quiet = now - f.ended
    doing = status or (f"no new rows for {duration(quiet)}" if quiet > QUIET else f"batch {f.batch:,}")
    head.add_row(Text(title, "bold"), Text(f"{doing} · running for {duration(now - started)}", "dim"))
    warnings = [Text(str(w), "yellow") for w in f.warnings]
    return Group(head, Text(), _standing(f, totals, now), *warnings, Text(), _families(f, totals))


def _standing(f: BatchFigures, totals: Totals, now: float) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(justify="right", style="bold")
    grid.add_column()
    apart = [_warning(totals.late, "late"), _warning(totals.bad, "bad")]
    grid.add_row("rows", rate(f.rows, f.seconds), _joined(f"{totals.rows:,} in all", *apart))
    grid.add_row("changes", rate(f.changes, f.seconds), f"{totals.changes:,} in all")
    out = _warning(f.quarantined, "in quarantine")
    grid.add_row("queries", f"{f.queries:,}", _joined(plural(len(f.families), "family", "families"), out))
    lag = f.lag(now)
    waiting = f"{f.backlog:,} rows wait at the sources" if f.backlog else ""
    grid.add_row("lag", "–" if lag is None else duration(lag), waiting)
    lookups = totals.cache_hits + totals.cache_misses
    hits = f"{totals.cache_hits / lookups:.0%} found in memory" if lookups else ""
    shared = f"{f.shared_rows:,} of them shared" if f.shared_rows else ""
    grid.add_row("state", size(f.state_bytes), _joined(f"{f.state_rows + f.shared_rows:,} rows", shared, hits))
    grid.add_row("batch", duration(f.seconds), bar(f.split))
    grid.add_row("", "", legend(f.split))
    return grid


def bar(split: BatchSeconds) -> Text:
    """What the time of a micro-batch was spent on, as coloured lengths."""
    share = {name: seconds / split.total if split.total else 0.0 for name, seconds in vars(split).items()}
    return Text.assemble(*(("█" * round(BAR * part), COLOURS[name]) for name, part in share.items()))


def legend(split: BatchSeconds) -> Text:
    words = [Text(f"{name.replace('spark', 'Spark')} {s:.2f}", COLOURS[name]) for name, s in vars(split).items()]
    return Text("  ").join(words)


def _families(f: BatchFigures, totals: Totals) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold cyan")
    table.add_column("family", no_wrap=True, overflow="ellipsis", max_width=40)
    for name in ("queries", "changes/s", "changes", "state rows", "quarantine"):
        table.add_column(name, justify="right", no_wrap=True)
    busiest = sorted(f.families, key=lambda n: (-totals.families.get(n, 0), -f.families[n].queries, n))
    for name in busiest[:FAMILIES]:
        of = f.families[name]
        table.add_row(
            Text(name),
            f"{of.queries:,}",
            f"{of.changes / f.seconds if f.seconds else 0:,.0f}",
            f"{totals.families.get(name, 0):,}",
            f"{of.state_rows:,}" if of.state_rows else "",
            _warning(of.quarantined, ""),
        )
    rest = len(busiest) - FAMILIES
    return Group(table, Text(f"… and {plural(rest, 'family', 'families')} more", "dim")) if rest > 0 else table


def summary(totals: Totals, seconds: float) -> str:
    what = [plural(totals.batches, "micro-batch", "micro-batches"), plural(totals.rows, "row")]
    what += [plural(totals.changes, "change")]
    what += [f"{totals.late:,} late"] if totals.late else []
    rows = totals.bad - totals.unread_files
    what += [f"{rows:,} bad"] if rows else []
    what += [plural(totals.unread_files, "file not read", "files not read")] if totals.unread_files else []
    return f"{', '.join(what)} in {duration(seconds)}."


def unread_files(totals: Totals) -> str:
    """The files that a run could not read, one in a line, and what to do about them."""
    lines = [f"{plural(totals.unread_files, 'file was', 'files were')} not read:", *(f"  {u}" for u in totals.unread)]
    rest = totals.unread_files - len(totals.unread)
    lines += [f"  … and {rest:,} more: see `eddyline late`"] if rest else []
    return "\n".join([*lines, "A file is taken once by its name: mend it and put it there under a new name."])


# formatting


def duration(seconds: float) -> str:
    """Two digits that matter: 0.04 s, 1.2 s, 3 min, 5 h, 12 d."""
    if abs(seconds) < 60:
        return f"{seconds:.2f} s" if abs(seconds) < 1 else f"{seconds:.1f} s"
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= 2 * length or unit == "min":
            return f"{seconds / length:,.0f} {unit}"
    raise AssertionError


def size(count: int) -> str:
    for unit, length in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= length:
            return f"{count / length:.1f} {unit}"
    return f"{count} B"


def rate(count: int, seconds: float) -> str:
    return f"{count / seconds if seconds else 0:,.0f}/s"


def _warning(count: int, what: str) -> Text:
    return Text(f"{count:,} {what}".strip(), "yellow") if count else Text()


def _joined(*parts: str | Text) -> Text:
    texts: Iterable[Text] = (Text(p) if isinstance(p, str) else p for p in parts)
    return Text("   ").join([t for t in texts if t])
