"""A resident process: packs source partitions and keeps buckets, for the Python workers of one executor.

It serves one request at a time; others wait. All it holds can be rebuilt from the commit log and Spark's state, so it
may be killed at any moment.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener
from typing import Any

import pyarrow as pa

from eddyline.engine.parts import Part
from eddyline.errors import Error, StateError
from eddyline.spark.output.outputs import Stager
from eddyline.spark.run.settings import Moment, Settings
from eddyline.spark.worker import blocks
from eddyline.spark.worker.bucket import Placed
from eddyline.spark.worker.calling import secret
from eddyline.spark.worker.keeping import Keeper, decode_head
from eddyline.spark.worker.packing import Packer

_BUG = "This is a fault of Eddyline's: --verbose shows where. What was delivered so far is whole."
_DISK = "Start the pipeline again when that is mended: what was delivered so far is whole, and nothing is lost."


class Resident:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handlers: dict[str, Callable[..., None]] = {
            "pack": self._pack,
            "pack files": self._pack_files,
            "step": self._step,
        }
        # By checkpoint, because an executor may serve several pipelines, and by bucket.
        self._packers: dict[str, Packer] = {}
        self._keepers: dict[tuple[str, int], Keeper] = {}
        self._last: dict[tuple[str, int], tuple[str, Any]] = {}  # digest of the last request, and its answer

    def converse(self, worker: Connection) -> None:
        """Answers the request of one worker."""
        with worker:
            try:
                kind, *rest = worker.recv()
                with self._lock:
                    self._handlers[kind](worker, *rest)
            except (EOFError, ConnectionError):
                pass  # the task was killed; Spark retries it
            except Exception as e:
                worker.send(("error", e if isinstance(e, Error) else _unexpected(e)))

    # packing

    def _pack(self, worker: Connection, settings: Settings, moment: Moment, relation: str, number: int) -> None:
        packer = self._packer(settings, moment)
        partition = packer.open(moment, relation, number)
        while rows := worker.recv_bytes():
            worker.send(("sent", packer.pack(partition, pa.ipc.open_stream(rows).read_all())))
        worker.send(("sent", packer.close(partition)))
        self._packers[settings.checkpoint] = packer

    def _pack_files(
        self, worker: Connection, settings: Settings, moment: Moment, relation: str, number: int, names: list[str]
    ) -> None:
        packer = self._packer(settings, moment)
        partition = packer.open(moment, relation, number)
        for sent in packer.pack_files(partition, names):
            worker.send(("sent", sent))
        worker.send(("sent", []))
        worker.send(("sent", packer.close(partition)))
        self._packers[settings.checkpoint] = packer

    def _packer(self, settings: Settings, moment: Moment) -> Packer:
        """Removes and returns the packer of a pipeline; the caller stores it again if nothing fails."""
        packer = self._packers.pop(settings.checkpoint, None)
        if packer is None or packer.settings != settings or not packer.follower.can_move_to(moment.version):
            packer = Packer(settings)
        return packer

    # steps of buckets

    def _step(
        self, worker: Connection, settings: Settings, number: int, batch: int, head: bytes | None, placed: list[Placed]
    ) -> None:
        key, before = (settings.checkpoint, number), decode_head(head)
        request = blocks.digest(before.chain.encode(), str(batch).encode(), *(b for _, b in placed))
        last_request, answer = self._last.get(key, ("", None))
        if request == last_request and _still_staged(answer[-1]):  # a retry of the same task
            worker.send(("done", *answer))
            return
        keeper, cache = self._keepers.pop(key, None), "hit"
        started = time.perf_counter()
        if keeper is None or keeper.settings != settings or keeper.head.chain != before.chain:
            keeper, cache = Keeper(number, settings), "new" if not before.chain else "miss"
            keeper.restore(before, _fetcher(worker))
        ready = time.perf_counter()
        parts, kept = keeper.step([g for g in placed if g[0][2] >= 0])
        stepped = time.perf_counter()
        report = self._report(keeper, batch, parts, [blocks.decode(b)[0]["report"] for p, b in placed if p[2] < 0])
        report |= {"cache": cache, "restore_seconds": ready - started, "step_seconds": stepped - ready}
        report |= {"snapshot_seconds": kept.snapshot_seconds}
        report |= {"stage_seconds": time.perf_counter() - stepped, "written": sum(map(len, kept.put.values()))}
        self._keepers[key] = keeper
        self._last[key] = request, (kept.head, kept.put, kept.removed, report)
        worker.send(("done", *self._last[key][1]))

    def _report(self, keeper: Keeper, batch: int, parts: list[Part], packed: list[dict[str, Any]]) -> dict[str, Any]:
        """Stages the changes of a step; returns the report of it, and of the packed partitions, to the driver."""
        bucket = keeper.bucket
        engine, definitions = bucket.engine, bucket.definitions
        stager = Stager(definitions.catalog, keeper.settings, batch, bucket.number, bucket.amended)
        matches: dict[int, int] = {}
        for p in parts:
            stager.stage_part(p)
            matches[p.family.number] = matches.get(p.family.number, 0) + p.count()
        return {
            "bucket": bucket.number,
            "version": bucket.follower.version,
            "clocks": {s: {"high": c.high, "floor": c.floor} for s, c in engine.clocks.streams.items()},
            "matches": matches,
            "failures": [f.report() for f in bucket.failed_queries],
            "functions": [asdict(w) for w in definitions.functions.take_noted()],
            "snapshot_version": (keeper.head.meta or {"version": 0})["version"],
            "staged": stager.report(),
            "packed": packed,
            "state_rows": {n: r.state_rows() for n, r in engine.running.items()},
            "shared_rows": engine.shared_rows(),
            "table_rows": {name: len(rows) for name, rows in definitions.tables.items()},
            "state_bytes": keeper.head.snapshot_bytes + keeper.head.log_bytes,
        }


def _unexpected(error: Exception) -> StateError:
    """Wraps an unexpected error; its traceback is a note after an empty line."""
    what = str(error).partition("\n")[0]
    wrapped = StateError(f"{type(error).__name__}: {what}", hint=_DISK if isinstance(error, OSError) else _BUG)
    wrapped.add_note("\n" + "".join(traceback.format_exception(error)))
    return wrapped


def _still_staged(report: dict[str, Any]) -> bool:
    """Whether the files of a report still exist: a new run removes them, and the driver moves them when it commits."""
    return all(os.path.exists(s["file"]) for s in report["staged"])


def _fetcher(worker: Connection) -> Callable[[str], bytes]:
    def fetch(segment: str) -> bytes:
        worker.send(("need", segment))
        return worker.recv_bytes()

    return fetch


def serve(address: str, owner: int) -> None:
    resident = Resident()
    threading.Thread(target=_exit_with, args=(owner, address), daemon=True).start()
    with Listener(address, "AF_UNIX", backlog=64, authkey=secret()) as listener:
        while True:
            try:
                worker = listener.accept()
            except (EOFError, OSError, AuthenticationError):
                continue  # the client has disconnected, or has another key
            threading.Thread(target=resident.converse, args=(worker,), daemon=True).start()


def _exit_with(owner: int, address: str) -> None:
    """Exits when the owner process has exited, or another resident has taken over the socket."""
    first_inode = None
    while True:
        time.sleep(0.5)
        try:
            os.kill(owner, 0)
            inode = os.stat(address).st_ino
        except OSError:
            os._exit(0)
        first_inode = first_inode or inode
        if inode != first_inode:
            os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
