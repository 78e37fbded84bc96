"""Rules for external sources and sinks in declarations: known formats, and options that their author may use.

The operator's script and program may use every format of their Spark and every option, except that options which load a
library, a class or a command must be allowed by name. SQL that others add to a pipeline may use the formats and options
listed here, and no references to the operator's environment or files.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from eddyline.errors import CatalogError, did_you_mean, is_secret
from eddyline.spark.catalog.references import has_reference
from eddyline.spark.input.long_records import limit_of
from eddyline.spark.output.sinks import known_options
from eddyline.spark.output.sinks.kafka import CLIENT_OPTIONS
from eddyline.spark.output.sinks.spark_format import CSV_OPTIONS, TEXT_OPTIONS, XML_OPTIONS
from eddyline.spark.run.settings import write_whole
from eddyline.sql.catalog import External, Sink, Stream, Table

Author = Literal["operator", "others"]
Kind = Literal["sink", "source"]

_LONGEST = ("max_record_bytes",)
_READ = ("op", "maxfilespertrigger", "maxbytespertrigger", "latestfirst", "maxfileage", "pathglobfilter", "cleansource")

# Formats that are known without asking Spark, with the options (in lower case) that every author may use.
SOURCES: dict[str, tuple[str, ...]] = {
    "parquet": ("path", *_READ),
    "json": (*TEXT_OPTIONS, *_READ, *_LONGEST, "multiline"),
    "csv": (*CSV_OPTIONS, *_READ, *_LONGEST, "multiline", "ignoreleadingwhitespace", "ignoretrailingwhitespace"),
    "orc": ("path", *_READ),
    "xml": (*XML_OPTIONS, *_READ),
    "text": ("path", "wholetext", "linesep", *_READ, *_LONGEST),
    "kafka": ("op", "subscribe", "startingoffsets", "maxoffsetspertrigger", "failondataloss", "minpartitions",
              *CLIENT_OPTIONS),
    "rate": ("rowspersecond", "rampuptime", "numpartitions"),
}  # fmt: skip

_LOADS_CODE = re.compile(
    r"(?:^|[._-])(?:librar(?:y|ies)|plugins?|class(?:es|path)?|jars?|cmd|command|engine|providers?|reporters|driver)"
    r"(?:$|[._-])",
    re.IGNORECASE,
)


@dataclass
class Rules:
    """The author of declarations, and what they may use."""

    author: Author = "operator"
    allowed: Collection[str] = ()  # options that load code, allowed by name
    exists: Callable[[str], bool] | None = None  # whether Spark has a format; None without Spark
    own: Path | None = None  # Eddyline's folder in the checkpoint, with the list of formats that Spark confirmed
    _confirmed: set[str] = field(default_factory=set)

    def check(self, thing: Stream | Table | Sink) -> None:
        """Raises if a declaration uses an unknown format, or something that its author may not use."""
        if thing.external is None:
            return
        kind: Kind = "sink" if isinstance(thing, Sink) else "source"
        owner = owner_of(thing)
        self._check_format(thing.external.format, kind, owner)
        self.check_options(thing.external, owner)
        if not isinstance(thing, Sink):
            limit_of(thing)
        if self.author == "others":
            self._check_author(thing.external, kind, owner)

    def check_options(self, external: External, owner: str) -> None:
        """Raises for options that must be allowed by name, given twice, or refer to secrets in a path."""
        twice = [n for n, times in Counter(n.lower() for n in external.options).items() if times > 1]
        if twice:  # Spark takes one of them
            raise CatalogError(f"Option {twice[0]!r} of {owner} is given twice.", hint="Give every option once.")
        for name, value in external.options.items():
            if _LOADS_CODE.search(name) and name.lower() not in {a.lower() for a in self.allowed}:
                raise CatalogError(
                    f"Option {name!r} of {owner} loads code into the pipeline.",
                    hint=f"If that is meant: eddyline run --allow-option {name}"
                    f" (Pipeline(…, allow_options=[{name!r}])). SQL that is added to a pipeline cannot have it.",
                )
            if name.lower() == "path" and has_reference(value):
                raise CatalogError(
                    f"The path of {owner} has a reference.", hint="References are for secrets: write the path out."
                )

    def _check_format(self, format_: str, kind: Kind, owner: str) -> None:
        known = _known(kind)
        name = format_.lower()
        if name in known or name in self._confirmed:
            return
        if self.exists is not None:
            if not self.exists(format_):
                raise CatalogError(f"Spark has no format {format_!r} for {owner}.", hint=did_you_mean(format_, known))
            self._confirmed.add(name)
            if self.own is not None:
                note_format(self.own, name)
        elif self.author == "others" and name not in (noted_formats(self.own) if self.own is not None else ()):
            raise CatalogError(
                f"There is no format {format_!r} for {owner}, as far as is known without Spark.",
                hint=f"{did_you_mean(format_, known)} Others can be declared in the pipeline's script.",
            )

    def _check_author(self, external: External, kind: Kind, owner: str) -> None:
        known = _known(kind).get(external.format.lower(), ("path",))
        for name, value in external.options.items():
            if name.lower() not in known:
                raise CatalogError(
                    f"Option {name!r} of {owner} cannot be given here.",
                    hint=f"{did_you_mean(name, known)} Declare it in the pipeline's script if it needs more.",
                )
            if has_reference(value):
                raise CatalogError(
                    f"Option {name!r} of {owner} refers to the environment or a file of whoever runs the pipeline.",
                    hint="Only the pipeline's script and program may do so.",
                )


def _known(kind: Kind) -> Mapping[str, tuple[str, ...]]:
    return known_options() if kind == "sink" else SOURCES


def literal_secrets(thing: Stream | Table | Sink) -> list[str]:
    """The options of a declaration that contain a secret in clear text."""
    given = {} if thing.external is None else thing.external.options
    return [name for name, value in given.items() if is_secret(name) and value and not has_reference(value)]


def owner_of(thing: Stream | Table | Sink) -> str:
    kind = {Stream: "stream", Table: "table", Sink: "sink"}[type(thing)]
    return f"the {kind} {thing.name!r}"


def noted_formats(own: Path) -> list[str]:
    """Formats that the pipeline's Spark has confirmed and that are not listed here."""
    try:
        return [str(name) for name in json.loads((own / "formats.json").read_text())]
    except (OSError, ValueError, TypeError):
        return []


def note_format(own: Path, name: str) -> None:
    before = noted_formats(own)
    if name not in before:
        write_whole(own / "formats.json", json.dumps(sorted([*before, name])))
