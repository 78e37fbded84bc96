"""Amendments: a planned micro-batch that failed is done again with a later commit of the catalog.

Spark's offset log fixes the commit of a micro-batch when it is planned, and a replay uses the same one; so a DROP that
came afterwards could not help a micro-batch that fails because of its catalog. When a run has failed, or the same
micro-batch was begun twice and never committed, the next start writes an amendment for it: from then on its commit is
the latest one. Amendments are written by the driver while no task runs, so all tasks of a micro-batch read the same.
A run that was merely stopped or killed is not amended: its repeats are exact.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from eddyline.spark.input.offsets import last_batch, read_offset
from eddyline.spark.run.settings import Settings, write_whole

KEPT = 10_000  # micro-batches
ATTEMPTS = 2  # starts at one micro-batch without a commit that count as a failure, whatever ended them


@dataclass(frozen=True)
class Amendment:
    batch: int
    commit: int  # of the catalog, in place of the one in Spark's offset log
    times: int  # how often this micro-batch was amended
    error: str  # what the run before failed with


@dataclass(frozen=True)
class Attempts:
    """How often a micro-batch was begun, and what the last run failed with, if it failed."""

    batch: int
    starts: int = 1
    error: str = ""


def planned(checkpoint: Path) -> int | None:
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
    found = _read(own, last)
    return max(commit, found.commit), found.times if last == batch else 0


def note_failure(settings: Settings, error: str) -> None:
    """Notes that a run has failed, so that the next one may amend the micro-batch it failed in."""
    batch = planned(Path(settings.checkpoint))
    if batch is not None:
        _write_attempts(settings.own, replace(_attempts(settings.own, batch), error=error or "no reason given"))


def amend(settings: Settings, latest: int) -> Amendment | None:
    """Amends the planned micro-batch, if it has failed and the catalog has moved on; counts this start as an attempt.

    No task may be running. `latest` is the last commit of the catalog. A micro-batch that was delivered to all sinks
    stays as it is: readers may have seen it, and its catalog is not the problem.
    """
    batch = planned(Path(settings.checkpoint))
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
    """Removes the amendments of micro-batches long before this one. They are few, and tell what was in force."""
    for file in (settings.own / "amendments").glob("*.json"):
        if int(file.stem) < batch - KEPT:
            file.unlink(missing_ok=True)


def _file(own: Path, batch: int) -> Path:
    return own / "amendments" / f"{batch:09}.json"


def _read(own: Path, batch: int) -> Amendment:
    return Amendment(**json.loads(_file(own, batch).read_text()))


def _attempts(own: Path, batch: int) -> Attempts:
    try:
        found = Attempts(**json.loads((own / "attempts.json").read_text()))
    except (OSError, ValueError, TypeError):
        return Attempts(batch)
    return found if found.batch == batch else Attempts(batch)


def _write_attempts(own: Path, attempts: Attempts) -> None:
    write_whole(own / "attempts.json", json.dumps(asdict(attempts)))
