"""Refuses overlapping folders of sinks, sources and the checkpoint.

Two file sinks in one folder would remove each other's rows. A sink that writes into the folder of a source would feed
the pipeline its own output. A sink inside the checkpoint, or one that contains it, could damage it. Paths are compared
with all links resolved.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from eddyline.errors import CatalogError, StateError
from eddyline.spark.catalog.externals import owner_of
from eddyline.spark.input.listing import has_pattern, option_of
from eddyline.spark.output.places import file_path, local_path
from eddyline.sql.catalog import Sink, Stream, Table


def require_apart(things: Iterable[Stream | Table | Sink], checkpoint: Path, base: str) -> None:
    """Raises if two file sinks, a sink and a source, or one of them and the checkpoint, overlap.

    Relative paths begin at `base`.
    """
    places = [(t, p) for t in things if (p := _place(t, base)) is not None]
    own = Path(os.path.realpath(checkpoint))
    sinks = [(t, p) for t, p in places if isinstance(t, Sink)]
    files = [(p, i) for i, (t, p) in enumerate(sinks) if file_path(t, base)]
    for (outer, i), (inner, j) in pairwise(sorted(files, key=lambda file: file[0].parts)):
        if inner.is_relative_to(outer):  # of sorted paths, neighbours overlap if any do
            (other, _), (sink, mine) = sinks[min(i, j)], sinks[max(i, j)]
            raise CatalogError(
                f"The sinks {sink.name!r} and {other.name!r} would write to the same folder: {str(mine)!r}.",
                hint="Give each a path of its own.",
            )
    for thing, place in places:
        if _overlap(place, own):
            raise CatalogError(
                f"The path of {owner_of(thing)}, {str(place)!r}, overlaps the checkpoint {str(own)!r}.",
                hint="Give it a folder of its own.",
            )
    for source, read in ((t, p) for t, p in places if not isinstance(t, Sink)):
        for sink, written in sinks:
            if _overlap(read, written):
                raise CatalogError(
                    f"The sink {sink.name!r} would write to {str(written)!r}, where {owner_of(source)} reads"
                    f" ({str(read)!r}).",
                    hint="Give each a folder of its own. To read results again, use another pipeline.",
                )


def _place(thing: Stream | Table | Sink, base: str) -> Path | None:
    """The folder that is read or written; None if it is not on a local file system."""
    text = option_of(thing, "path")
    if not text:
        return None
    try:
        path = Path(base) / local_path(text, "path")
    except StateError:
        return None  # an address of another file system
    parts = path.parts
    fixed = next((i for i, part in enumerate(parts) if has_pattern(part)), len(parts))
    return Path(os.path.realpath(Path(*parts[:fixed])))


def _overlap(a: Path, b: Path) -> bool:
    return a.is_relative_to(b) or b.is_relative_to(a)
