"""The buckets' reports of a micro-batch as a file of the checkpoint: what delivery knows, and others want to see.

Delivery runs in the driver or, over Spark Connect, in a process beside the server. Progress is shown by the user's
program. The file joins the two: delivery writes it when a micro-batch has been delivered, and a replay writes it again.
It informs and decides nothing. Which files were staged is left out: they have moved by then.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eddyline.spark.run.settings import write_whole

KEPT = 100  # reports of so many past micro-batches stay, as Spark's own progress does


@dataclass(frozen=True)
class Reports:
    batch: int
    buckets: Sequence[Mapping[str, Any]]  # one report of each
    seconds: float  # of delivery
    ended: float  # seconds since 1970


def write_reports(own: Path, batch: int, buckets: Sequence[Mapping[str, Any]], seconds: float) -> None:
    """`own` is the folder of Eddyline's files in the checkpoint."""
    told = [_without_files(r) | {"packed": [_without_files(p) for p in r["packed"]]} for r in buckets]
    write_whole(_file(own, batch), json.dumps(asdict(Reports(batch, told, seconds, time.time()))), "none")
    _file(own, batch - KEPT).unlink(missing_ok=True)


def read_reports(own: Path, batch: int) -> Reports | None:
    """None if the micro-batch has not been delivered, or was long ago."""
    try:
        return Reports(**json.loads(_file(own, batch).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _without_files(report: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in report.items() if name not in ("staged", "files")}


def _file(own: Path, batch: int) -> Path:
    return own / "reports" / f"{batch:09}.json"
