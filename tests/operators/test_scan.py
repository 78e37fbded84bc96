"""Leaves of a plan: windows set the ends of tuples, tuples behind the clock are not visible, table rows begin now."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest

from eddyline import types as t
from eddyline.operators.base import Step
from eddyline.operators.scan import StreamScan, TableScan
from eddyline.plan import physical
from eddyline.plan.patterns import Pattern
from eddyline.sql.bound import Constant, Expr, Field, Param, StreamSource, TableSource, Window
from eddyline.state.delta import MAX, MIN, Delta
from eddyline.state.query_table import QueryTable
from tests.operators.driving import NO_FUNCTIONS

FIELDS = (Field("a", t.INT), Field("ts", t.TIMESTAMP))
SIZE = Param(0, t.INTERVAL, "w")


def arrived(*ts: int) -> Delta:
    n = len(ts)
    times, ones = np.array(ts, np.int64), np.ones(n, np.int64)
    columns = pa.array(range(n), t.INT), pa.array(times, t.TIMESTAMP)
    return Delta(columns, None, times, np.full(n, MAX, np.int64), ones, np.arange(n), np.arange(n))


def scan(size: Expr | None) -> StreamScan:
    window = Window("unbounded") if size is None else Window("range", size)
    return StreamScan(physical.StreamScan(Pattern.WKS, (), StreamSource("S", "s", FIELDS, 1, window)), ())


def queries(*widths: int | None) -> QueryTable:
    table = QueryTable([Field("w", t.INTERVAL)])
    for w in widths:
        table.add_one("q", [None if w is None else timedelta(microseconds=w)], 0)
    return table


def step(table: QueryTable, rows: Delta, before: int = 0, kind: Literal["arrivals", "replay"] = "arrivals") -> Step:
    return Step(kind, before, before, table.rows(), NO_FUNCTIONS, {"s": rows}, {"t": rows})


@pytest.mark.parametrize(
    ("size", "ends"),
    [
        (None, [MAX, MAX, MAX]),
        (Constant(timedelta(microseconds=5), t.INTERVAL), [10, 12, MAX]),
        (SIZE, [12, 14, MAX]),  # the largest window of the queries; their own ends come later
    ],
)
def test_a_window_sets_the_ends_of_tuples(size: Expr | None, ends: list[int]) -> None:
    delta = scan(size).pull(step(queries(3, 7, None), arrived(5, 7, MAX - 2)))
    assert (delta.ts.tolist(), delta.exp.tolist()) == ([5, 7, MAX - 2], ends)


def test_the_largest_window_follows_the_queries() -> None:
    operator, table = scan(SIZE), queries(3)
    assert operator.pull(step(table, arrived(0))).exp.tolist() == [3]
    table.add_one("q", [timedelta(microseconds=9)], 0)
    assert operator.pull(step(table, arrived(0))).exp.tolist() == [9]


def test_tuples_behind_the_clock_and_tuples_without_queries_are_not_visible() -> None:
    assert scan(None).pull(step(queries(1), arrived(4, 5, 6), before=5)).ts.tolist() == [5, 6]
    table = queries(1)
    table.drop_one(0)
    assert len(scan(None).pull(step(table, arrived(4)))) == len(scan(None).pull(step(queries(), arrived(4)))) == 0


def test_new_queries_are_shown_no_earlier_tuples_but_the_rows_of_tables() -> None:
    assert len(scan(None).pull(step(queries(1), arrived(4), kind="replay"))) == 0
    node = physical.TableScan(Pattern.STR, (), TableSource("T", "t", FIELDS, True))
    delta = TableScan(node, ()).pull(step(queries(1), arrived(MIN, MIN), before=7, kind="replay"))
    assert (delta.ts.tolist(), delta.exp.tolist()) == ([7, 7], [MAX, MAX])
