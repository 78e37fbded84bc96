"""Queries of the same text, registered at different moments, against the reference; their classes merge meanwhile."""

from __future__ import annotations

import os

import pytest

from eddyline.operators.cluster import Cluster
from tests.oracle.twins import play

NIGHTLY = os.environ.get("EDDYLINE_NIGHTLY") == "1"
SCENARIOS = 1_000 if NIGHTLY else 25


def test_merged_classes_equal_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    merged, join = 0, Cluster._join

    def counted(self: Cluster, classes: object, older: dict[int, int]) -> None:
        nonlocal merged
        merged += len(older)
        join(self, classes, older)  # type: ignore[arg-type]

    monkeypatch.setattr(Cluster, "_join", counted)
    compared = sum(play(seed) for seed in range(SCENARIOS))
    print(f"twins: {compared} cases, {merged} classes merged")
    assert merged > SCENARIOS // 10
