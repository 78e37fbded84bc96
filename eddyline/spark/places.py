"""Places: where checkpoints and sinks are on the file system, and that each sink has its own.

A file sink marks its folder with `_eddyline.json`: the format of what it writes, and whose it is. Committing a
micro-batch removes what an earlier attempt has left of it, so two that wrote to one folder would remove each other's
rows: whoever finds another's mark does not start.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from eddyline.errors import CatalogError, StateError
from eddyline.spark.blocks import digest
from eddyline.spark.settings import Settings, write_whole
from eddyline.sql.catalog import Sink

FORMAT = 1  # of what sinks write
FILES = ("parquet", "json")  # sinks that are folders of files, with a path of their own
MARK = "_eddyline.json"
_LONGEST = 200  # bytes of a folder's name; file systems take 255
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")


def local_path(text: str | Path, what: str) -> Path:
    """A path of this machine's file system, from a path or a file: address."""
    given = str(text)
    scheme = _SCHEME.match(given)
    if scheme is None:
        return Path(given)
    if scheme[1].lower() != "file":
        raise StateError(
            f"The {what} {given!r} is not on a file system.",
            hint="Mount it where the driver and all executors see it, and give that path.",
        )
    return Path("/" + given[scheme.end() :].lstrip("/"))


def place_of(sink: Sink, settings: Settings) -> Path:
    """Where the files of a sink are: its own path, or one beside the checkpoint for what goes on from there."""
    is_file = sink.external.format.lower() in FILES
    return _path(sink, settings.base) if is_file else settings.own / "sinks" / folder_name(sink.name)


def folder_name(name: str) -> str:
    """A name as that of one folder that readers of data do not pass over: nothing in it leads elsewhere."""
    plain = re.sub(r"[\x00-\x1f/\\:%]", lambda m: quote(m[0], safe=""), name)
    plain = f"%{ord(plain[0]):02X}{plain[1:]}" if plain[:1] in (".", "_") else plain
    if len(plain.encode()) > _LONGEST:
        return f"{plain.encode()[: _LONGEST - 40].decode(errors='ignore')}%{digest(name.encode())}"
    return plain


def require_own_path(sink: Sink, others: Iterable[Sink], base: str) -> None:
    """Raises if a sink writes into the folder of another, or around it; relative paths begin at `base`."""
    mine = _written(sink, base)
    for other in others:
        theirs = _written(other, base)
        if mine is not None and theirs is not None and (mine.is_relative_to(theirs) or theirs.is_relative_to(mine)):
            raise CatalogError(
                f"The sinks {sink.name!r} and {other.name!r} would write to the same folder: {str(mine)!r}.",
                hint="Give each a path of its own.",
            )


def _written(sink: Sink, base: str) -> Path | None:
    if sink.external.format.lower() not in FILES or "path" not in sink.external.options:
        return None
    return Path(os.path.normpath(_path(sink, base)))


def _path(sink: Sink, base: str) -> Path:
    return Path(base) / local_path(sink.external.options["path"], f"path of sink {sink.name!r}")


def require_usable_path(sink: Sink, pipeline: Path) -> None:
    """Raises if a file sink, declared for a pipeline, could not be written or would mix with the rows of another.

    Where a relative path begins only the run knows.
    """
    place = _written(sink, "")
    if place is None or not place.is_absolute():
        return
    there = next(p for p in (place, *place.parents) if p.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise CatalogError(
            f"The sink {sink.name!r} cannot write to {str(place)!r}.", hint="Give it a path that can be written."
        )
    mark, mine = place / MARK, json.loads(pipeline.read_text()) if pipeline.exists() else {}
    if mark.exists() and "identity" in mine:
        _require_same(sink, place, json.loads(mark.read_text()), mine["identity"])


def claim(sink: Sink, settings: Settings) -> None:
    """Marks the folder of a file sink as its own; raises if it is another's, or cannot be written."""
    if sink.external.format.lower() not in FILES:
        return
    place = place_of(sink, settings)
    file = place / MARK
    mine = {"format": FORMAT, "sink": sink.name, "checkpoint": settings.checkpoint, "identity": settings.identity}
    try:
        if not file.exists() or not any(place.rglob("part-*")):
            write_whole(file, json.dumps(mine))
        _require_same(sink, place, json.loads(file.read_text()), settings.identity)
    except OSError as e:
        raise StateError(
            f"The sink {sink.name!r} cannot write to {str(place)!r}: {e.strerror}.", hint="Mend that, or its path."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise StateError(f"{str(file)!r} is damaged.", hint="Restore it, or use another path.") from None


def _require_same(sink: Sink, place: Path, mark: Mapping[str, Any], identity: str) -> None:
    has = f"The folder {str(place)!r} of sink {sink.name!r} has rows"
    if mark["format"] != FORMAT:
        raise StateError(
            f"{has} of format {mark['format']}, this version writes {FORMAT}.",
            hint="Use the version of Eddyline that wrote them, or another path.",
        )
    if mark["identity"] != identity and any(place.rglob("part-*")):
        raise StateError(
            f"{has} of another run, with the checkpoint {mark['checkpoint']!r}.",
            hint="Go on with that checkpoint, or use another path, or remove the folder if nobody needs its rows.",
        )
