"""What a pipeline does where a function gives something that is no value: its queries fail, or it is counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.engine.running_family import RunningFamily, arrived
from eddyline.spark.worker.guard import WorkerGuard
from eddyline.state.delta import Delta
from tests.local.common import world


def step(kind: Any, body: Any, on_error: Any) -> tuple[RunningFamily, Delta, list[Any]]:
    """A step of two queries, one of which calls a function for two of three rows."""
    db = world()
    db.function("f", body, ["INT"], "BOOLEAN", kind)
    db.execute("CREATE QUERY FAMILY g (p INT) AS SELECT a FROM s WHERE a < :p AND f(a + :p)")
    db.register("g", [{"query": "calls", "p": 3}, {"query": "does not", "p": 0}])
    (running,) = db.engine.running.values()
    columns = [
        pa.array([1, 2, 3], pa.int32()) if x.name == "a" else pa.nulls(3, x.type)
        for x in db.catalog.streams["s"].fields
    ]
    batch = arrived(columns, np.zeros(3, np.int64), 0)
    queries = running.family.queries.rows()
    guard = WorkerGuard(on_error)
    found = guard.attempt(running, lambda: running.run(running.step(0, queries, {"s": batch})))
    assert isinstance(found, Delta)
    failed, families = guard.take()
    assert not families
    return running, found, failed


@pytest.mark.parametrize(("kind", "body"), [("scalar", lambda x: [x]), ("arrow", lambda x: x), ("pandas", lambda x: 1)])
def test_a_function_that_returns_the_wrong_kind_of_thing_fails_the_queries_that_call_it(kind: Any, body: Any) -> None:
    running, found, (bad,) = step(kind, body, "quarantine")
    assert not len(found)
    assert running.family.queries.rows().name_of(bad.queries).to_pylist() == ["calls"]
    assert "The function 'f' failed for" in bad.error and "TypeError" in bad.error


def test_where_queries_go_on_it_is_counted_for_the_report_of_the_batch() -> None:
    running, _, bad = step("scalar", lambda x: [x], "null")
    assert bad == []
    (warning,) = running.functions.take_noted()
    assert warning.function == "f" and warning.rows >= 2 and warning.first.startswith("f(4): TypeError")
