"""`eddyline bench`: runs a benchmark of the source checkout, which prints a table and writes a PNG and JSON."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

from eddyline.errors import CatalogError, did_you_mean

ROOT = Path(__file__).resolve().parent.parent.parent


def benchmarks() -> dict[str, str]:
    """The benchmarks by name, and the first line of what each says of itself."""
    found = {}
    for file in sorted((ROOT / "benchmarks").glob("[a-z]*.py")):
        said = ast.get_docstring(ast.parse(file.read_text())) or ""
        found[file.stem.replace("_", "-")] = said.partition("\n")[0]
    return found


def run(name: str) -> bool:
    """Runs one benchmark; whether all its figures keep their limits."""
    known = benchmarks()
    if not known:
        raise CatalogError(
            "There are no benchmarks here.", hint="They come with the source: run this in a checkout (make setup)."
        )
    if name not in known:
        raise CatalogError(f"There is no benchmark {name!r}.", hint=did_you_mean(name, known))
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    module = importlib.import_module(f"benchmarks.{name.replace('-', '_')}")
    return bool(module.main())
