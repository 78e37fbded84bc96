"""Lazy evaluation and expiration against the reference: every class of query, tau from 1% of a window to several."""

from __future__ import annotations

import os

import pytest

from tests.oracle.lazy import KINDS, play
from tests.oracle.test_oracle import tidy as tidy

NIGHTLY = os.environ.get("EDDYLINE_NIGHTLY") == "1"
SCENARIOS = 300 if NIGHTLY else 6


@pytest.mark.parametrize("kind", KINDS)
def test_answers_do_not_depend_on_when_queries_are_evaluated_and_expired(kind: str) -> None:
    compared = sum(play(kind, seed) for seed in range(SCENARIOS))
    assert compared >= SCENARIOS // 2


@pytest.mark.parametrize("kind", KINDS)
def test_upkeep_changes_no_answer_of_a_lazy_query(kind: str, tidy: None) -> None:
    assert sum(play(kind, 1_000_000 + seed) for seed in range(40 if NIGHTLY else 5))
