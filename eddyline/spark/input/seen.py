"""What was seen of the streams' numbers: the least and the greatest of every column, kept beside the checkpoint.

Packers report it, the driver writes it, and whoever registers queries may judge by it how wide a band is. It only
grows, so that a micro-batch which is done again changes nothing.
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

Spans = dict[str, tuple[float, float]]  # by column, in lower case: the least and the greatest number


def spans(fields: Sequence[Field], columns: Sequence[pa.Array]) -> Spans:
    """Of the columns that are finite numbers."""
    found = {}
    for f, column in zip(fields, columns, strict=True):
        if t.is_integer(f.type) or t.is_float(f.type):
            ends = pc.min_max(column).as_py()
            if ends["min"] is not None and np.isfinite([ends["min"], ends["max"]]).all():
                found[f.name.lower()] = float(ends["min"]), float(ends["max"])
    return found


def joined(a: Mapping[str, Sequence[float]], b: Mapping[str, Sequence[float]]) -> Spans:
    both = {c: [*a.get(c, ()), *b.get(c, ())] for c in (*a, *b)}
    return {c: (min(ends), max(ends)) for c, ends in both.items()}


@dataclass
class Seen:
    buckets: int  # of the pipeline
    streams: dict[str, Spans] = field(default_factory=dict)

    def take(self, packed: Sequence[Mapping[str, Any]], file: Path) -> None:
        """Takes up what the partitions of a micro-batch report."""
        before = dict(self.streams)
        for p in packed:
            if p["spans"]:
                name = p["relation"].lower()
                self.streams[name] = joined(self.streams.get(name, {}), p["spans"])
        if self.streams != before:
            said = json.dumps({"buckets": self.buckets, "streams": self.streams})
            write_whole(file, said, "none")  # it may be lost


def seen_file(own: Path) -> Path:
    return own / "seen.json"


def read_seen(file: Path) -> Seen | None:
    """None if nothing was seen yet, or what was cannot be read: it is of use and not needed."""
    try:
        said = json.loads(file.read_text())
        streams = {s: {c: (float(a), float(b)) for c, (a, b) in of.items()} for s, of in said["streams"].items()}
        return Seen(int(said["buckets"]), streams)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
