"""Connections to resident processes: a worker connects to a running resident, or starts one.

Spark assigns tasks to its Python workers in turn, so consecutive micro-batches of a bucket run in different workers,
and state that a worker cached would be stale. A bucket therefore stays in one resident: the worker sends its blocks to
that resident over a Unix socket and reads the answer. A resident exits when the executor that started it exits.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection
from pathlib import Path

from eddyline.errors import StateError
from eddyline.spark.run.private import create_secret

PATIENCE = 60.0  # seconds that a resident may take to start
UNUSED = 7 * 86400  # seconds after which an unused local copy of state is removed
LONGEST = 100  # bytes of a socket's path; Linux takes 107
SHORT = Path("/tmp")  # where sockets are if the folder for temporary files has a long path
SLOTS = os.cpu_count() or 1  # residents of an executor


def machine_folder() -> Path:
    """The folder that all processes of this user on this machine share."""
    return _own_folder(Path(tempfile.gettempdir()))


def _own_folder(base: Path) -> Path:
    """A folder in `base` that only this user can access."""
    folder = base / f"eddyline-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as e:
        raise StateError(
            f"{str(folder)!r} cannot be made: {e.strerror}.", hint="Set TMPDIR to a folder that can be written."
        ) from None
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise StateError(
            f"{str(folder)!r} is open to other users, or belongs to one.",
            hint="Remove it, or set TMPDIR to a folder of your own.",
        )
    return folder


def slot_of_partition(number: int) -> int:
    """The slot of the resident that packs a source partition; there is one slot per core."""
    return number % SLOTS


def slot_of_bucket(checkpoint: str, bucket: int) -> int:
    """The slot of the resident that keeps a bucket: the slot it already has, else the one with the fewest buckets.

    Spark may assign any of a cluster's buckets to an executor, so a slot computed from the bucket's number could put
    all of them into one resident.
    """
    folder = executor_folder(executor_process())
    key = f"{checkpoint} {bucket}"
    with (folder / "slots").open("a+") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        f.seek(0)
        slots: dict[str, int] = json.loads(f.read() or "{}")
        if key not in slots:
            counts = [list(slots.values()).count(i) for i in range(SLOTS)]
            slots[key] = counts.index(min(counts))
            f.truncate(0)
            f.write(json.dumps(slots))
        return slots[key]


def executor_folder(owner: int) -> Path:
    folder = machine_folder() / f"executor-{owner}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def socket_of(owner: int, slot: int) -> Path:
    """The socket of a resident: in its executor's folder, or below SHORT if that path is too long for a socket."""
    name = f"resident-{slot}.sock"
    address = executor_folder(owner) / name
    if len(os.fsencode(address)) <= LONGEST:
        return address
    folder = _own_folder(SHORT) / f"executor-{owner}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / name


def call(slot: int, executor: int | None = None) -> Connection:
    """A connection to the resident of a slot of this executor, or of another; the caller closes it."""
    owner = executor or executor_process()
    address = socket_of(owner, slot)
    connection = _connect(address)
    if connection is not None:
        return connection
    with address.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another worker may have started it meanwhile.
        return _connect(address) or _start(address, owner)


def secret() -> bytes:
    """The authentication key that processes of this user on this machine share."""
    file = machine_folder() / "secret"
    if not file.exists():
        create_secret(file)
    return file.read_bytes()


def executor_process() -> int:
    """The process with which residents exit: the JVM that owns Spark's Python workers, or the caller outside Spark."""
    worker = os.getppid()
    try:
        parents = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()
        parent = int(parents[1])
        is_java = "java" in Path(f"/proc/{parent}/comm").read_text()
    except (OSError, IndexError, ValueError):
        is_java = False  # the worker's parent has died; the process that adopted it may never exit
    return parent if is_java else os.getpid()


def _connect(address: Path) -> Connection | None:
    try:
        return Client(str(address), "AF_UNIX", authkey=secret())
    except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, EOFError, AuthenticationError):
        return None


def _remove_unused_folders() -> None:
    """Removes the folders of executors that have exited, and local copies of state unused for a week."""
    bases = {Path(tempfile.gettempdir()), SHORT}
    for folder in (f for base in bases for f in (base / f"eddyline-{os.getuid()}").glob("executor-*")):
        if not Path(f"/proc/{folder.name.removeprefix('executor-')}").exists():
            shutil.rmtree(folder, ignore_errors=True)
    for folder in machine_folder().glob("segments/*"):
        with suppress(OSError):
            if time.time() - max(f.stat().st_mtime for f in [folder, *folder.rglob("*")]) > UNUSED:
                shutil.rmtree(folder, ignore_errors=True)


def _start(address: Path, owner: int) -> Connection:
    _remove_unused_folders()
    address.unlink(missing_ok=True)
    log = address.with_suffix(".log")
    command = [sys.executable, "-m", "eddyline.spark.worker.resident", str(address), str(owner)]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "PYTHONHASHSEED": "0"},
        )
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        connection = _connect(address)
        if connection is not None:
            return connection
        time.sleep(0.02)
    raise StateError(
        f"The process for {address.stem!r} did not start.",
        hint=f"Its last words: {log.read_text(errors='replace')[-500:]}",
    )
