"""What the eddy does as users see it: EXPLAIN ANALYZE, functions that are called no more often than needed."""

import threading

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.engine import pooling
from eddyline.index.filters.order_search import Ordered, better_order
from eddyline.routing import filter_eddy


def tuples(rows: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {n: rng.integers(0, 100, rows).astype(np.int32) for n in "abc"}
    return pa.table(columns | {"ts": pa.array(np.zeros(rows, np.int64), pa.timestamp("us"))})


def connection(threads: int = 1) -> eddyline.Connection:
    db = eddyline.connect(threads=threads)
    db.execute("CREATE STREAM s (a INT, b INT, c INT, ts TIMESTAMP) WATERMARK ts")
    return db


def explained(db: eddyline.Connection, name: str) -> str:
    return "\n".join(db.execute(f"EXPLAIN ANALYZE {name}").column(0).to_pylist())


def test_explain_shows_visits_selectivities_lookups_and_the_order_in_force() -> None:
    db = connection()
    db.execute("CREATE QUERY FAMILY f (x INT, y INT) AS SELECT a FROM s WHERE a > :x AND b > :y")
    db.register(
        "f", pa.table({"query": ["q0", "q1"], "x": pa.array([10, 10], pa.int32()), "y": pa.array([90, 90], pa.int32())})
    )
    db.push("s", tuples(5000)).count()
    text = explained(db, "f")
    b, a = (next(i for i, line in enumerate(text.splitlines()) if line.strip().startswith(n)) for n in ("b:", "a:"))
    assert b < a, "nine in ten fail b > 90, so it comes first"
    expected = ("entered by 100.0% of rows", "2 predicates, selectivity 0.", "filters entered by a row; order checked")
    assert all(x in text for x in expected)
    assert "attribute lookups of 5000 rows: 10000 for searches, 0 for samples only" in text


def test_portions_of_a_batch_learn_an_order_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of four threads waits in its check of the order until all are there."""
    counts = []
    for threads in (1, 4):
        db, together = connection(threads), threading.Barrier(threads, timeout=60)
        waiting = [together] * threads  # the checks of the first batch

        def held(*given: object, waiting: list[threading.Barrier] = waiting) -> Ordered:
            if waiting:
                waiting.pop().wait()
            return better_order(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(filter_eddy, "better_order", held)
        db.execute("CREATE QUERY FAMILY f (x INT, y INT) AS SELECT a FROM s WHERE a > :x AND b > :y")
        bounds = {n: pa.array(v, pa.int32()) for n, v in (("x", [10, 30]), ("y", [90, 80]))}
        db.register("f", pa.table({"query": ["q0", "q1"], **bounds}))
        counts.append([db.push("s", tuples(8192, seed)).count() for seed in range(4)])
        assert not waiting
        assert "attribute lookups of 32768 rows" in explained(db, "f")
    assert counts[0] == counts[1] and min(counts[0]) > 0


def test_explain_shows_the_pool_of_texts_of_different_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling, "FEWEST_FAMILIES", 2)
    db = connection()
    db.execute("CREATE CONTINUOUS QUERY q1 AS SELECT a FROM s WHERE a > 90")
    db.execute("CREATE CONTINUOUS QUERY q2 AS SELECT a FROM s WHERE a > 90 AND c < 5")
    db.push("s", tuples(1000)).count()
    assert "in the pool of s: 2 queries of 2 families" in explained(db, "q2")


def test_a_function_is_called_only_for_what_the_ranges_leave() -> None:
    calls = []
    db = connection()
    db.function("odd", lambda x: calls.append(x) or x % 2 == 1, ["INT"], "BOOLEAN")
    db.execute("CREATE QUERY FAMILY f (x INT) AS SELECT a FROM s WHERE odd(b) AND a = :x")
    db.register("f", pa.table({"query": ["q0", "q1"], "x": pa.array([7, 7], pa.int32())}))
    given = tuples(5000)
    found = db.push("s", given).count()
    a, b = (given.column(n).to_numpy() for n in "ab")
    assert found == 2 * int(((a == 7) & (b % 2 == 1)).sum())
    assert len(calls) == int((a == 7).sum()), "once for each row, whatever the number of queries"


@pytest.mark.parametrize("fanout", [1, 20])
def test_a_function_over_one_input_of_a_join_is_called_once_for_each_tuple_and_query(fanout: int) -> None:
    calls = []
    db = eddyline.connect(threads=1)
    db.execute("CREATE STREAM quotes (symbol INT, price INT, ts TIMESTAMP) WATERMARK ts")
    db.execute("CREATE STREAM articles (symbol INT, ts TIMESTAMP) WATERMARK ts")
    db.function("wanted", lambda price, p: calls.append(price) or price > p, ["INT", "INT"], "BOOLEAN")
    db.execute(
        "CREATE QUERY FAMILY f (p INT) AS SELECT q.symbol FROM quotes AS q, articles AS x "
        "WHERE q.symbol = x.symbol AND wanted(q.price, :p)"
    )
    db.register("f", pa.table({"query": ["q0", "q1"], "p": pa.array([10, 50], pa.int32())}))
    moment = pa.array(np.zeros(10 * fanout, np.int64), pa.timestamp("us"))
    symbols = np.repeat(np.arange(10, dtype=np.int32), fanout)
    db.push("articles", pa.table({"symbol": symbols, "ts": moment}))
    prices = np.arange(0, 100, 10, dtype=np.int32)
    quotes = {"symbol": np.arange(10, dtype=np.int32), "price": prices, "ts": moment[:10]}
    found = db.push("quotes", pa.table(quotes)).count()
    assert found == fanout * int((prices > 10).sum() + (prices > 50).sum())
    assert len(calls) == 20
    assert "of 10 tuples called functions before they probed" in explained(db, "f")


def test_stats_count_lookups_for_searches_and_for_samples_across_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of the index are replaced as queries are registered; what they counted stays."""
    db = connection()
    db.execute("CREATE QUERY FAMILY f (x INT, y INT) AS SELECT a FROM s WHERE a > :x AND b > :y")
    for i in range(3):
        bounds = {"x": pa.array([99 - i], pa.int32()), "y": pa.array([10], pa.int32())}
        db.register("f", pa.table({"query": [f"q{i}"], **bounds}))
        db.push("s", tuples(3000, i)).count()
    found = db.stats()["lookups"]
    assert found == db.stats()["families"]["f"]["lookups"]
    assert found["rows"] == 9000 and found["searches"] >= 9000
    text = explained(db, "f")
    last = int(text.partition("attribute lookups of ")[2].partition(" ")[0])
    assert last < 9000, "the index shows the runs in force"


def test_stats_count_lookups_of_a_pool_by_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling, "FEWEST_FAMILIES", 2)
    db = connection()
    db.execute("CREATE CONTINUOUS QUERY q1 AS SELECT a FROM s WHERE a > 90")
    db.execute("CREATE CONTINUOUS QUERY q2 AS SELECT a FROM s WHERE a > 90 AND c < 5")
    assert db.stats()["lookups"] == {"rows": 0, "searches": 0, "samples": 0}
    db.push("s", tuples(1000)).count()
    found = db.stats()
    assert found["streams"]["s"]["pooled_lookups"] == found["lookups"]
    assert found["lookups"]["rows"] == 1000 and found["lookups"]["searches"] >= 1000
