"""The Spark session of the command line: the settings that pipelines need, quiet logs, and a quick start.

Spark runs in its own POSIX session, so that Ctrl-C reaches only the command, which then stops the pipeline in order.
The JVM's stderr passes through this module, so that it does not break a live display. Unless all logs are wanted, three
messages are dropped that no setting of Spark disables: the warning of the JVM about its modules, the output of the
first Python worker of `transformWithState`, and the traceback of a streaming source that Spark has ended.

A local JVM starts from an archive of Spark's classes (Java's class data sharing), which halves its start time; the JVM
of `eddyline doctor --warm` writes it when it exits, and a JVM of another version, or with other jars, ignores it.
Residents and Python workers are started in advance, while Spark starts: the first micro-batch would otherwise wait for
them, one second for a resident and half of one for a worker.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, TextIO

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from eddyline.errors import StateError
from eddyline.index.runtime.kernel_cache import cache_folder
from eddyline.spark import startup
from eddyline.spark.run import stages
from eddyline.spark.run.spark_errors import is_gone
from eddyline.spark.worker.calling import SLOTS, call

# With simplified tracebacks, Spark's two kinds of Python stages have separate worker processes.
ONE_POOL = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
Logs = Literal["quiet", "all"]
NOISE = ("WARNING: Using incubator modules:", "Streaming TransformWithStateInPandas Python worker")
_TRACEBACK, _CHAIN = "Traceback (most recent call last):", "During handling of the above exception"
_SOURCE, _CLOSED = "python_streaming_source_runner.py", ("EOFError", "BrokenPipeError", "ConnectionResetError")
_STARTUP = str(Path(startup.__file__).parent)
_LOG_SETTINGS = Path(__file__).with_name("log4j2-quiet.properties")


def session(
    master: str | None, name: str, *, logs: Logs = "quiet", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """A new session, or the existing one. `conf` overrides the settings made here."""
    if SparkContext._active_spark_context is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return SparkSession.builder.appName(name).getOrCreate()  # Spark is already started, with its own settings
    wanted = settings(master or "local[*]", name) | dict(conf or {})
    environment(wanted["spark.master"], logs)
    spark_conf = SparkConf().setAll(list(wanted.items()))
    try:
        gateway = _gateway(spark_conf, logs)
        if _have_own_python(wanted):
            start_residents(wanted["spark.master"], gateway.proc.pid)
        SparkContext(conf=spark_conf, gateway=gateway)
    except PySparkRuntimeError as e:
        if e.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        hint = "`eddyline doctor` says what is missing; is the master right?"
        raise StateError(f"Spark did not start with the master {wanted['spark.master']!r}.", hint=hint) from None
    return SparkSession.builder.getOrCreate()


def stop(spark: SparkSession) -> None:
    """Stops Spark, unless its JVM has died."""
    try:
        spark.conf.get("spark.app.name")
    except Exception as e:
        if is_gone(e):
            return
        raise
    spark.stop()


def settings(master: str, name: str) -> dict[str, str]:
    conf = {
        "spark.master": master,
        "spark.app.name": name,
        "spark.sql.session.timeZone": "UTC",
        ONE_POOL: "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if is_local(master):
        # Pipelines use no tables of Spark; its warehouse folder should not appear in the current folder.
        conf |= {"spark.ui.enabled": "false", "spark.sql.warehouse.dir": f"{tempfile.gettempdir()}/spark-warehouse"}
    return conf


def environment(master: str, logs: Logs) -> None:
    """Sets environment variables for Spark's processes; variables that the user has set are kept."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # A JVM has hundreds of threads; without a limit, their memory arenas grow for hours.
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    options = [os.environ.get("SPARK_SUBMIT_OPTS", "")]
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([_STARTUP, *filter(None, path)]))
        options += reading_options()
    if logs == "quiet":
        options.append(f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}")
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(options).strip()


def _have_own_python(conf: Mapping[str, str]) -> bool:
    """Whether Spark's workers run on this machine with this Python: then residents can be started in advance."""
    others = {"spark.pyspark.python", "spark.submit.pyFiles", "spark.files"} & conf.keys()
    return is_local(conf["spark.master"]) and os.environ["PYSPARK_PYTHON"] == sys.executable and not others


