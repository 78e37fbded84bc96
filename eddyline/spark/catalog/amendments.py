"""Amendments: a planned micro-batch that failed is retried with a later commit of the catalog.

Spark's offset log fixes the commit of a micro-batch when it is planned, and a replay uses the same commit. A later DROP
would therefore not help a micro-batch that fails because of its catalog. If a run failed, or the same micro-batch was
started twice and never committed, the next start writes an amendment: from then on the micro-batch uses the latest
commit. The driver writes amendments while no task runs, so all tasks of a micro-batch read the same one. A run that was
stopped or killed is not amended: its replays are exact.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from eddyline.spark.input.offsets import last_batch, read_offset
from eddyline.spark.run.settings import Settings, write_whole

KEPT = 10_000  # micro-batches
ATTEMPTS = 2  # so many starts of one micro-batch without a commit count as a failure, whatever their cause


@dataclass(frozen=True)
class Amendment:
    batch: int
    commit: int  # of the catalog, in place of the one in Spark's offset log
    times: int  # how often this micro-batch was amended
    error: str  # of the run before


@dataclass(frozen=True)
class Attempts:
    """How often a micro-batch was started, and the error of the last run if it failed."""

    batch: int
    starts: int = 1
    error: str = ""


def unfinished(checkpoint: Path) -> int | None:
    """The micro-batch that Spark has planned and not committed; None if there is none."""
    batch = last_batch(checkpoint / "offsets")
    return batch if batch is not None and batch != last_batch(checkpoint / "commits") else None


def commit_of(checkpoint: Path, batch: int) -> int:
    """The commit of the catalog that is in force in a micro-batch, amended or not."""
    offset = read_offset(checkpoint, batch)
    return in_force(checkpoint / "eddyline", batch, offset["commit"])[0]


def in_force(own: Path, batch: int, commit: int) -> tuple[int, int]:
    """The commit in force where Spark's offset log says `commit`, and how often the micro-batch was amended."""
    numbers = [int(f.stem) for f in (own / "amendments").glob("*.json")]
    last = max((n for n in numbers if n <= batch), default=None)
    if last is None:
        return commit, 0
    amendment = _read(own, last)
    return max(commit, amendment.commit), amendment.times if last == batch else 0


def note_failure(settings: Settings, error: str) -> None:
    """Notes that a run has failed, so that the next one may amend the micro-batch it failed in."""
    batch = unfinished(Path(settings.checkpoint))
    if batch is not None:
        _write_attempts(settings.own, replace(_attempts(settings.own, batch), error=error or "no reason given"))


def amend(settings: Settings, latest: int) -> Amendment | None:
    """Amends the planned micro-batch if it has failed and the catalog has newer commits; counts this start.

    No task may be running. `latest` is the last commit of the catalog. A micro-batch that was delivered to all sinks
    is not amended: readers may have seen it, and its catalog did not cause the failure.
    """
    batch = unfinished(Path(settings.checkpoint))
    if batch is None or settings.clocks_file(batch).exists():
        return None
    before = _attempts(settings.own, batch)
    _write_attempts(settings.own, Attempts(batch, before.starts + 1))
    offset = read_offset(Path(settings.checkpoint), batch)
    commit, times = in_force(settings.own, batch, offset["commit"])
    if latest <= commit or not (before.error or before.starts >= ATTEMPTS):
        return None
    amendment = Amendment(batch, latest, times + 1, before.error or f"{before.starts} attempts were broken off")
    write_whole(_file(settings.own, batch), json.dumps(asdict(amendment)))
    return amendment


def forget(settings: Settings, batch: int) -> None:
    """Removes the amendments of micro-batches more than KEPT before this one."""
    for file in (settings.own / "amendments").glob("*.json"):
        if int(file.stem) < batch - KEPT:
            file.unlink(missing_ok=True)


def _file(own: Path, batch: int) -> Path:
    return own / "amendments" / f"{batch:09}.json"


def _read(own: Path, batch: int) -> Amendment:
    return Amendment(**json.loads(_file(own, batch).read_text()))


def _attempts(own: Path, batch: int) -> Attempts:
    try:
        attempts = Attempts(**json.loads((own / "attempts.json").read_text()))
    except (OSError, ValueError, TypeError):
        return Attempts(batch)
    return attempts if attempts.batch == batch else Attempts(batch)


def _write_attempts(own: Path, attempts: Attempts) -> None:
    write_whole(own / "attempts.json", json.dumps(asdict(attempts)))
