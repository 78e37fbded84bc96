"""Warming: its workloads ask for every kernel that others ask for, and only what is long unused is removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eddyline.commands import warming
from tests.cli.conftest import ROOT, Run

KERNELS = """
import sys

def kernels():
    "The kernels that were called, each with the types it was called with."
    from numba.core.dispatcher import Dispatcher
    modules = [m for name, m in sys.modules.items() if name.startswith("eddyline.")]
    known = {d for m in modules for d in vars(m).values() if isinstance(d, Dispatcher)}
    return sorted({f"{d.py_func.__module__}.{d.py_func.__name__} {types}" for d in known for types in d.overloads})
"""
WARM = f"""{KERNELS}
from eddyline.commands.workloads import WORKLOADS, route, run
for workload in WORKLOADS:
    run(*workload)
route()
print(*kernels(), sep="\\n")
"""
TYPICAL = f"""{KERNELS}
import io
from pathlib import Path
import eddyline
from eddyline.demo.in_process import play
from eddyline.shell.printing import Printer
from eddyline.shell.interpreter import Interpreter
list(play(eddyline.connect(), 3000, 4000, 600.0, 1))
for example in Path("examples").glob("*.sql"):
    with example.open() as lines:
        assert Interpreter(eddyline.connect(), Printer.plain(40)).run_script(lines, example.name)
print("kernels:", *kernels(), sep="\\n")
"""


def lines(code: str, **environ: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_workloads_of_users_call_no_kernel_that_warming_does_not() -> None:
    warm = lines(WARM)  # first: a process that compiles a kernel also lists those that it calls in turn
    typical = lines(TYPICAL)
    typical = typical[typical.index("kernels:") + 1 :]
    assert len(typical) > 30
    assert sorted(set(typical) - set(warm)) == []


def test_the_doctor_warms_and_says_how_many_kernels_there_are(run: Run) -> None:
    warmed = run("doctor", "--warm")
    assert warmed.returncode == 0, warmed.stderr
    assert "kernels are compiled" in warmed.stdout


def test_importing_writes_nothing_removes_nothing_and_sets_nothing(tmp_path: Path) -> None:
    old = tmp_path / "eddyline" / "kernels" / "old"
    old.mkdir(parents=True)
    os.utime(old, (0, 0))
    code = "import numba; before = numba.config.CACHE_DIR; import eddyline.local.connection"
    code += "; import eddyline.spark.worker.resident"
    assert lines(f"{code}; print(numba.config.CACHE_DIR == before)", XDG_CACHE_HOME=str(tmp_path)) == ["True"]
    assert [f for f in tmp_path.rglob("*") if f.is_file()] == [] and list(old.parent.iterdir()) == [old]


def test_only_what_other_versions_left_and_nobody_used_for_a_month_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {name: tmp_path / "kernels" / name / "k.nbc" for name in ("own", "old", "read lately")}
    paths |= {name: tmp_path / "costs" / f"{name}.json" for name in ("own costs", "old costs")}
    paths |= {name: tmp_path / "classes" / f"{name}.jsa" for name in ("own classes", "old classes")}
    for name, path in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        os.utime(path, (path.stat().st_atime if name == "read lately" else 0, 0))
    monkeypatch.setattr(warming, "kernel_folder", lambda: paths["own"].parent)
    monkeypatch.setattr(warming, "costs_file", lambda: paths["own costs"])
    monkeypatch.setattr(warming, "class_archive", lambda: paths["own classes"])
    assert warming.remove_unused() == 3
    assert {n for n, path in paths.items() if path.exists()} == {"own", "read lately", "own costs", "own classes"}
