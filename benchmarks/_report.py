"""How a benchmark tells its figures: a table in the terminal, and the same as JSON in docs/benchmarks/."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent.parent / "docs" / "benchmarks"


@dataclass(frozen=True)
class Figure:
    """A claim, what was measured, and the limit it must keep (`at most` if `limit` is given)."""

    claim: str
    measured: float
    unit: str
    limit: float | None = None

    @property
    def holds(self) -> bool:
        return self.limit is None or self.measured <= self.limit


def report(name: str, figures: list[Figure]) -> bool:
    """Prints and writes the figures; whether all limits are kept."""
    table = Table(title=name)
    for heading in ("claim", "measured", "at most", ""):
        table.add_column(heading, justify="left" if heading == "claim" else "right")
    for f in figures:
        limit = "" if f.limit is None else f"{f.limit:g} {f.unit}"
        verdict = "" if f.limit is None else "ok" if f.holds else "SHORT"
        table.add_row(f.claim, f"{f.measured:.4g} {f.unit}", limit, verdict)
    Console().print(table)
    FOLDER.mkdir(parents=True, exist_ok=True)
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    data = {"machine": machine, "figures": [asdict(f) | {"holds": f.holds} for f in figures]}
    (FOLDER / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n")
    return all(f.holds for f in figures)
