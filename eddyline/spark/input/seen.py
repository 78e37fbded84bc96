"""Minimum and maximum of every numeric column of the streams so far, kept in the checkpoint.

Packers report them, the driver writes them, and `catalog/splitting.py` compares the width of bands with them. The
ranges only grow, so that a replayed micro-batch changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline import types as t
from eddyline.spark.run.settings import write_whole
from eddyline.sql.bound import Field

Spans = dict[str, tuple[float, float]]  # (minimum, maximum) by column, in lower case


def spans(fields: Sequence[Field], columns: Sequence[pa.Array]) -> Spans:
    """The spans of the numeric columns whose values are finite."""
    spans_by_column = {}
    for f, column in zip(fields, columns, strict=True):
        if t.is_integer(f.type) or t.is_float(f.type):
            ends = pc.min_max(column).as_py()
            if ends["min"] is not None and np.isfinite([ends["min"], ends["max"]]).all():
                spans_by_column[f.name.lower()] = float(ends["min"]), float(ends["max"])
    return spans_by_column


def joined(a: Mapping[str, Sequence[float]], b: Mapping[str, Sequence[float]]) -> Spans:
    both = {c: [*a.get(c, ()), *b.get(c, ())] for c in (*a, *b)}
    return {c: (min(ends), max(ends)) for c, ends in both.items()}


@dataclass
class Seen:
    buckets: int  # of the pipeline
    streams: dict[str, Spans] = field(default_factory=dict)

    def take(self, packed: Sequence[Mapping[str, Any]], file: Path) -> None:
        """Adds the reports of a micro-batch's partitions, and writes the file if a span has grown."""
        before = dict(self.streams)
        for p in packed:
            if p["spans"]:
                name = p["relation"].lower()
                self.streams[name] = joined(self.streams.get(name, {}), p["spans"])
        if self.streams != before:
            content = json.dumps({"buckets": self.buckets, "streams": self.streams})
            write_whole(file, content, "none")  # not synced: the file may be lost


def seen_file(own: Path) -> Path:
    return own / "seen.json"


def read_seen(file: Path) -> Seen | None:
    """None if there is no file yet, or it cannot be read: it is optional."""
    try:
        content = json.loads(file.read_text())
        streams = {s: {c: (float(a), float(b)) for c, (a, b) in of.items()} for s, of in content["streams"].items()}
        return Seen(int(content["buckets"]), streams)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
