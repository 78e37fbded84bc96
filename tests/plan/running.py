"""Plans of SQL texts over a small schema, and a way to run any plan on random input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline import types as t
from eddyline.operators.base import Step
from eddyline.operators.build import build
from eddyline.operators.evaluate import Functions
from eddyline.plan.nodes import Join, Node, Select, TableJoin
from eddyline.plan.physical_planner import physical_plan
from eddyline.plan.rules import with_inputs
from eddyline.sql.binder import bind_family, bind_standing
from eddyline.sql.bound import BoundQuery, Field
from eddyline.sql.catalog import Catalog, Stream, Table
from eddyline.sql.parser import parse
from eddyline.sql.statements import CreateFamily
from eddyline.state.delta import MAX, MIN, NO_ARRIVAL, Delta
from eddyline.state.query_table import QueryRows, QueryTable

SECOND = 1_000_000
ROW = (Field("a", t.INT), Field("b", t.BIGINT), Field("c", t.DOUBLE), Field("n", t.STRING))
STREAMS = {name: (*ROW, Field("ts", t.TIMESTAMP)) for name in ("r", "s", "link1", "link2", "link3")}


def catalog() -> Catalog:
    """Streams r, s and three links of (a, b, c, n, ts); a table t, and a table u that is not retroactive."""
    found = Catalog()
    for name, fields in STREAMS.items():
        found.add(Stream(name, fields, 4, 0))
    found.add(Table("t", ROW, (), True))
    found.add(Table("u", ROW, (), False))
    return found


def bind(sql: str) -> BoundQuery:
    """A query, or a family: CREATE QUERY FAMILY …"""
    body = parse(sql)[0].body
    if isinstance(body, CreateFamily):
        return bind_family(catalog(), body.query, body.params).bound
    return bind_standing(catalog(), body.query).bound


def plainly(node: Node) -> Node:
    """The plan with every join as a selection over a product, which is what a join means."""
    node = with_inputs(node, tuple(plainly(i) for i in node.inputs)) if node.inputs else node
    if isinstance(node, Join | TableJoin) and node.condition is not None:
        return Select(replace(node, condition=None), node.condition)
    return node


@dataclass
class Batch:
    clock: int
    streams: dict[str, Delta]
    tables: dict[str, Delta]


def values(rnd: Random, field: Field) -> Any:
    if rnd.random() < 0.1:
        return None
    if field.type == t.STRING:
        return rnd.choice(["a", "ab", "b"])
    return rnd.choice([0.0, 0.5, 2.0]) if field.type == t.DOUBLE else rnd.randint(0, 3)


def columns(rnd: Random, n: int) -> list[pa.Array]:
    return [pa.array([values(rnd, f) for _ in range(n)], f.type) for f in ROW]


def batches(rnd: Random, steps: int = 8) -> list[Batch]:
    """Tuples at or ahead of the clock, rows that enter and leave tables, and time that passes."""
    found, clock, arrival = [], 0, 0
    contents: dict[str, list[tuple[Any, ...]]] = {"t": [], "u": []}
    for _ in range(steps):
        batch = Batch(clock + rnd.choice([0, 1, 1, 3]) * SECOND, {}, {})
        if not found or rnd.random() < 0.3:
            batch.clock = clock  # tables change while the clock stands
            for name, rows in contents.items():
                gone = [row for row in rows if rnd.random() < 0.3]
                new = list(zip(*(c.to_pylist() for c in columns(rnd, 2 if found else 5)), strict=True))
                contents[name] = [row for row in rows if row not in gone] + new
                batch.tables[name] = table_changes([row for row in rows if row in gone], new)
        else:
            for name in rnd.sample(list(STREAMS), 4):
                n = rnd.randint(0, 4)
                ts = np.array([clock + rnd.randint(0, 4) * SECOND for _ in range(n)], np.int64)
                numbers = np.arange(arrival, arrival + n)
                arrival += n
                data = (*columns(rnd, n), pa.array(ts, t.TIMESTAMP))
                ones = np.ones(n, np.int64)
                batch.streams[name] = Delta(data, None, ts, np.full(n, MAX, np.int64), ones, numbers, numbers)
        clock = batch.clock
        found.append(batch)
    return [*found, Batch(clock + 2 * SECOND, {}, {}), Batch(clock + 9 * SECOND, {}, {})]


def table_changes(gone: list[tuple[Any, ...]], new: list[tuple[Any, ...]]) -> Delta:
    rows, n = gone + new, len(gone) + len(new)
    data = tuple(pa.array([row[i] for row in rows], f.type) for i, f in enumerate(ROW))
    sign = np.array([-1] * len(gone) + [1] * len(new), np.int64)
    never, none = np.full(n, MAX, np.int64), np.full(n, NO_ARRIVAL, np.int64)
    return Delta(data, None, np.full(n, MIN, np.int64), never, sign, never, none)


def registered(rnd: Random, bound: BoundQuery) -> QueryRows:
    """The query of a text, or three queries of a family with random parameters."""
    table = QueryTable(bound.params)
    if bound.values or not bound.params:
        table.add_one("q", bound.values, 0)
    else:
        for i in range(3):
            table.add_one(f"q{i}", [values(rnd, f) for f in bound.params], 0)
    return table.rows()


def answers(plan: Node, queries: QueryRows, steps: Sequence[Batch]) -> Counter[tuple[Any, ...]]:
    """How often each row is in each query's answer, at every second of the run and just after it."""
    root, clock, found = build(physical_plan(plan)), MIN, list[Delta]()
    found.append(root.pull(Step("replay", clock, clock, queries, Functions({}, {}))).spread())
    for batch in steps:
        step = Step("arrivals", clock, batch.clock, queries, Functions({}, {}), batch.streams, batch.tables)
        found.append(root.pull(step).spread())
        clock = batch.clock
    instants = [s * SECOND + us for s in range(clock // SECOND) for us in (0, 1)]
    counted: Counter[tuple[Any, ...]] = Counter()
    for delta in found:
        if not len(delta):
            continue
        rows = zip(*(c.to_pylist() for c in delta.columns), strict=True)
        assert delta.query is not None
        numbers = zip(*(x.tolist() for x in (delta.query, delta.sign, delta.ts, delta.exp)), strict=True)
        for row, (query, sign, ts, exp) in zip(rows, numbers, strict=True):
            for instant in instants:
                if ts <= instant <= exp:
                    counted[query, row, instant] += sign
    assert min(counted.values(), default=0) >= 0, "an answer holds a row less than no times"
    return +counted
