"""Compiled kernels are kept in a folder of the user, and where none can be written they work all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eddyline.index.runtime import kernel_cache

CODE = """
import numpy as np
from eddyline.index.keys.sorted_runs import spread
spread(np.array([0]), np.array([1]))
print(sum(spread.stats.cache_hits.values()), sum(spread.stats.cache_misses.values()))
"""


def hits_and_misses(**environ: str) -> str:
    done = subprocess.run([sys.executable, "-c", CODE], env={**os.environ, **environ}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "NUMBA_CACHE_DIR"])
def test_a_kernel_is_compiled_once_and_then_loaded(tmp_path: Path, variable: str) -> None:
    environ = {variable: str(tmp_path)}
    assert [hits_and_misses(**environ), hits_and_misses(**environ)] == ["0 1", "1 0"]
    (folder,) = tmp_path.rglob(kernel_cache.digest())
    assert {f.suffix for f in folder.iterdir()} == {".nbc"}


def test_kernels_of_another_package_have_a_folder_that_changes_with_its_files_and_with_those_of_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, package = tmp_path / "index", tmp_path / "package"
    for folder in (index, package):
        folder.mkdir()
        (folder / "a.py").write_text("before")
    monkeypatch.setattr(kernel_cache, "INDEX", index)
    digest = kernel_cache.digest.__wrapped__
    seen = [(digest(index), digest(package))]
    for folder in (package, index):
        (folder / "a.py").write_text("after")
        seen.append((digest(index), digest(package)))
    (first, own), (same, changed), (other, changed_again) = seen
    assert first == same != other and len({first, other, own, changed, changed_again}) == 5


def test_a_kernel_works_where_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert hits_and_misses(NUMBA_CACHE_DIR=str(tmp_path / "file")) == "0 1"


def test_a_kernel_lies_in_the_folder_of_its_own_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "kernel_folder", lambda package=kernel_cache.INDEX: tmp_path / package.name)
    folders = [
        kernel_cache._KernelLocator(f, f.__code__.co_filename)._cache_path
        for f in (kernel_cache.digest.__wrapped__, hits_and_misses)
    ]
    assert folders == [str(tmp_path / "index"), str(tmp_path / "runtime")]


def test_there_is_no_cache_folder_below_what_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert kernel_cache.cache_folder() is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new"))
    assert kernel_cache.cache_folder() == tmp_path / "new" / "eddyline"


def test_processes_that_compile_a_kernel_at_once_do_not_exchange_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_cache, "kernel_folder", lambda *_: tmp_path)
    one, other = (kernel_cache._KernelCache(hits_and_misses)._cache_file for _ in range(2))
    known = {file: file._load_index() for file in (one, other)}  # before either has saved anything
    saved = type(one)._save_data

    def save_the_other_first(name: str, data: object) -> None:
        other.save("signature of the other", "code of the other")
        saved(one, name, data)

    monkeypatch.setattr(one, "_load_index", lambda: known[one])
    monkeypatch.setattr(other, "_load_index", lambda: known[other])
    monkeypatch.setattr(one, "_save_data", save_the_other_first)
    one.save("signature of the one", "code of the one")
    monkeypatch.undo()
    assert one.load("signature of the other") == "code of the other"
    assert other.load("signature of the one") in ("code of the one", None)


def test_processes_name_the_functions_in_their_kernels_differently(tmp_path: Path) -> None:
    code = CODE.replace("print(", "print(*[kept.fndesc.uid for kept in spread.overloads.values()], ")
    symbols = []
    for folder in ("one", "other"):
        environ = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / folder)}
        done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True)
        symbols.append(done.stdout.split()[0])
    assert symbols[0] != symbols[1]
