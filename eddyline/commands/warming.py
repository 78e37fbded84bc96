"""`eddyline doctor --warm`: compiles kernels and measures the costs of joins before they are needed, once per machine.

Otherwise each kernel is compiled when it is first called, which takes a first micro-batch half a minute, and costs are
measured in the background. Kernels of other versions that nobody has used for a month are removed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from eddyline.commands.workloads import WORKLOADS, route, run
from eddyline.index.kernel_cache import kernel_folder
from eddyline.routing.calibration import calibrate, costs_file

PROCESSES = 2  # more would compile what workloads have in common more than once
KEPT_FOR = 30 * 24 * 3600  # seconds without use
LOOK = 0.25  # seconds between looks at how many kernels there are


def warm(console: Console) -> None:
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("compiling kernels", total=len(WORKLOADS) + 2)
        for ended in _compiled():
            progress.update(task, description=f"compiling kernels: {_kernels()}", completed=ended)
        progress.update(task, description="measuring the costs of joins", completed=len(WORKLOADS) + 1)
        mine = calibrate()
        progress.update(task, description=f"{_kernels()} kernels are compiled", completed=len(WORKLOADS) + 2)
    if not mine:
        console.print("The costs of joins are being measured by another process.")
    old = remove_unused()
    if old:
        console.print(f"Removed {old} folders and files of other versions, not used for a month.")
    if kernel_folder() is None or costs_file() is None:
        console.print("Nothing can be kept: there is no home folder, or it cannot be written. Set XDG_CACHE_HOME.")


def _compiled() -> Iterator[int]:
    """Runs all workloads; says again and again how many have ended."""
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as processes:
        left: set[Future[None]] = {processes.submit(run, *workload) for workload in WORKLOADS}
        left.add(processes.submit(route))
        total = len(left)
        while left:
            ended, left = wait(left, LOOK, FIRST_COMPLETED)
            for future in ended:
                future.result()
            yield total - len(left)


def _kernels() -> int:
    folder = kernel_folder()
    return 0 if folder is None else len(list(folder.glob("*.nbc")))


def remove_unused() -> int:
    """Removes kernels and costs of other versions of the kernels that nobody has read for long; how many."""
    kernels, costs = kernel_folder(), costs_file()
    folders = [] if kernels is None else [f for f in kernels.parent.glob("*") if f.is_dir() and f != kernels]
    files = [] if costs is None else [f for f in costs.parent.glob("*.json") if f != costs]
    old = [path for path in (*folders, *files) if _last_used(path) < time.time() - KEPT_FOR]
    for path in old:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return len(old)


def _last_used(path: Path) -> float:
    """When a file, or the files of a folder, were last read or written."""
    files = [f.stat() for f in (path, *path.glob("*")) if f.is_file()] or [path.stat()]
    return max(max(f.st_mtime, f.st_atime) for f in files)
