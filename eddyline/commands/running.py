"""`eddyline run`: starts Spark and a pipeline, shows its progress, and stops it in order.

After the first Ctrl-C or SIGTERM, the current micro-batch completes; the second one stops at once. Problems that can be
detected without Spark are reported before it is started.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Literal

from rich.console import Console

from eddyline.commands.before_spark import check
from eddyline.commands.display import Display, Lines, Live, summary, unread_files
from eddyline.errors import Error
from eddyline.shell.printing import WIDE, Printer
from eddyline.spark.run.checkpoint import Alone, folder_of
from eddyline.spark.run.disk import require_space, unforeseen

if TYPE_CHECKING:
    from eddyline.spark.run.pipeline import Pipeline
    from eddyline.spark.run.pipeline_run import PipelineRun

Prepare = Callable[["Pipeline", Display, "StopSignals"], None]

LOOK = 0.2  # seconds between polls of the run
UNREAD = 3  # the exit code of a successful run with unreadable files
INTERRUPTED = 130  # the exit code after Ctrl-C, as in shells


@dataclass(frozen=True)
class Options:
    script: Path
    checkpoint: Path
    runs: Literal["on", "once"] = "on"  # until stopped, or until the available input is processed
    master: str | None = None
    trigger: str | None = None
    buckets: int | None = None
    clock: Literal["min", "max"] | None = None
    on_bad_rows: Literal["set apart", "stop"] = "set apart"
    on_error: Literal["quarantine", "null"] = "quarantine"
    unapproved: Literal["refuse", "approve"] = "refuse"  # for functions that the user has not approved
    allowed: Sequence[str] = ()  # options of sources and sinks that load code
    metrics: tuple[str, int] | None = None  # address and port
    conf: Mapping[str, str] = field(default_factory=dict)  # of Spark
    shows: Literal["progress", "nothing"] = "progress"
    logs: Literal["quiet", "all"] = "quiet"
    durability: Literal["fsync", "none"] = "fsync"
    dead_letter_limit: int | None = None  # bytes


def run(options: Options, prepare: Prepare | None = None) -> int:
    """Runs a pipeline to its end; returns the exit code. `prepare` is called right before the pipeline starts."""
    started = time.time()
    display = _display(options)
    signals = StopSignals(display)
    try:
        check(options.script, folder_of(options.checkpoint), options.allowed)
        with Alone(folder_of(options.checkpoint)), display:
            require_space(folder_of(options.checkpoint))
            _run(options, display, signals, prepare)
    except (Error, OSError) as e:
        _tell(unforeseen(e) if isinstance(e, OSError) else e, options)
        return 1
    if options.shows == "progress":
        word = "Done" if options.runs == "once" else "Stopped"
        print(f"{word}: {summary(display.totals, time.time() - started)}", flush=True)
    if display.totals.unread_files:
        print(unread_files(display.totals), file=sys.stderr, flush=True)
    return INTERRUPTED if signals.at_once.is_set() else UNREAD if display.totals.unread_files else 0


def _run(options: Options, display: Display, signals: StopSignals, prepare: Prepare | None) -> None:
    display.say("starting Spark …")
    from eddyline.spark.run.pipeline import Pipeline
    from eddyline.spark.run.spark_errors import as_our_errors
    from eddyline.spark.run.spark_session import is_local, session, start_workers, stop

    signals.listen()
    with as_our_errors():
        spark = session(options.master, f"eddyline {options.script.name}", logs=options.logs, conf=options.conf)
        signals.listen()  # Spark's session has replaced the handler
        master = spark.conf.get("spark.master") or ""
        if is_local(master):
            start_workers(spark, master)
        try:
            pipe = Pipeline(
                spark,
                options.script,
                options.checkpoint,
                buckets=options.buckets,
                clock=options.clock,
                on_bad_rows=options.on_bad_rows,
                on_error=options.on_error,
                durability=options.durability,
                dead_letter_limit=options.dead_letter_limit,
                allow_functions=options.unapproved == "approve",
                allow_options=options.allowed,
            )
            removed = len(pipe.catalog.dropped_from_script)
            if removed:
                print(f"{removed} statements of the checkpoint are no longer in the script. What they declared stays.")
            pipe.listen(display.take)
            if options.metrics is not None:
                address, port = options.metrics
                print(f"Metrics at http://{address}:{pipe.serve_metrics(port, address)}/metrics", flush=True)
            if prepare is not None:
                prepare(pipe, display, signals)
            display.say("starting the pipeline …")
            _watch(pipe.start(options.runs == "once", options.trigger), signals, display)
        finally:
            stop(spark)


def _watch(run: PipelineRun, signals: StopSignals, display: Display) -> None:
    """Waits until the run ends, or is stopped by a signal."""
    display.say("")
    signals.running = True
    while run.isActive and not signals.once.wait(LOOK):
        pass
    if run.isActive:
        display.say("stopping after this micro-batch; Ctrl-C stops at once")
        run.finish(signals.at_once)
    run.figures()  # of the last micro-batch, if Spark has not reported it yet
    failure = run.error()
    if failure is not None:
        raise failure


class StopSignals:
    """The handler of Ctrl-C and SIGTERM: the first stops in order, the second at once, the third exits without Spark.

    It raises nothing, because that would interrupt a call to Spark.
    """

    def __init__(self, display: Display) -> None:
        self.display = display
        self.running = False
        self.once = threading.Event()
        self.at_once = threading.Event()

    def listen(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.running and not self.at_once.is_set():
            (self.at_once if self.once.is_set() else self.once).set()
            return
        self.display.__exit__()  # restores the terminal
        sys.stdout.flush()
        os._exit(INTERRUPTED)  # Spark exits with the process that started it


# on the screen


def _display(options: Options) -> Display:
    if options.shows == "nothing":
        return Display()
    if sys.stdout.isatty():
        return Live(Console(highlight=False), f"{options.script} → {options.checkpoint}")
    return Lines(Console(highlight=False, width=WIDE))


def _tell(error: Error, options: Options) -> None:
    where = "" if error.place is None else f" in {options.script.name}, line {error.place[0]}"
    if options.logs == "all" and error.__cause__ is not None:
        print(error.__cause__, file=sys.stderr)
    Printer.plain(0).error(error, where)
