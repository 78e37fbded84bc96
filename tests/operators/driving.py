"""Drives one operator directly: random changes in, in random batches, and its answer at every instant compared.

The reference of a test is a few plain lines: from the changes of the inputs, the answer at one instant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline import types as t
from eddyline.operators.base import Operator, Step
from eddyline.operators.build import OPERATORS
from eddyline.operators.evaluate import Functions
from eddyline.plan.patterns import Pattern
from eddyline.plan.physical import PhysicalNode
from eddyline.sql.bound import Call, Column, Expr, Field, Param
from eddyline.state.delta import MAX, Delta
from eddyline.state.query_table import QueryTable

NO_FUNCTIONS = Functions({}, {})
TYPES = (t.INT, t.INT)
A, B = Column(0, t.INT, "a"), Column(1, t.INT, "b")
LEAST, MOST = Param(0, t.INT, "least"), Param(1, t.INT, "most")
PARAMS = (Field("least", t.INT), Field("most", t.INT))
Answer = Counter[tuple[int | None, tuple[Any, ...]]]  # how often each (query, row) is in the answer


@dataclass(frozen=True)
class Change:
    row: tuple[Any, ...]
    ts: int
    exp: int
    sign: int = 1
    arrival: int = 0
    query: int | None = None


@dataclass(frozen=True)
class GivenNode(PhysicalNode):
    """The node of an input whose changes the test hands over; rows of a monotonic one do not end."""

    given_types: tuple[pa.DataType, ...]
    per_query: bool

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return self.given_types

    @property
    def attached(self) -> bool:
        return self.per_query

    @property
    def reads_streams(self) -> bool:
        return True


def given(*, per_query: bool, retracts: bool = False, ends: bool = True) -> GivenNode:
    return GivenNode(Pattern.STR if retracts else Pattern.WK if ends else Pattern.MONOTONIC, (), TYPES, per_query)


class Given(Operator):
    """An input that gives the changes it was handed last, once; in a shuffled, partly unused set of rows."""

    def __init__(self, node: GivenNode) -> None:
        super().__init__(node, ())
        self.changes: list[Change] = []

    def pull(self, step: Step) -> Delta:
        changes, self.changes = self.changes, []
        return delta_of(changes, self.types, attached=self.attached, shared_rows=len(changes) % 2 == 0)


def delta_of(
    changes: Sequence[Change], types: Sequence[pa.DataType], *, attached: bool, shared_rows: bool = False
) -> Delta:
    """Changes as a delta; with `shared_rows`, equal rows are stored once, and a row that no change has is there too."""
    rows, which = [c.row for c in changes], None
    if shared_rows and changes:
        distinct = [*dict.fromkeys(rows), rows[0]]
        which = np.array([distinct.index(row) for row in rows], np.int64)
        rows = distinct
    ts, exp, sign, arrival = (
        np.array([getattr(c, name) for c in changes], np.int64) for name in ("ts", "exp", "sign", "arrival")
    )
    query = np.array([c.query for c in changes], np.int64) if attached else None
    columns = tuple(pa.array([row[i] for row in rows], type_) for i, type_ in enumerate(types))
    return Delta(columns, which, ts, exp, sign, arrival, arrival, query)


def changes_of(delta: Delta) -> list[Change]:
    delta = delta.spread()
    rows = list(zip(*(c.to_pylist() for c in delta.columns), strict=True)) if delta.columns else [()] * len(delta)
    query = [None] * len(delta) if delta.query is None else delta.query.tolist()
    numbers = zip(delta.ts.tolist(), delta.exp.tolist(), delta.sign.tolist(), delta.last.tolist(), query, strict=True)
    return [Change(row, *n) for row, n in zip(rows, numbers, strict=True)]


def answer(changes: Iterable[Change], instant: int) -> Answer:
    """The answer that changes fold to at an instant."""
    rows = Answer()
    for c in changes:
        if c.ts <= instant <= c.exp:
            rows[c.query, c.row] += c.sign
    return Answer({row: n for row, n in rows.items() if n})


def held(changes: Iterable[Change], instant: int) -> Iterator[Change]:
    """The rows that changes fold to at an instant, each as often as it is there, as the `+` that sent it."""
    rows = Counter[Change]()
    for c in changes:
        if c.ts <= instant <= c.exp:
            rows[replace(c, ts=0, sign=1)] += c.sign
    return rows.elements()


class Source:
    """Random changes of one input: rows of few values, so that twins are common; rows end, and may be retracted."""

    def __init__(self, rnd: Random, node: GivenNode) -> None:
        self.rnd, self.node = rnd, node
        self.changes: list[Change] = []
        self.live: list[Change] = []

    def batch(self, clock: int, queries: Sequence[int], arrival: int) -> list[Change]:
        rnd = self.rnd
        new = []
        for _ in range(rnd.choice([0, 1, 2, 5])):
            ts = clock + rnd.randint(0, 3)
            row = tuple(rnd.choice([None, 0, 1, 2]) for _ in self.node.given_types)
            query = rnd.choice(queries) if self.node.per_query else None
            ends = self.node.pattern is not Pattern.MONOTONIC
            exp = rnd.choice([ts, ts + rnd.randint(0, 6), MAX]) if ends else MAX
            new.append(Change(row, ts, exp, 1, arrival + len(new), query))
        gone = [c for c in self.live if self.node.retracts and rnd.random() < 0.2 and c.exp > clock]
        for c in gone:
            self.live.remove(c)
        self.live += new
        batch = [replace(c, ts=max(c.ts, clock + 1), sign=-1) for c in gone] + new
        self.changes += batch
        return batch

    def forget(self, query: int) -> None:
        self.live = [c for c in self.live if c.query != query]
        self.changes = [c for c in self.changes if c.query != query]


@dataclass(frozen=True)
class Query:
    id: int
    least: int
    most: int
    since: int  # the first arrival that is visible to it
    clock: int  # when it was registered


Reference = Callable[[list[list[Change]], list[Query], int], Answer]  # changes by input, live queries, the instant


def check(node: PhysicalNode, reference: Reference, fold: Callable[..., Answer] = answer, seeds: int = 8) -> None:
    """Compares an operator, and those between it and its given inputs, with its reference at every instant.

    Queries are registered and dropped, and state is saved and loaded, between the batches."""
    sent = 0
    for seed in range(seeds):
        try:
            sent += run(Random(seed), node, reference, fold)
        except BaseException as e:
            e.add_note(f"seed {seed}")
            raise
    assert sent > 0, "nothing was compared"


def built(node: PhysicalNode, leaves: list[Given]) -> Operator:
    """The operators of a plan; those of the given inputs are added to `leaves`."""
    if isinstance(node, GivenNode):
        leaves.append(Given(node))
        return leaves[-1]
    return OPERATORS[type(node)](node, [built(i, leaves) for i in node.inputs])


def run(rnd: Random, node: PhysicalNode, reference: Reference, fold: Callable[..., Answer]) -> int:
    """One random input; returns how many changes the operator sent."""
    children = list[Given]()
    operator = built(node, children)
    sources = [Source(rnd, c.node) for c in children if isinstance(c.node, GivenNode)]
    table, queries, clock, arrival = QueryTable(PARAMS), list[Query](), 0, 0
    sent: list[Change] = []

    def compare(instant: int) -> None:
        live = {q.id for q in queries} | {None}
        expected = reference([s.changes for s in sources], queries, instant)
        assert fold([c for c in sent if c.query in live], instant) == expected, f"at {instant}"

    for _ in range(12):
        if len(queries) < 2 or rnd.random() < 0.2:
            least, most = rnd.randint(0, 2), rnd.randint(0, 2)
            queries.append(Query(table.add_one("q", [least, most], arrival), least, most, arrival, clock))
            initial = Step("replay", clock, clock, table.rows().only(np.array([queries[-1].id])), NO_FUNCTIONS)
            sent += changes_of(operator.pull(initial))
        elif rnd.random() < 0.1:
            gone = queries.pop(rnd.randrange(len(queries)))
            table.drop(np.array([gone.id]))
            operator.forget(np.array([gone.id]))
            for s in sources:
                s.forget(gone.id)
        for child, source in zip(children, sources, strict=True):
            child.changes = source.batch(clock, [q.id for q in queries], arrival)
            arrival += len(child.changes)
        now = clock + rnd.randint(0, 4)
        sent += changes_of(operator.pull(Step("arrivals", clock, now, table.rows(), NO_FUNCTIONS)))
        clock = now
        compare(clock)
        if rnd.random() < 0.3:
            saved, children = [o.save() for o in operator.walk()], []
            operator = built(node, children)
            for o, state in zip(operator.walk(), saved, strict=True):
                o.load(state, NO_FUNCTIONS)
    for instant in range(clock + 1):
        compare(instant)
    return len(sent)


def call(function: str, *args: Expr) -> Call:
    """A condition."""
    return Call(function, args, t.BOOLEAN)
