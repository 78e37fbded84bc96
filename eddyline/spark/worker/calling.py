"""Calling a resident process: finding the one that is there, or starting it.

Spark gives tasks to its Python workers in turn, so a bucket meets another worker in every other micro-batch, and what a
worker remembers of it is out of date. Residents do not move: a worker hands its blocks to the resident of the bucket,
over a socket on the same machine, and takes the answer. They end by themselves when the executor that started them
does.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
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
from uuid import uuid4

from eddyline.errors import StateError

PATIENCE = 60.0  # seconds that a resident may take to start
UNUSED = 7 * 86400  # seconds after which a copy of state is given up
LONGEST = 100  # bytes of a socket's path; Linux takes 107
SHORT = Path("/tmp")  # where sockets are if the folder for temporary files has a long path
SLOTS = os.cpu_count() or 1  # residents of an executor


def machine_folder() -> Path:
    """Where processes of this user on this machine meet."""
    return _own_folder(Path(tempfile.gettempdir()))


def _own_folder(base: Path) -> Path:
    """A folder below another, for this user alone."""
    folder = base / f"eddyline-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as e:
        raise StateError(
            f"{str(folder)!r} cannot be made: {e.strerror}.", hint="Set TMPDIR to a folder that can be written."
        ) from None
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise StateError(
            f"{str(folder)!r} is open to other users, or belongs to one.",
            hint="Remove it, or set TMPDIR to a folder of your own.",
        )
    return folder


def slot_of_partition(number: int) -> int:
    """Which resident packs a source partition: there is one per core."""
    return number % SLOTS


def slot_of_bucket(checkpoint: str, bucket: int) -> int:
    """Which resident keeps a bucket: the one that has it, or the one with the fewest.

    An executor gets any of a cluster's buckets; by their number alone, those that run together could share a resident.
    """
    folder = executor_folder(executor_process())
    key = f"{checkpoint} {bucket}"
    with (folder / "slots").open("a+") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        f.seek(0)
        known: dict[str, int] = json.loads(f.read() or "{}")
        if key not in known:
            counts = [list(known.values()).count(i) for i in range(SLOTS)]
            known[key] = counts.index(min(counts))
            f.truncate(0)
            f.write(json.dumps(known))
        return known[key]


def executor_folder(owner: int) -> Path:
    folder = machine_folder() / f"executor-{owner}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def socket_of(owner: int, slot: int) -> Path:
    """The address of a resident: in its executor's folder, unless that has a longer path than a socket can have."""
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
    found = _connect(address)
    if found is not None:
        return found
    with address.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _connect(address)  # another worker may have been quicker
        return found if found is not None else _start(address, owner)


def secret() -> bytes:
    """What processes of this user on this machine know each other by."""
    file = machine_folder() / "secret"
    if not file.exists():
        beside = file.with_name(f".{uuid4().hex}")
        beside.touch(mode=0o600)
        beside.write_text(secrets.token_hex(32))
        with suppress(FileExistsError):  # another may have been quicker
            os.link(beside, file)
        beside.unlink()
    return file.read_bytes()


def executor_process() -> int:
    """The process whose end ends the residents: the JVM above Spark's Python workers, or who calls outside of Spark."""
    worker = os.getppid()
    try:
        parents = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()
        parent = int(parents[1])
        is_java = "java" in Path(f"/proc/{parent}/comm").read_text()
    except (OSError, IndexError, ValueError):
        is_java = False  # the worker's parent has died, and whoever has adopted it would never end
    return parent if is_java else os.getpid()


def _connect(address: Path) -> Connection | None:
    try:
        return Client(str(address), "AF_UNIX", authkey=secret())
    except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, EOFError, AuthenticationError):
        return None


def _tidy() -> None:
    """Removes what executors that have ended left behind, and copies of state that nobody has used for a week."""
    bases = {Path(tempfile.gettempdir()), SHORT}
    for folder in (f for base in bases for f in (base / f"eddyline-{os.getuid()}").glob("executor-*")):
        if not Path(f"/proc/{folder.name.removeprefix('executor-')}").exists():
            shutil.rmtree(folder, ignore_errors=True)
    for folder in machine_folder().glob("segments/*"):
        with suppress(OSError):
            if time.time() - max(f.stat().st_mtime for f in [folder, *folder.rglob("*")]) > UNUSED:
                shutil.rmtree(folder, ignore_errors=True)


def _start(address: Path, owner: int) -> Connection:
    _tidy()
    address.unlink(missing_ok=True)
    log = address.with_suffix(".log")
    command = [sys.executable, "-m", "eddyline.spark.worker.resident", str(address), str(owner)]
    with log.open("ab") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "PYTHONHASHSEED": "0"},
        )
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        found = _connect(address)
        if found is not None:
            return found
        time.sleep(0.02)
    raise StateError(
        f"The process for {address.stem!r} did not start.",
        hint=f"Its last words: {log.read_text(errors='replace')[-500:]}",
    )
