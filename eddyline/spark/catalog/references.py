"""References in OPTIONS: `${env:NAME}` and `${file:PATH}` stand for a secret that the catalog never holds.

The driver resolves them when it opens a source or sink. The catalog that is stored, shown and sent to executors has
only the reference. Only the operator's script and program may use references: in SQL of other authors they could send
the operator's secrets to a sink of the author's choice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from eddyline.errors import CatalogError

_REFERENCE = re.compile(r"\$\{(env|file):([^}]*)\}")


def has_reference(value: str) -> bool:
    return _REFERENCE.search(value) is not None


def resolved(options: Mapping[str, str], owner: str) -> dict[str, str]:
    """Options with every reference replaced; `owner` is named in errors, as in "the sink 'out'"."""
    return {name: _REFERENCE.sub(partial(_value, option=name, owner=owner), value) for name, value in options.items()}


def _value(reference: re.Match[str], option: str, owner: str) -> str:
    kind, name = reference.groups()
    if kind == "env":
        value = os.environ.get(name)
        if value is None:
            raise CatalogError(
                f"Option {option!r} of {owner} needs the environment variable {name!r}, which is not set.",
                hint="Set it where the pipeline is started.",
            )
        return value
    try:
        return Path(name).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as e:
        why = e.strerror if isinstance(e, OSError) else "it is not text in UTF-8"
        raise CatalogError(
            f"Option {option!r} of {owner} needs the file {name!r}, which cannot be read: {why}.",
            hint="Put the value there, readable for whoever starts the pipeline.",
        ) from None
