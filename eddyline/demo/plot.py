"""The plot of the demo: throughput, the parts of micro-batch time, latency, and registered and dropped alerts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from eddyline.arrays import Doubles
from eddyline.demo.record import Record

PARTS = {"pack": "#17becf", "process": "#2ca02c", "state": "#e6b800", "sink": "#c44fc4", "spark": "#c0c0c0"}
ROWS, CHANGES, SLOW = "#1f77b4", "#ff7f0e", "#d62728"


def plot(record: Record, file: Path) -> None:
    figure = Figure(figsize=(11, 12), layout="constrained")
    FigureCanvasAgg(figure)
    flow, time, wait, alerts = figure.subplots(4, 1, sharex=True)
    ended = np.array([f.ended - record.begun for f in record.batches])
    _flow(flow, record, ended)
    _time(time, record, ended)
    _wait(wait, record, ended)
    _alerts(alerts, record, ended)
    alerts.set_xlabel("seconds since the command was given")
    for axes in (flow, time, wait, alerts):
        axes.grid(True, color="#e6e6e6")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    last = record.batches[-1]
    figure.suptitle(f"{last.queries:,} alerts over trades and quotes, one pipeline on Spark", fontsize=14)
    figure.savefig(file, dpi=110)


def _flow(axes: Axes, record: Record, ended: Doubles) -> None:
    """The rows and changes of each micro-batch, divided by the time since the end of the one before."""
    if len(ended) > 1:
        gaps = np.diff(ended)
        for what, colour in (("rows", ROWS), ("changes", CHANGES)):
            counts = np.array([getattr(f, what) for f in record.batches[1:]])
            axes.plot(ended[1:], counts / gaps, color=colour, marker=".", label=what)
        _legend(axes)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
    axes.set_ylabel("per second")
    axes.set_title("Rows in and changes out", loc="left")


def _time(axes: Axes, record: Record, ended: Doubles) -> None:
    """Stacked: the parts of each micro-batch's time. The first, which warms up, may reach beyond the top."""
    seconds = np.array([f.seconds for f in record.batches])
    width = np.minimum(seconds, np.diff(ended, prepend=0.0)) * 0.9
    bottom = np.zeros(len(ended))
    for name, colour in PARTS.items():
        part = np.array([getattr(f.split, name) for f in record.batches])
        label = "Spark: planning, scheduling, shuffling" if name == "spark" else name
        axes.bar(ended, part, -width, bottom, align="edge", color=colour, label=label)
        bottom += part
    steady = seconds[1:] if len(seconds) > 1 else seconds
    top = 1.35 * float(steady.max())
    axes.set_ylim(0, top)
    for at, length in zip(ended, seconds, strict=True):
        if length > top:
            axes.annotate(f"{length:.1f} s", (at, top), xytext=(3, -12), textcoords="offset points", fontsize=9)
    axes.set_ylabel("seconds")
    axes.set_title("Time of each micro-batch", loc="left")
    _legend(axes)


def _wait(axes: Axes, record: Record, ended: Doubles) -> None:
    waits = [(at, w) for at, w in zip(ended, record.latencies(), strict=True) if len(w)]
    times = [at for at, _ in waits]
    axes.plot(times, [w.max() for _, w in waits], color=SLOW, marker=".", label="longest")
    axes.plot(times, [np.median(w) for _, w in waits], color=ROWS, marker=".", label="median")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("seconds")
    axes.set_title("From row written to micro-batch delivered", loc="left")
    _legend(axes)


def _alerts(axes: Axes, record: Record, ended: Doubles) -> None:
    axes.plot(ended, [f.queries for f in record.batches], color=ROWS, label="registered")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
    axes.set_ylabel("registered", color=ROWS)
    axes.set_title("Alerts", loc="left")
    if record.churn:
        right = axes.twinx()
        times = [c.at - record.begun for c in record.churn]
        right.plot(times, np.cumsum([c.added for c in record.churn]), color="#2ca02c", label="added since the start")
        right.plot(times, np.cumsum([c.dropped for c in record.churn]), color=SLOW, label="dropped since the start")
        right.set_ylim(bottom=0)
        right.set_ylabel("added and dropped")
        right.spines["top"].set_visible(False)
        right.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}"))
        _legend(axes, [*axes.lines, *right.lines])


def _legend(axes: Axes, lines: Sequence[Line2D] | None = None) -> None:
    """Places the legend in one row above the axes."""
    handles = axes.get_legend_handles_labels()[0] if lines is None else lines
    labels = [str(h.get_label()) for h in handles]
    above = (1.0, 0.99)
    axes.legend(handles, labels, loc="lower right", bbox_to_anchor=above, frameon=False, ncols=len(labels), fontsize=9)
