"""A state buffer and an eviction policy are each one class or function and one entry of a registry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.arrays import Mask
from eddyline.operators.base import Step
from eddyline.operators.build import build
from eddyline.operators.joins.buffer_stem import BufferStem
from eddyline.operators.joins.stem_join import StemJoin
from eddyline.plan import physical
from eddyline.plan.build import plan
from eddyline.plan.explain_physical import explain_physical
from eddyline.plan.physical_planner import physical_plan
from eddyline.state import buffers
from eddyline.state.buffers import BUFFERS, build_buffer
from eddyline.state.buffers.buffer import StateBuffer
from eddyline.state.buffers.eviction import EVICTION_POLICIES, expired
from eddyline.state.buffers.segment import Segment
from eddyline.state.delta import MAX, MIN, Delta
from tests.operators.driving import NO_FUNCTIONS
from tests.plan.running import batches, bind, registered
from tests.state.test_buffers import TYPES, Change, check, delta, insert, rows_of, slots_of
from tests.state.test_buffers import Input as RandomInput

JOIN = "SELECT x.a FROM r [RANGE 3 SECONDS] AS x, s [ROWS 3] AS y, t WHERE x.a = y.a AND y.a = t.a"


class ArrivalOrder(StateBuffer):
    """Segments in the order of arrival, each the rows of one insertion: a buffer that the product does not have."""

    def _arrange(self, inserted: int, clock: int) -> None:
        if len(self.segments) > 5:
            self.expire(clock)


def two_per_key(segments: Sequence[Segment], clock: int) -> list[Mask]:
    """All but the two newest unexpired rows of each key: a policy that the product does not have."""
    dropped = expired(segments, clock)
    seen: Counter[int] = Counter()
    for segment, mask in zip(segments[::-1], dropped[::-1], strict=True):
        for row in np.nonzero(~mask)[0][::-1].tolist():
            seen[int(segment.slots[0][row])] += 1
            mask[row] = seen[int(segment.slots[0][row])] > 2
    return dropped


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "BUFFERS", {**BUFFERS, "arrival order": ArrivalOrder})
    monkeypatch.setattr(buffers, "EVICTION_POLICIES", {**EVICTION_POLICIES, "two per key": two_per_key})


def buffer(kind: str, eviction: str = "expired") -> StateBuffer:
    return build_buffer(physical.Buffer(kind, eviction), TYPES, 2, attached=True, retracts=True)


@pytest.mark.parametrize("kind", [*BUFFERS, "arrival order"])
def test_every_buffer_keeps_its_contract(kind: str) -> None:
    for seed in range(8):
        rnd = Random(seed)
        stored, source = buffer(kind), RandomInput(rnd)
        for clock in range(20):
            insert(stored, source.batch(clock), clock)
            check(stored, source.all, clock, f"seed {seed}")
            if rnd.random() < 0.2:
                saved, stored = stored.save(), buffer(kind)
                stored.load(saved, slots_of)
            if rnd.random() < 0.2:
                stored.expire(clock)
                assert (rows_of(stored).exp >= clock).all()
            check(stored, source.all, clock, f"seed {seed}")


@pytest.mark.parametrize("kind", [*BUFFERS, "arrival order"])
def test_bytes_grow_with_the_rows_and_the_keys_and_shrink_with_them(kind: str) -> None:
    stored = buffer(kind)
    assert stored.nbytes == 0
    sizes = []
    for clock in range(3):
        insert(stored, [((i, "text"), 0, 1, 1, clock, 9) for i in range(100)], clock)
        sizes.append(stored.nbytes)
    assert 100 * (5 * 8 + 3 * 3 * 8) < sizes[0] < sizes[1] < sizes[2]
    stored.expire(10)
    assert stored.nbytes == 0


def changes(kind: str, seed: int) -> list[Counter[Any]]:
    """By step, the changes of a join whose SteMs are buffers of a kind."""
    rnd = Random(seed)
    root = physical_plan(plan(bind(JOIN).query))
    node = next(n for n in root.walk() if isinstance(n, physical.StemJoin))
    node = replace(node, streams=(None,) * len(node.inputs), buffers=(physical.Buffer(kind),) * len(node.inputs))
    assert f"are kept in {kind}" in explain_physical(node)
    join = build(node)
    assert isinstance(join, StemJoin)
    assert {type(s.buffer) for s in join.stems.stems if isinstance(s, BufferStem)} == {buffers.BUFFERS[kind]}
    queries, clock, steps = registered(rnd, bind(JOIN)), MIN, []
    for batch in batches(rnd, 12):
        sent = join.pull(Step("arrivals", clock, batch.clock, queries, NO_FUNCTIONS, batch.streams, batch.tables))
        clock = batch.clock
        numbers = (x.tolist() for x in (sent.sign, sent.ts, sent.exp, sent.first, sent.last))
        steps.append(Counter(zip(*(c.to_pylist() for c in sent.spread().columns), *numbers, strict=True)))
    return steps


def test_a_join_gives_the_same_changes_whichever_buffer_the_plan_names() -> None:
    seen = 0
    for seed in range(4):
        sorted_segments = changes("sorted segments", seed)
        assert changes("arrival order", seed) == sorted_segments, f"seed {seed}"
        seen += sum(c.total() for c in sorted_segments)
    assert seen > 0


@pytest.mark.parametrize("kind", [*BUFFERS, "arrival order"])
def test_a_buffer_obeys_a_new_policy(kind: str) -> None:
    stored = buffer(kind, "two per key")
    rows = list[Change]()
    for clock in range(30):
        rows += [((clock % 3, "a"), 0, clock, 1, clock, MAX), ((3, "b"), 0, clock, 1, clock, clock + 1)]
        insert(stored, rows[-2:], clock)
    stored.expire(30)
    assert sorted(rows_of(stored).first.tolist()) == [24, 25, 26, 27, 28, 29, 29]
    assert probed(stored, 0) == [24, 27]


def probed(stored: StateBuffer, slot: int) -> list[int]:
    """The first arrivals of the rows that a probe by the first key returns."""
    matches = stored.probe(0, np.array([slot]))
    return sorted(int(m.segment.rows.first[row]) for m in matches for _, rows in m.pairs() for row in rows)


def test_insertions_alone_keep_a_buffer_near_the_bound_of_its_policy() -> None:
    stored = buffer("sorted segments", "two per key")
    for clock in range(1000):
        insert(stored, [((clock % 3, "a"), 0, clock, 1, clock, MAX)], clock)
    assert len(stored) < 3 * 2 * 4


def test_every_name_that_plans_use_is_registered() -> None:
    default = physical.Buffer()
    assert default.kind in BUFFERS and default.eviction in EVICTION_POLICIES


def test_a_policy_does_not_change_what_it_is_asked_about() -> None:
    rows = delta([((1, "a"), 0, 1, 1, 0, 3), ((1, "a"), 0, 2, 1, 0, MAX)])
    segment = Segment.of(rows, rows.exp, slots_of(rows))
    for policy in buffers.EVICTION_POLICIES.values():
        before = contents(segment.rows)
        assert [mask.tolist() for mask in policy([segment], 5)] == [[True, False]]
        assert contents(segment.rows) == before


def contents(rows: Delta) -> pa.Table:
    return pa.table({"c0": rows.columns[0], "ts": rows.ts, "exp": rows.exp})
