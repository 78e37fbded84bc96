"""`eddyline bench`: runs a benchmark of the source checkout, which prints a table and writes a PNG and JSON.

Figures go to `benchmarks/out`, which is not tracked; those under docs/benchmarks are rewritten only when asked for.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
from pathlib import Path

from eddyline.errors import CatalogError, DataError, did_you_mean

OUT = "EDDYLINE_BENCH_OUT"  # where benchmarks write their figures
ROOT = Path(__file__).resolve().parent.parent.parent


def benchmarks() -> dict[str, str]:
    """The benchmarks by name, with the first line of their docstrings."""
    benchmarks = {}
    for file in sorted((ROOT / "benchmarks").glob("[a-z]*.py")):
        docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
        benchmarks[file.stem.replace("_", "-")] = docstring.partition("\n")[0]
    return benchmarks


def run(name: str, out: Path | None = None, update_docs: bool = False) -> bool:
    """Runs one benchmark, which writes its figures to `out`; returns whether all are within their limits."""
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
    folder = ROOT / "docs" / "benchmarks" if update_docs else (out or ROOT / "benchmarks" / "out").absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise DataError(
            f"The figures cannot be written to {str(folder)!r}: {e.strerror}.", hint="Name another folder with --out."
        ) from None
    before = os.environ.get(OUT)
    os.environ[OUT] = str(folder)  # inherited by the processes that benchmarks start
    try:
        held = bool(module.main())
    finally:
        os.environ.pop(OUT)
        if before is not None:
            os.environ[OUT] = before
    print(f"The figures are in {folder}.")
    return held
