"""Every benchmark can be imported: what it calls still exists under that name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = sorted(f.stem for f in (Path(__file__).parents[2] / "benchmarks").glob("*.py") if f.stem != "__init__")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_finds_what_it_imports(name: str) -> None:
    import_module(f"benchmarks.{name}")
