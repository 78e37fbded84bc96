"""Probing is breadth-first: a push searches every segment of a SteM once per step of a route, however many it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from eddyline.operators.joins.buffer_stem import BufferStem
from eddyline.state.store.key_index import KeyIndex
from tests.local.common import row, world

STREAMS = "SELECT a.b FROM s AS a [RANGE 900 SECONDS], r AS b [RANGE 900 SECONDS], s AS c [RANGE 900 SECONDS]"
DISTINCT = "(SELECT DISTINCT a, b FROM {} [RANGE 900 SECONDS]) AS {}"


def counted(monkeypatch: pytest.MonkeyPatch, calls: Counter[str]) -> None:
    def wrapped(of: type, name: str, weigh: Callable[[Any], int]) -> None:
        original = getattr(of, name)

        def call(self: Any, *given: Any) -> Any:
            calls[of.__name__] += weigh(self)
            calls[f"{of.__name__} calls"] += 1
            return original(self, *given)

        monkeypatch.setattr(of, name, call)

    wrapped(KeyIndex, "counts", lambda index: 1)
    wrapped(KeyIndex, "some_matches", lambda index: 1)
    wrapped(BufferStem, "search", lambda stem: len(stem.buffer.segments))


def test_a_log_is_searched_once_a_step_however_often_it_was_appended_to(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, db = Counter[str](), world()
    counted(monkeypatch, calls)
    db.execute(f"CREATE CONTINUOUS QUERY q AS {STREAMS} WHERE a.a = b.a AND b.a = c.a")
    per_push = set()
    for second in range(120):
        db.push("r", [row(second, a=second % 7, b=1)])
        calls.clear()
        db.push("s", [row(second, a=second % 7, b=1)])
        per_push.add(calls["KeyIndex"])
    assert max(per_push) <= 4, "two origins, two steps each"


def test_segments_are_searched_once_a_step_and_not_once_a_combination(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, db = Counter[str](), world()
    counted(monkeypatch, calls)
    inputs = [DISTINCT.format(stream, name) for stream, name in (("s", "x"), ("r", "y"), ("s", "z"), ("r", "w"))]
    db.execute(
        f"CREATE CONTINUOUS QUERY q AS SELECT x.b FROM {', '.join(inputs)} WHERE x.a = y.a AND y.a = z.a AND z.a = w.a"
    )
    most = 0
    for second in range(150):
        calls.clear()
        db.push({x: [row(second, a=2 * second + i, b=i) for i in range(2)] for x in "rs"})
        (join,) = [o for r in db.engine.running.values() for o in r.root.walk() if type(o).__name__ == "StemJoin"]
        segments = max(len(stem.buffer.segments) for stem in join.stems.stems)
        most = max(most, segments)
        assert calls["BufferStem calls"] <= 2 * 4 * 3, "each input of both pushes probes the three others"
        assert calls["BufferStem"] <= 2 * 4 * 3 * (segments + 1)
    assert most >= 4, "the SteMs had too few segments to tell"
