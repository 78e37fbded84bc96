"""The buckets' reports of a micro-batch, stored as a file of the checkpoint for progress reporting.

Delivery runs in the driver or, over Spark Connect, in a process beside the server; the user's program shows progress.
Delivery writes the file after a micro-batch, and a replay writes it again. The file only informs. It omits the staged
files, because they have been moved by then.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eddyline.spark.run.settings import write_whole

KEPT = 100  # past micro-batches whose reports are kept, as many as Spark keeps progress reports


@dataclass(frozen=True)
class Reports:
    batch: int
    buckets: Sequence[Mapping[str, Any]]  # one report per bucket
    seconds: float  # of delivery
    ended: float  # seconds since 1970


def write_reports(own: Path, batch: int, buckets: Sequence[Mapping[str, Any]], seconds: float) -> None:
    """`own` is the folder of Eddyline's files in the checkpoint."""
    stored = [_without_files(r) | {"packed": [_without_files(p) for p in r["packed"]]} for r in buckets]
    write_whole(_file(own, batch), json.dumps(asdict(Reports(batch, stored, seconds, time.time()))), "none")
    _file(own, batch - KEPT).unlink(missing_ok=True)


def read_reports(own: Path, batch: int) -> Reports | None:
    """None if the micro-batch was not delivered yet, or its reports were removed."""
    try:
        return Reports(**json.loads(_file(own, batch).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _without_files(report: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in report.items() if name not in ("staged", "files")}


def _file(own: Path, batch: int) -> Path:
    return own / "reports" / f"{batch:09}.json"
