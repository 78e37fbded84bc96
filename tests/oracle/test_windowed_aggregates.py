"""Windowed aggregates over ranges of values against the reference, where windows are read from the stream's log."""

from __future__ import annotations

import os

import pytest

from eddyline.index.runtime import garbage
from eddyline.operators.logged_ends import LoggedEnds
from tests.oracle.windowed_aggregates import play

NIGHTLY = os.environ.get("EDDYLINE_NIGHTLY") == "1"
SCENARIOS = 1_000 if NIGHTLY else 25


@pytest.mark.parametrize("spare", [0, garbage.SPARE])
def test_windows_read_from_the_log_equal_the_reference(spare: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "SPARE", spare)
    used, due = 0, LoggedEnds.due

    def counted(self: LoggedEnds, *given: object) -> object:
        nonlocal used
        events = due(self, *given)  # type: ignore[arg-type]
        used += len(events)
        return events

    monkeypatch.setattr(LoggedEnds, "due", counted)
    compared = sum(play(seed) for seed in range(SCENARIOS))
    print(f"windowed aggregates: {compared} cases, {used} rows have left windows")
    assert used > 10 * SCENARIOS
