"""User functions before or after a join: which is chosen, for which tuples they are called, and which queries fail."""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.operators.evaluate import Failure
from eddyline.operators.joins import routed_functions, timed_route, tuple_lineage
from eddyline.operators.joins.routed_functions import RoutedFunctions
from eddyline.operators.joins.stem_join import StemJoin
from tests.local.common import row, world

PLACES = [0, 1]  # before and after the only probe of a join of two inputs


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that advances by a microsecond whenever it is read."""
    ticks = count()
    clock = SimpleNamespace(perf_counter=lambda: next(ticks) * 1e-6)
    for module in (routed_functions, timed_route, tuple_lineage):
        monkeypatch.setattr(module, "time", clock)


def joined(function: str, condition: str, partners: int) -> tuple[eddyline.Connection, list[int]]:
    """A join of quotes with articles on the symbol; symbols 0 to 9 have so many articles."""
    calls: list[int] = []

    def wanted(price: int) -> bool:
        calls.append(price)
        return price % 2 == 0

    db = eddyline.connect(threads=1)
    db.execute("CREATE STREAM quotes (symbol INT, price INT, ts TIMESTAMP) WATERMARK ts")
    db.execute("CREATE STREAM articles (symbol INT, id INT, ts TIMESTAMP) WATERMARK ts")
    db.function(function, wanted, ["INT"], "BOOLEAN")
    db.execute(f"CREATE CONTINUOUS QUERY q AS SELECT q.price, x.id FROM quotes AS q, articles AS x WHERE {condition}")
    symbols = np.repeat(np.arange(10, dtype=np.int32), partners)
    db.push(
        "articles", pa.table({"symbol": symbols, "id": np.arange(len(symbols), dtype=np.int32), "ts": moments(symbols)})
    )
    return db, calls


def moments(of: Any) -> pa.Array:
    return pa.array(np.zeros(len(of), np.int64), pa.timestamp("us"))


def quotes(symbols: np.ndarray[Any, Any]) -> pa.Table:
    return pa.table(
        {"symbol": symbols.astype(np.int32), "price": np.arange(len(symbols), dtype=np.int32), "ts": moments(symbols)}
    )


def tactic(db: eddyline.Connection) -> RoutedFunctions:
    (running,) = db.engine.running.values()
    (join,) = [o for o in running.root.walk() if isinstance(o, StemJoin)]
    (found,) = [t for tactics in join.tactics for t in tactics if isinstance(t, RoutedFunctions)]
    return found


CONDITIONS = [
    "q.symbol = x.symbol AND wanted(q.price)",
    "q.symbol = x.symbol AND wanted(q.price) AND q.price >= 0",
    "q.symbol = x.symbol AND wanted(q.price) AND q.price % 10 >= 0 AND (x.id >= 0 OR q.price = 1)",
    "q.symbol = x.symbol AND wanted(q.price) AND x.id >= 0 AND q.price + x.id >= 0",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_where_few_tuples_have_partners_functions_are_called_for_those_only(condition: str, steady: None) -> None:
    db, calls = joined("wanted", condition, 1)
    given = quotes(np.where(np.arange(2000) % 100 == 0, 1, 50))
    assert db.push("quotes", given).count() == 20
    assert sorted(calls) == list(range(0, 2000, 100))
    assert "0.0% of 2000 tuples called functions before they probed" in db.explain("q", analyze=True)


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("place", PLACES)
def test_functions_are_called_once_for_a_tuple_whatever_the_number_of_its_partners(
    monkeypatch: pytest.MonkeyPatch, place: int, condition: str
) -> None:
    monkeypatch.setattr(RoutedFunctions, "place", lambda *_: place)
    db, calls = joined("wanted", condition, 20)
    assert db.push("quotes", quotes(np.arange(12))).count() == 5 * 20
    assert sorted(calls) == list(range(12 if place == 0 else 10))


@pytest.mark.parametrize("condition", CONDITIONS)
def test_functions_of_stored_tuples_are_called_once_for_a_tuple_that_many_arriving_ones_join(condition: str) -> None:
    db, calls = joined("wanted", condition, 0)
    db.push("quotes", quotes(np.arange(10)))
    calls.clear()
    symbols = np.repeat(np.arange(4, dtype=np.int32), 30)
    ids = np.arange(len(symbols), dtype=np.int32)
    found = db.push("articles", pa.table({"symbol": symbols, "id": ids, "ts": moments(symbols)})).count()
    assert found == 2 * 30 and sorted(calls) == [0, 1, 2, 3]


def test_a_declared_family_keeps_its_ranges_and_calls_functions_first() -> None:
    db, _ = joined("wanted", CONDITIONS[0], 1)
    joining = "SELECT q.price FROM quotes AS q, articles AS x WHERE q.symbol = x.symbol AND wanted(q.price)"
    db.execute(f"CREATE QUERY FAMILY f (p INT) AS {joining} AND q.price > :p")
    assert "meets groups of ranges" in db.explain("f") and "before or after it probes" not in db.explain("f")
    db.execute(f"CREATE QUERY FAMILY g (p INT) WITH (strategy = 'by row') AS {joining} AND q.price > :p")
    assert "meets groups of ranges" not in db.explain("g") and "before or after it probes" in db.explain("g")


def test_the_place_follows_the_measured_cost_pass_rate_and_partners() -> None:
    db, _ = joined("wanted", CONDITIONS[0], 1)
    routed = tactic(db)

    def place(cost: float, passing: int, stems: float, met: int) -> str:
        routed.eddy.accounts.clear()
        routed._learn("functions", 100, passing, 100 * cost)
        routed.route.learn(0, 100, met, met, 100 * stems)
        (running,) = db.engine.running.values()
        step = running.step(0, running.family.queries.rows(), {})
        return ["before", "after"][routed.place(step, running.root.none())]

    assert place(100e-6, 50, 1e-6, 1) == "after", "hardly a tuple has a partner"
    assert place(100e-6, 50, 1e-6, 100) == "before", "all have partners, so calls cannot be saved"
    assert place(100e-6, 1, 100e-6, 90) == "before", "many partners for each tuple: probing is what costs"
    assert place(100e-6, 100, 1e-6, 90) == "after", "all tuples pass"
    assert place(0.1e-6, 1, 10e-6, 10) == "before", "a function that costs next to nothing and rejects most"


def test_a_sample_of_probes_decides_the_first_batch_without_calling_functions(steady: None) -> None:
    for symbol, place in ((50, 1), (1, 0)):
        db, calls = joined("wanted", CONDITIONS[0], 1)
        db.push("quotes", quotes(np.full(500, symbol))).count()
        assert tactic(db).places == Counter({place: 500})
        assert len(calls) == (0 if symbol == 50 else 500)


# failures


def brute_force(r: list[dict[str, Any]], s: list[dict[str, Any]], bounds: list[int]) -> tuple[Counter[Any], list[int]]:
    """The joined rows by query, and the queries that fail: a row would be in the answer but for a failed call."""
    rows, failed = Counter[Any](), []
    for q, bound in enumerate(bounds):
        for x in r:
            for y in s:
                others = x["a"] == y["a"] and y["b"] >= bound
                if others and x["b"] == 0:
                    failed.append(q)
                elif others and 12 // x["b"] > bound:
                    rows[q, x["b"], y["b"]] += 1
    return rows, sorted(set(failed))


@pytest.mark.parametrize("kind", ["scalar", "arrow"])
@pytest.mark.parametrize("seed", range(6))
def test_neither_rows_nor_failing_queries_depend_on_the_place(
    monkeypatch: pytest.MonkeyPatch, kind: Any, seed: int
) -> None:
    rnd = Random(seed)
    bounds = [0, 1, 2, 3]
    r = [row(0, a=rnd.randint(0, 6), b=rnd.randint(0, 8)) for _ in range(25)]
    s = [row(0, a=rnd.randint(0, 6), b=rnd.randint(0, 4)) for _ in range(5)]
    logs, told = [], []
    for place in PLACES:
        monkeypatch.setattr(RoutedFunctions, "place", lambda *_, place=place: place)
        db = world()
        db.function("inverse", inverse_of[kind], ["BIGINT"], "BIGINT", kind)
        db.execute(
            "CREATE QUERY FAMILY f (p INT) AS SELECT r.b AS x, s.b AS y FROM r, s "
            "WHERE r.a = s.a AND inverse(r.b) > :p AND s.b >= :p"
        )
        db.register("f", [{"query": f"q{i}", "p": p} for i, p in enumerate(bounds)])
        failures: list[Failure] = []
        db.functions.failures = failures
        db.push("s", s)
        found = db.push("r", r).rows("f").to_pylist()
        (running,) = db.engine.running.values()
        names = [running.family.queries.rows().name_of(f.queries).to_pylist() for f in failures]
        logs.append([(c["query"], c["x"], c["y"]) for c in found])
        told.append([(f.message, n) for f, n in zip(failures, names, strict=True)])
    assert logs[0] == logs[1] and told[0] == told[1]
    rows, failed = brute_force(r, s, bounds)
    assert Counter((int(q[1:]), x, y) for q, x, y in logs[0]) == rows
    assert sorted({int(n[1:]) for _, names in told[0] for n in names}) == failed


def inverse(x: int) -> int:
    return 12 // x


def inverses(x: pa.Array) -> pa.Array:
    return pa.array([12 // v for v in x.to_pylist()])


inverse_of = {"scalar": inverse, "arrow": inverses}


@pytest.mark.parametrize("place", PLACES)
def test_a_tuple_without_a_partner_fails_no_query(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    monkeypatch.setattr(RoutedFunctions, "place", lambda *_: place)
    db = world()
    db.function("inverse", inverse, ["BIGINT"], "BIGINT")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT r.b FROM r, s WHERE r.a = s.a AND inverse(r.b) > 1")
    db.functions.failures = []
    db.push("s", [row(0, a=1)])
    assert db.push("r", [row(0, a=2, b=0), row(0, a=1, b=3)]).count() == 1
    assert db.functions.failures == []


def test_measured_times_do_not_choose_the_order_of_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of probes decides the order of results, so its statistics must not depend on who probed."""
    counted = []
    for place in PLACES:
        monkeypatch.setattr(RoutedFunctions, "place", lambda *_, place=place: place)
        db = eddyline.connect(threads=1)
        db.function("odd", lambda x: x % 2 == 1, ["INT"], "BOOLEAN")
        for name in "xyz":
            db.execute(f"CREATE STREAM {name} (a INT, b INT, ts TIMESTAMP) WATERMARK ts")
        db.execute(
            "CREATE CONTINUOUS QUERY q AS SELECT x.b FROM x, y, z "
            "WHERE x.a = y.a AND y.a = z.a AND odd(x.b) AND x.b < y.b AND y.b < z.b"
        )
        rng = np.random.default_rng(1)
        for name in "yzxxyz":
            columns = {n: rng.integers(0, 9, 60).astype(np.int32) for n in "ab"}
            db.push(name, pa.table(columns | {"ts": moments(range(60))}))
        (running,) = db.engine.running.values()
        (join,) = [o for o in running.root.walk() if isinstance(o, StemJoin)]
        counts = join.stems.counts
        counted.append(counts.save(3, join.shape.thetas()))
        assert any(route[0] == 0 for route in counts.steps)
    assert counted[0] == counted[1]


