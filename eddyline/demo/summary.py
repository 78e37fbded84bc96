"""The summary of the demo: throughput, times, and some alerts as they are in the sink."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eddyline.commands.display import duration, size
from eddyline.demo.record import Record

WIDTH = 110
HEAD = ("query", "op", "ts", "exp", "batch", "position")  # the sink's own columns


def summary(record: Record, sink: Path) -> str:
    first, last = record.batches[0], record.batches[-1]
    rows, changes, late = (sum(getattr(f, n) for f in record.batches) for n in ("rows", "changes", "late"))
    took = last.ended - min(w.at for files in record.written.values() for w in files)
    lookups = sum(f.cache_hits + f.cache_misses for f in record.batches)
    hits = sum(f.cache_hits for f in record.batches)
    steady = record.batches[1:] or record.batches
    seconds = [f.seconds for f in steady]
    began = (record.first_results or last.ended) - record.begun
    lines = [
        ("first results after", f"{began:.1f} s, of which registering the alerts took {duration(record.registering)}"),
        ("rows", f"{rows:,} in {duration(took)} ({rows / took:,.0f}/s), {late:,} of them late"),
        ("changes", f"{changes:,} ({changes / took:,.0f}/s)"),
        ("alerts", f"{last.queries:,} at the end; {record.added:,} added and {record.dropped:,} dropped on the way"),
        ("latency", latency(record)),
        ("micro-batches", f"{len(record.batches)}; median {duration(float(np.median(seconds)))}, "
         f"slowest {duration(max(seconds))}, the first {duration(first.seconds)}"),
        ("state", f"{size(last.state_bytes)}, {last.state_rows + last.shared_rows:,} rows; "
         f"{hits / lookups if lookups else 0:.0%} of {lookups:,} buckets found in memory"),
    ]  # fmt: skip
    width = max(len(name) for name, _ in lines)
    text = "\n".join(f"{name:<{width}}  {what}" for name, what in lines)
    return f"\n{text}\n\n{families(record, sink)}"


def latency(record: Record) -> str:
    p50, p90, p99 = np.percentile(np.concatenate(record.latencies()), [50, 90, 99])
    return f"p50 {p50:.2f} s, p90 {p90:.2f} s, p99 {p99:.2f} s, from row written to micro-batch delivered"


def families(record: Record, sink: Path) -> str:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("family")
    table.add_column("alerts", justify="right")
    table.add_column("changes", justify="right")
    table.add_column("one of them, from the sink", no_wrap=True, overflow="ellipsis")
    counts = record.changes()
    for name, of in record.batches[-1].families.items():
        table.add_row(name, f"{of.queries:,}", f"{counts[name]:,}", Text(example(sink / name)))
    output = io.StringIO()
    Console(file=output, width=WIDTH, highlight=False).print(table)
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines())


def example(folder: Path) -> str:
    """The last row that was added to an answer of a family, as it is in the sink."""
    for file in sorted(folder.glob("part-*.parquet"), reverse=True):
        rows: pa.Table = pq.read_table(file)
        entered = rows.filter(pc.equal(rows.column("op"), "+"))
        if entered.num_rows:
            return shown(entered.slice(entered.num_rows - 1).to_pylist()[0])
    return ""


def shown(row: Mapping[str, Any]) -> str:
    own = ", ".join(f"{name} {value(v)}" for name, v in row.items() if name not in HEAD)
    return f"{row['query']} {row['op']} {value(row['ts'])}: {own}"


def value(v: Any) -> str:
    if isinstance(v, datetime):
        return f"{v:%H:%M:%S}"
    return f"{v:.2f}" if isinstance(v, float) else str(v)
