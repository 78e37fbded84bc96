"""Portions on several threads: also in a process that was forked, and never for functions of the user's."""

import os
import threading

import numpy as np
import pyarrow as pa

import eddyline
from eddyline.index.runtime.parallel import SMALLEST, in_portions


def portions() -> list[int]:
    return in_portions(4 * SMALLEST, 2, lambda start, stop: stop - start, largest=SMALLEST)


def test_a_process_that_was_forked_has_threads_of_its_own() -> None:
    assert portions() == [SMALLEST] * 4
    child = os.fork()
    if child == 0:
        os._exit(0 if portions() == [SMALLEST] * 4 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_functions_are_called_by_the_thread_that_pushes() -> None:
    callers = set()
    db = eddyline.connect(threads=3)
    db.execute("CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts")
    db.function("seen", lambda a: callers.add(threading.get_ident()) is None, ["INT"], "BOOLEAN")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE a >= 0 AND seen(a)")
    rows = 5 * SMALLEST
    moment = pa.array(np.zeros(rows, np.int64), pa.timestamp("us"))
    assert db.push("s", pa.table({"a": np.arange(rows, dtype=np.int32), "ts": moment})).count() == rows
    assert callers == {threading.get_ident()}
