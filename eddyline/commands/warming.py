"""`eddyline doctor --warm`: compiles kernels, archives Spark's classes and measures costs of joins, once per machine.

Otherwise each kernel is compiled at its first call, which adds half a minute to the first micro-batch, and costs are
measured in the background. Cached files of other versions that were not used for a month are removed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from eddyline.commands.workloads import WORKLOADS, route, run
from eddyline.index.runtime.kernel_cache import kernel_folder
from eddyline.routing.calibration import calibrate, costs_file
from eddyline.spark.run.spark_session import class_archive, writing_options

PROCESSES = 2  # more would compile common kernels more than once
KEPT_FOR = 30 * 24 * 3600  # seconds without use
LOOK = 0.25  # seconds between counts of the kernels


def warm(console: Console, *, spark: bool) -> None:
    """`spark`: whether Spark can be started."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("compiling kernels", total=len(WORKLOADS) + 3)
        for ended in _compiled():
            progress.update(task, description=f"compiling kernels: {_kernels()}", completed=ended)
        if spark:
            progress.update(task, description="archiving Spark's classes")
            _archive_classes()
        progress.update(task, description="measuring the costs of joins", advance=1)
        mine = calibrate()
        progress.update(task, description=f"{_kernels()} kernels are compiled", completed=len(WORKLOADS) + 3)
    if not mine:
        console.print("The costs of joins are being measured by another process.")
    old = remove_unused()
    if old:
        console.print(f"Removed {old} folders and files of other versions, not used for a month.")
    if kernel_folder() is None or costs_file() is None:
        console.print("Nothing can be kept: there is no home folder, or it cannot be written. Set XDG_CACHE_HOME.")


def _compiled() -> Iterator[int]:
    """Runs all workloads; yields how many have ended, whenever that may have changed."""
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as processes:
        left: set[Future[None]] = {processes.submit(run, *workload) for workload in WORKLOADS}
        left.add(processes.submit(route))
        total = len(left)
        while left:
            ended, left = wait(left, LOOK, FIRST_COMPLETED)
            for future in ended:
                future.result()
            yield total - len(left)


def _archive_classes() -> None:
    """Runs a small pipeline; its JVM writes the archive when it exits. Without one, Spark only starts slower."""
    archive = class_archive()
    if archive is None or archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        written = Path(folder) / archive.name
        options = " ".join([os.environ.get("SPARK_SUBMIT_OPTS", ""), *writing_options(written)])
        demo = ["-m", "eddyline.cli", "demo", "--queries", "100", "--seconds", "0.1", "--folder", f"{folder}/demo"]
        # This also waits for the JVM, which keeps the output open.
        subprocess.run([sys.executable, *demo], env={**os.environ, "SPARK_SUBMIT_OPTS": options}, capture_output=True)
        if written.exists():
            written.replace(archive)


def _kernels() -> int:
    folder = kernel_folder()
    return 0 if folder is None else len(list(folder.glob("*.nbc")))


def remove_unused() -> int:
    """Removes kernels, costs and archives of other versions that were not read for KEPT_FOR; returns their number."""
    own = [path for path in (kernel_folder(), costs_file(), class_archive()) if path is not None]
    others = [path for mine in own for path in mine.parent.glob(f"*{mine.suffix}") if path != mine]
    old = [path for path in others if _last_used(path) < time.time() - KEPT_FOR]
    for path in old:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return len(old)


def _last_used(path: Path) -> float:
    """When a file, or the files of a folder, were last read or written."""
    files = [f.stat() for f in (path, *path.glob("*")) if f.is_file()] or [path.stat()]
    return max(max(f.st_mtime, f.st_atime) for f in files)
