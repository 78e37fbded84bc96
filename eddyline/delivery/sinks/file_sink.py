"""File sinks: folders of files in one format, each with the rows of one family or query in some micro-batches.

Each row is delivered exactly once: a file is named after its micro-batch and writer, so a repeated micro-batch replaces
its files. Committing, reading, compacting and rewinding are the same for all formats; a format encodes and decodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from eddyline.delivery.sinks.sink_kind import SinkKind
from eddyline.errors import CatalogError
from eddyline.sql.catalog import Sink

LAST = 2**63 - 1  # no micro-batch is later


class FileSink(SinkKind, ABC):
    """A file format; `suffix` is its name. Rows of a file are in the order of micro-batches."""

    options = ("path", "compact")

    def check(self, sink: Sink, options: Mapping[str, str]) -> None:
        if "path" not in options:
            raise CatalogError(f"The sink {sink.name!r} has no path.", hint="OPTIONS (path '…').")
        compact_after(sink)

    @abstractmethod
    def read(self, file: Path, after: int = -1, upto: int = LAST, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of micro-batches after one and up to another. `columns`, if given, include `batch`."""

    def columns(self, file: Path) -> object:
        """Files with equal columns can be merged."""
        return None

    @abstractmethod
    def merge(self, files: Sequence[Path], to: Path) -> None:
        """Writes the rows of files with equal columns to one file, in order."""

    @abstractmethod
    def copy_before(self, file: Path, first: int, to: Path) -> int:
        """Copies the rows of micro-batches before `first`; returns the last of these micro-batches, or -1."""


def compact_after(sink: Sink) -> int | None:
    """The number of micro-batches after which the files of a file sink are compacted; None: never."""
    option = sink.external.options.get("compact")
    if option is None:
        return None
    if not option.isdecimal() or not 0 < int(option) < 2**31:
        raise CatalogError(
            f"The sink {sink.name!r} cannot be compacted after {option!r} micro-batches.",
            hint="OPTIONS (compact '100') leaves the files of the last 100 micro-batches as they are.",
        )
    return int(option)
