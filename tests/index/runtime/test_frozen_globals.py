"""Numba freezes the globals that a kernel reads into its cached code, so no test may patch one of them."""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import eddyline.index

TESTS = Path(__file__).parents[2]


def patched_constants() -> set[tuple[str, str]]:
    """(module of the index, name) that tests patch; all constants of a module where the name is computed."""
    patched = set()
    for path in TESTS.rglob("*.py"):
        tree = ast.parse(path.read_text())
        modules = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("eddyline.index")
            for alias in node.names
        }
        for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call) and len(n.args) == 3):
            target = call.args[0].id if isinstance(call.args[0], ast.Name) else ""
            if isinstance(call.func, ast.Attribute) and call.func.attr == "setattr" and target in modules:
                name = call.args[1]
                names = [str(name.value)] if isinstance(name, ast.Constant) else vars(import_module(modules[target]))
                patched |= {(modules[target], n) for n in names}
    return patched


def kernel_globals() -> Iterator[tuple[str, str]]:
    """(module, name) of the globals that kernels read."""
    for found in pkgutil.walk_packages(eddyline.index.__path__, "eddyline.index."):
        module = import_module(found.name)
        for value in vars(module).values():
            if hasattr(value, "py_func"):
                yield from ((value.py_func.__module__, name) for name in value.py_func.__code__.co_names)


def test_no_kernel_reads_a_constant_that_a_test_patches() -> None:
    patched = patched_constants()
    assert ("eddyline.index.filters.domains", "MOST_CUTS") in patched
    read = set(kernel_globals())
    assert ("eddyline.index.runtime.row_sets", "SHORT") in read
    assert not patched & read
