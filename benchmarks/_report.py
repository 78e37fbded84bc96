"""How a benchmark tells its figures: a table in the terminal, and the same as JSON in a folder of figures.

The folder is `benchmarks/out`, or what the environment variable EDDYLINE_BENCH_OUT says: `docs/benchmarks` has the
figures that the documentation cites, and is written only by those who mean to.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

OUT = "EDDYLINE_BENCH_OUT"


def folder() -> Path:
    """Where figures go; made if it does not exist."""
    found = Path(os.environ.get(OUT) or Path(__file__).parent / "out")
    found.mkdir(parents=True, exist_ok=True)
    return found


@dataclass(frozen=True)
class Figure:
    """A claim, what was measured, and what it must keep: at most `limit`, or at least `least`, if given."""

    claim: str
    measured: float
    unit: str
    limit: float | None = None
    least: float | None = None

    @property
    def holds(self) -> bool:
        return (self.limit is None or self.measured <= self.limit) and (
            self.least is None or self.measured >= self.least
        )

    @property
    def bound(self) -> str:
        bounds = (("at most", self.limit), ("at least", self.least))
        return ", ".join(f"{word} {b:,g} {self.unit}" for word, b in bounds if b is not None)


def report(name: str, figures: list[Figure], series: Mapping[str, Any] | None = None) -> bool:
    """Prints and writes the figures, and the series behind a picture; whether all limits are kept."""
    table = Table(title=name)
    for heading in ("claim", "measured", "must be", ""):
        table.add_column(heading, justify="left" if heading == "claim" else "right")
    for f in figures:
        verdict = "" if not f.bound else "ok" if f.holds else "SHORT"
        table.add_row(f.claim, f"{f.measured:,.4g} {f.unit}", f.bound, verdict)
    Console().print(table)
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    data = {"machine": machine, "figures": [asdict(f) | {"holds": f.holds} for f in figures]}
    if series:
        data["series"] = series
    (folder() / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n")
    return all(f.holds for f in figures)
