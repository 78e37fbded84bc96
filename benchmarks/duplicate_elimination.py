"""Document 3, section 5.3.1: DISTINCT over a window that keeps its output and what can replace it, and not its input.

200,000 tuples of 2,000 values arrive within one window. State is the growth of the resident set of a process, read by
its parent, from before the first tuple. Before that, kernels are loaded, as many tuples are pushed to a filter, and
`stats()` is called, so that what a push itself takes has been allocated, and no library code is loaded in between.
Arrow takes its memory from the C library, which returns all that is free: Arrow's own pool does not.

`python -m benchmarks.duplicate_elimination --other CHECKOUT` compares with another version of the engine.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).resolve().parent.parent
TUPLES, VALUES, BATCH = 200_000, 2_000, 1_000
MEGABYTE = 1024.0  # kB


def connection(query: str = "SELECT DISTINCT k FROM s [RANGE 1 HOUR]") -> Any:
    import eddyline

    db = eddyline.connect()
    db.execute("CREATE STREAM s (k BIGINT, ts TIMESTAMP) WATERMARK ts")
    db.execute(f"CREATE CONTINUOUS QUERY q WITH (snapshot = 'no') AS {query}")
    return db


def fill(db: Any, tuples: int) -> float:
    """Pushes tuples; returns the processor time that they took."""
    rng, seconds = np.random.default_rng(3), 0.0
    for start in range(0, tuples, BATCH):
        ts = pa.array(1000 * np.arange(start, start + BATCH), pa.timestamp("us"))
        rows = pa.table({"k": rng.integers(0, VALUES, BATCH), "ts": ts})
        began = time.process_time()
        db.push("s", rows).count()
        seconds += time.process_time() - began
    return seconds


def child() -> None:
    pa.set_memory_pool(pa.system_memory_pool())
    first = connection()
    fill(first, 5 * BATCH)
    first.stats()
    del first
    fill(connection("SELECT k FROM s WHERE k >= 0"), TUPLES)
    db = connection()
    _wait("empty")
    seconds = fill(db, TUPLES)
    (family,) = db.stats()["families"].values()
    _wait("full", rows=family["state_rows"], seconds=seconds)


def _wait(moment: str, **what: Any) -> None:
    """Lets the parent read the memory of this process."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    print(json.dumps({"moment": moment} | what), flush=True)
    sys.stdin.readline()


def measured(tree: Path) -> dict[str, float]:
    """Megabytes of state, rows of state, and tuples a second, of the engine of a tree."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve()), "--child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tree)},
    )
    assert process.stdin is not None and process.stdout is not None
    resident, said = dict[str, float](), dict[str, Any]()
    for line in process.stdout:
        said = json.loads(line)
        status = Path(f"/proc/{process.pid}/status").read_text()
        resident[said["moment"]] = float(status.split("VmRSS:")[1].split()[0]) / MEGABYTE
        process.stdin.write("\n")
        process.stdin.flush()
    if process.wait():
        raise RuntimeError(f"the run over {tree} failed with status {process.returncode}")
    megabytes = resident["full"] - resident["empty"]
    return {"megabytes": megabytes, "rows": said["rows"], "rate": TUPLES / said["seconds"]}


def main(other: Path | None = None) -> bool:
    from benchmarks._report import Figure, report

    own = measured(ROOT)
    figures = [
        Figure("state, from outside", own["megabytes"], "MB"),
        Figure("rows of state a value", own["rows"] / VALUES, "rows", 2.0),
        Figure("tuples a second of processor time", own["rate"], "tuples/s"),
    ]
    if other is not None:
        that = measured(other.resolve())
        figures += [
            Figure("other version: state, from outside", that["megabytes"], "MB"),
            Figure("other version: rows of state a value", that["rows"] / VALUES, "rows"),
            Figure("other version: tuples a second of processor time", that["rate"], "tuples/s"),
            Figure("state against the other version", own["megabytes"] / that["megabytes"], "times", 1 / 20),
        ]
    return report("duplicate-elimination", figures)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--other", type=Path, help="a checkout of another version")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child()
    else:
        sys.exit(0 if main(given.other) else 1)
