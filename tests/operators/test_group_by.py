"""GROUP BY driven directly: after every step, at every instant, a group has the reference results of its values.

Every registered aggregate over every type it takes, alone and with others; rows begin, end, are retracted and become
late ties; any cut into steps; state is saved and loaded in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline import types as t
from eddyline.aggregates import AGGREGATES
from eddyline.operators.base import Operator, Step
from eddyline.operators.evaluate import Functions
from eddyline.operators.group_by import GroupBy
from eddyline.plan import physical
from eddyline.plan.patterns import Pattern
from eddyline.reference import canonical
from eddyline.reference.values import fit
from eddyline.sql.bound import Aggregate, Column
from eddyline.state.delta import MAX, Delta
from eddyline.state.query_table import QueryTable

VALUES: dict[pa.DataType, list[Any]] = {
    t.BIGINT: [None, 0, 1, -7, 2**62, 2**62, -(2**63)],
    t.DOUBLE: [None, 0.0, -0.0, 0.1, 1e300, -1e300, 5e-324, 1e16, float("nan"), float("inf"), float("-inf")],
    t.STRING: [None, "", "a", "ab", "é"],
    t.BOOLEAN: [None, True, False],
}
CALLS = [
    Aggregate(f.name, Column(1, given, "x"), result)
    for f in AGGREGATES.values()
    for type_ in VALUES
    for given, result in [f.types(type_) or (None, None)]
    if given == type_
]
KEY = Column(0, t.INT, "k")
NO_FUNCTIONS = Functions({}, {})


def type_of(call: Aggregate) -> pa.DataType:
    """The type of its argument."""
    assert call.argument is not None
    return call.argument.type


@dataclass(frozen=True)
class Change:
    key: int | None
    value: Any
    ts: int
    exp: int
    sign: int


@dataclass(frozen=True)
class GivenNode(physical.PhysicalNode):
    """The node of an input whose changes belong to single queries."""

    given_types: tuple[pa.DataType, ...]

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return self.given_types

    @property
    def attached(self) -> bool:
        return True


class Given(Operator):
    """An input that gives the changes it was handed last."""

    def __init__(self, node: GivenNode) -> None:
        super().__init__(node, ())
        self.given: list[Change] = []

    def pull(self, step: Step) -> Delta:
        n = len(self.given)
        keys, values = [c.key for c in self.given], [c.value for c in self.given]
        return Delta(
            (pa.array(keys, self.types[0]), pa.array(values, self.types[1])),
            None,
            np.array([c.ts for c in self.given], np.int64),
            np.array([c.exp for c in self.given], np.int64),
            np.array([c.sign for c in self.given], np.int64),
            np.zeros(n, np.int64),
            np.zeros(n, np.int64),
            np.zeros(n, np.int64),
        )


def rows(rnd: Random, type_: pa.DataType, clock: int, n: int) -> list[Change]:
    begins = [clock + rnd.randint(0, 3) for _ in range(n)]
    return [
        Change(
            rnd.choice([None, 1, 2]), rnd.choice(VALUES[type_]), ts, rnd.choice([ts, ts + rnd.randint(0, 6), MAX]), 1
        )
        for ts in begins
    ]


def retractions(rnd: Random, live: list[Change], clock: int) -> list[Change]:
    """Some rows leave before their end."""
    left = [c for c in live if rnd.random() < 0.2 and c.exp > clock]
    for c in left:
        live.remove(c)
    return [Change(c.key, c.value, max(c.ts, clock + 1), c.exp, -1) for c in left]


def expected(changes: Sequence[Change], aggregates: Sequence[Aggregate], instant: int, keyed: bool) -> Counter[Any]:
    """The answer at an instant: the reference results over the values of each group."""
    groups: dict[Any, list[Any]] = {} if keyed else {(): []}
    held = Counter[tuple[Any, str]]()
    values: dict[tuple[Any, str], Any] = {}
    for c in changes:
        if c.ts <= instant <= c.exp:
            row = ((c.key,) if keyed else ()), repr(c.value)
            held[row] += c.sign
            values[row] = c.value
    for row, copies in held.items():
        if copies:
            groups.setdefault(row[0], []).extend([values[row]] * copies)
    answer = Counter[Any]()
    for key, members in groups.items():
        given = [v for v in members if v is not None]
        of = [members if a.argument is None else given for a in aggregates]
        results = [AGGREGATES[a.function].reference(v) for a, v in zip(aggregates, of, strict=True)]
        answer[canonical((*key, *(fit(r, a.type) for r, a in zip(results, aggregates, strict=True))))] += 1
    return answer


def fold(sent: Sequence[Delta], instant: int) -> Counter[Any]:
    answer = Counter[Any]()
    for delta in sent:
        columns = [c.to_pylist() for c in delta.spread().columns]
        for i in range(len(delta)):
            if delta.ts[i] <= instant <= delta.exp[i]:
                answer[canonical(tuple(c[i] for c in columns))] += int(delta.sign[i])
    return Counter({row: n for row, n in answer.items() if n})


def play(seed: str, type_: pa.DataType, aggregates: Sequence[Aggregate], *, retracts: bool) -> None:
    try:
        _play(Random(seed), type_, tuple(aggregates), retracts=retracts)
    except BaseException as e:
        e.add_note(f"seed {seed!r}, {aggregates}")
        raise


def _play(rnd: Random, type_: pa.DataType, aggregates: tuple[Aggregate, ...], *, retracts: bool) -> None:
    keyed = rnd.random() < 0.7
    queries = QueryTable(())
    queries.add_one("q", (), 0)

    def operator() -> tuple[Given, GroupBy]:
        child = Given(GivenNode(Pattern.STR if retracts else Pattern.WKS, (), (t.INT, type_)))
        keys = (KEY,) if keyed else ()
        buffers = (physical.Buffer(),) * len(aggregates)
        return child, GroupBy(physical.GroupBy(Pattern.STR, (child.node,), keys, aggregates, None, buffers), [child])

    def step(now: int) -> Step:
        return Step("replay" if now == 0 else "arrivals", clock, now, queries.rows(), NO_FUNCTIONS)

    child, grouping = operator()
    clock, given, live = 0, list[Change](), list[Change]()
    sent = [grouping.pull(step(0))]
    for _ in range(8):
        new = rows(rnd, type_, clock, rnd.randint(0, 6))
        child.given = [*new, *(retractions(rnd, live, clock) if retracts else [])]
        given += child.given
        live += new
        now = clock + rnd.randint(0, 4)
        sent.append(grouping.pull(step(now)))
        clock = now
        assert fold(sent, clock) == expected(given, aggregates, clock, keyed)
        if rnd.random() < 0.2:
            saved = grouping.save()
            child, grouping = operator()
            grouping.load(saved, NO_FUNCTIONS)
    for instant in range(clock + 1):
        assert fold(sent, instant) == expected(given, aggregates, instant, keyed), instant


@pytest.mark.parametrize("retracts", [False, True], ids=["rows that only end", "rows that are retracted"])
@pytest.mark.parametrize("call", CALLS, ids=lambda a: f"{a.function} of {t.name_of(type_of(a))}")
def test_an_aggregate_has_its_reference_result_at_every_instant(call: Aggregate, retracts: bool) -> None:
    for seed in range(12):
        play(f"{call.function}{seed}", type_of(call), (call,), retracts=retracts)


@pytest.mark.parametrize("type_", VALUES, ids=t.name_of)
def test_aggregates_beside_each_other_do_not_disturb_each_other(type_: pa.DataType) -> None:
    of_type = [c for c in CALLS if type_of(c) == type_]
    rows_of_group = Aggregate("count", None, t.BIGINT)
    for seed in range(12):
        rnd = Random(seed)
        chosen = [rnd.choice([*of_type, rows_of_group]) for _ in range(rnd.randint(0, 4))]
        play(f"{type_}{seed}", type_, chosen, retracts=seed % 2 == 0)