def test_functions_of_stored_tuples_are_called_once_for_all_batches_that_join_them() -> None:
    db, calls = joined("wanted", CONDITIONS[0], 0)
    db.push("quotes", quotes(np.arange(10)))
    calls.clear()

    def article(symbol: int) -> int:
        columns = {"symbol": pa.array([symbol], pa.int32()), "id": pa.array([1], pa.int32()), "ts": moments([0])}
        return db.push("articles", pa.table(columns)).count()

    assert [article(s) for s in (2, 3, 2, 3, 2)] == [1, 0, 1, 0, 1] and calls == [2, 3]
    db.function("wanted", lambda price: price == 3, ["INT"], "BOOLEAN")
    assert [article(s) for s in (2, 3)] == [0, 1], "a function that is defined anew is called again"


def test_failed_calls_for_stored_tuples_are_not_remembered() -> None:
    db = world()
    calls: list[int] = []
    db.function("known", lambda b: calls.append(b) or 1 // b > 0, ["BIGINT"], "BOOLEAN")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT r.b FROM r, s WHERE r.a = s.a AND known(r.b)")
    db.push("r", [row(0, a=1, b=0), row(0, a=1, b=1)])
    calls.clear()
    found = [db.push("s", [row(0, a=1)]) for _ in range(3)]
    assert [c.count() for c in found] == [1, 1, 1] and [len(c.warnings()) for c in found] == [1, 1, 1]
    assert sorted(calls) == [0, 0, 0, 1]