def use_own_python(spark: SparkSession) -> None:
    """Makes a local Spark that was started elsewhere run its workers with this Python, unless another was chosen."""
    if is_remote():
        return  # its server has chosen
    chosen = "PYSPARK_PYTHON" in os.environ or spark.conf.get("spark.pyspark.python", None) is not None
    if not chosen and is_local(spark.conf.get("spark.master", None) or ""):
        spark.sparkContext.pythonExec = sys.executable


def is_local(master: str) -> bool:
    return master.partition("[")[0] == "local"


# the archive of Spark's classes


def class_archive() -> Path | None:
    """The file of the archive for this Java and this Spark; None if there is no cache folder."""
    home = cache_folder()
    java = os.environ.get("JAVA_HOME") or shutil.which("java")
    name = hashlib.sha256(f"{java} {pyspark.__file__} {pyspark.__version__}".encode()).hexdigest()[:16]
    return None if home is None else home / "spark-classes" / f"{name}.jsa"


def reading_options() -> list[str]:
    """The options of a JVM that starts from the archive; empty if there is none."""
    archive = class_archive()
    return [] if archive is None or not archive.exists() else [f'"-XX:SharedArchiveFile={archive}"', "-Xlog:cds*=off"]


def writing_options(archive: Path) -> list[str]:
    """The options of a JVM that writes an archive."""
    return [f'"-XX:ArchiveClassesAtExit={archive}"', "-Xlog:cds*=off"]


# residents and workers in advance


def start_residents(master: str, executor: int) -> None:
    """Starts the residents of a local Spark; `executor` is the process id of its JVM."""
    for slot in range(min(cores(master), SLOTS)):
        _in_background(partial(_start_resident, slot, executor))


def start_workers(spark: SparkSession, master: str) -> None:
    """Runs a small job, so that Spark loads the classes of Python stages and starts its workers."""
    tasks = cores(master)
    _in_background(lambda: spark.range(tasks, numPartitions=tasks).mapInArrow(stages.nothing, stages.PACKED).collect())


def cores(master: str) -> int:
    """The cores of a local Spark: local[2] has two, local[*] those of the machine, and local one."""
    number = re.match(r"local\[(\d+|\*)", master)
    if number is None:
        return 1
    return (os.cpu_count() or 1) if number[1] == "*" else int(number[1])


def _start_resident(slot: int, executor: int) -> None:
    call(slot, executor).close()


def _in_background(work: Callable[[], Any]) -> None:
    """Runs `work` in a thread. Errors are ignored: they occur again, and are reported, when the result is needed."""

    def attempt() -> None:
        with suppress(Exception):
            work()

    threading.Thread(target=attempt, daemon=True).start()


# logs


def _gateway(conf: SparkConf, logs: Logs) -> Any:
    """Starts the JVM."""
    read, write = os.pipe()
    try:
        gateway = launch_gateway(  # type: ignore[no-untyped-call]
            conf, {"stderr": write, "start_new_session": True}
        )
    finally:
        os.close(write)
        lines = os.fdopen(read, encoding="utf-8", errors="replace")
        threading.Thread(target=_pass_on, args=(lines, NOISE if logs == "quiet" else ()), daemon=True).start()
    return gateway


def _pass_on(lines: TextIO, noise: Iterable[str]) -> None:
    for line in without(lines, noise):
        sys.stderr.write(line)
        sys.stderr.flush()


def without(lines: Iterable[str], noise: Iterable[str]) -> Iterable[str]:
    """The lines without noise and without continuations of dropped lines.

    If `noise` is not empty, it also drops tracebacks that only mean that Spark has ended a streaming source: its Python
    process may see the closed connection before the request to exit.
    """
    noise = tuple(noise)
    dropped = False
    held: list[str] = []  # a traceback, up to its last line
    for line in lines:
        if noise and (held or line.startswith(_TRACEBACK)):
            held.append(line)
            if len(held) > 1 and not line.startswith(" "):
                dropped = _ends_source(held)
                if not dropped:
                    yield from held
                held = []
            continue
        dropped = any(n in line for n in noise) or (dropped and (not line.strip() or line.startswith(_CHAIN)))
        if not dropped:
            yield line
    yield from held


def _ends_source(traceback: list[str]) -> bool:
    return traceback[-1].startswith(_CLOSED) and any(_SOURCE in line for line in traceback)
