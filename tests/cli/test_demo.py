"""The demo without Spark: it registers what it was asked for, and the same seed gives the same answers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from eddyline.demo.families import FAMILIES
from eddyline.demo.in_process import play, summary
from eddyline.local.connection import Connection


def counts(queries: int, rows: int, seed: int) -> list[dict[str, Any]]:
    """The tallies after each step, without times."""
    tallies = [asdict(tally) for tally in play(Connection(), queries, rows, 600.0, seed)]
    return [{k: v for k, v in tally.items() if k not in ("registering", "seconds", "slowest")} for tally in tallies]


def test_queries_stand_before_rows_flow_and_their_number_stays_while_they_come_and_go() -> None:
    steps = counts(queries=2000, rows=2600, seed=1)
    assert [step["rows"] for step in steps] == [0, 1000, 2000, 2600]
    assert {step["queries"] for step in steps} == {2000}
    assert steps[-1]["added"] == steps[-1]["dropped"] > 0
    assert steps[-1]["families"].keys() == {alerts.name for alerts in FAMILIES}
    assert steps[-1]["changes"] > 0 and steps[-1]["late"] > 0


def test_the_same_seed_gives_the_same_changes_and_another_seed_others() -> None:
    first, again, other = (counts(1000, 1000, seed)[-1]["changes"] for seed in (1, 1, 2))
    assert first == again != other


def test_it_ends_when_the_time_is_up_and_sums_up() -> None:
    *_, last = play(Connection(), 1000, 10**9, 0.01, 1)
    assert last.batches >= 1
    assert f"{last.rows:,} rows against 1,000 queries" in summary(last)
