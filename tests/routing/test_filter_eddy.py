"""The eddy of a grouped filter: the orders it learns, the lookups it counts, and costs that are measured."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from eddyline.arrays import Ints
from eddyline.index.filters.domains import NumberColumn, ValueColumn
from eddyline.index.filters.filter_search import Matches
from eddyline.index.filters.grouped_filter import grouped_filter
from eddyline.index.filters.order_search import Ordered, better_order
from eddyline.operators.query_index import RoutedFilter
from eddyline.routing import filter_eddy
from tests.index.conditions import Condition, Kind, Range, as_conditions

ALL = np.empty(0, np.bool_)


def routed(conditions: list[Condition], attributes: int) -> RoutedFilter:
    given = as_conditions(Kind("n" * attributes), conditions, np.zeros(len(conditions), np.bool_))
    return RoutedFilter(grouped_filter(given))


def nested(bounds: list[int]) -> list[Condition]:
    """Query k has the first k + 1 of the predicates x >= bound."""
    return [[[Range(i, b, None)] for i, b in enumerate(bounds[: k + 1])] for k in range(len(bounds))]


def numbers(*columns: Ints) -> list[NumberColumn]:
    return [NumberColumn(c.astype(np.int64), np.empty(0, np.bool_)) for c in columns]


def searched(filter_: RoutedFilter, rows: Ints) -> Matches:
    return filter_.search(numbers(*rows), rows.shape[1], ALL, "counts")


class Recorded:
    """A column that records for how many rows it is asked, and takes a while for each."""

    def __init__(self, values: Ints) -> None:
        self.column = NumberColumn(values.astype(np.int64), np.empty(0, np.bool_))
        self.asked: list[int] = []

    def at(self, rows: Ints | None) -> ValueColumn:
        self.asked.append(len(self.column.values) if rows is None else len(rows))
        return self.column.at(rows)


def test_a_filter_enters_first_the_attribute_that_rejects_most_rows_and_follows_them() -> None:
    conditions: list[Condition] = [[[Range(0, None, 1)], [Range(1, None, 90)]] for _ in range(50)]
    filter_, rng = routed(conditions, 2), np.random.default_rng(0)
    (eddy,) = filter_.eddies
    total = np.zeros(2, np.int64)
    for turn in range(8):
        narrow, wide = rng.integers(0, 100, (2, 1100))
        if turn >= 3:  # now x holds for all rows, and y for none
            narrow, wide = np.zeros(1100, np.int64), np.full(1100, 95)
        matches = searched(filter_, np.stack([narrow, wide]))
        assert matches.counts.tolist() == (50 * ((narrow < 1) & (wide < 90))).tolist()
        entered = matches.visits[0].entered
        total += entered
        if turn < 3:
            assert entered.tolist() == [1100, int((narrow < 1).sum())], f"turn {turn}"
        if turn >= 5:
            assert entered.tolist() == [0, 1100], f"turn {turn}"
    assert eddy.entered.tolist() == total.tolist() and eddy.rows == 8800 and eddy.changes == 1


def test_workload_3_of_document_1_enters_the_best_order_from_the_worst_start() -> None:
    bounds = [11, 31, 51, 71, 91]
    filter_ = routed(nested(bounds), 5)
    (eddy,) = filter_.eddies
    eddy.order = np.arange(5)[::-1].copy()
    rows = np.random.default_rng(1).integers(0, 100, (5, 4000))
    for i in range(0, 4000, 100):
        searched(filter_, rows[:, i : i + 100])
    assert eddy.order.tolist() == [0, 1, 2, 3, 4]
    assert eddy.entered.sum() / eddy.rows < 3.0
    passing = np.cumprod(np.stack([x >= b for x, b in zip(rows, bounds, strict=True)]), axis=0)
    assert eddy.entered.tolist() == [4000, *passing.sum(axis=1)[:4].tolist()], "the order is right for the first batch"


def test_the_order_is_checked_less_often_while_it_is_confirmed() -> None:
    filter_, rng = routed(nested([50, 50]), 2), np.random.default_rng(2)
    for _ in range(200):
        searched(filter_, rng.integers(0, 100, (2, 1024)))
    (eddy,) = filter_.eddies
    assert 5 <= eddy.checks <= 12 and eddy.changes == 0


def test_dropped_queries_do_not_keep_an_attribute_in_use() -> None:
    filter_ = routed([[[Range(0, 50, None)]], [[Range(1, 50, None)]]], 2)
    rows = np.random.default_rng(3).integers(0, 100, (2, 500))
    alive = np.array([True, False])
    matches = filter_.search(numbers(*rows), 500, alive, "counts")
    assert matches.visits[0].entered.tolist() == [500, 0]
    assert matches.counts.tolist() == (rows[0] >= 50).astype(int).tolist()


@pytest.mark.parametrize("sizes", [(300, 300), (100, 300), (100, 156), (100, 100)])
@pytest.mark.parametrize("first", [0, 1])
def test_portions_that_check_the_order_at_the_same_time_complete_the_sample(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int], first: int
) -> None:
    """Both portions have chosen their samples before either check ends, and one ends before the other."""
    filter_, rng = routed(nested([50, 50, 50]), 3), np.random.default_rng(6)
    (eddy,) = filter_.eddies
    eddy.order = np.array([2, 1, 0])
    both, done = threading.Barrier(2, timeout=60), threading.Event()
    names = threading.local()

    def held(*given: object) -> Ordered:
        both.wait()
        assert names.portion == first or done.wait(60)
        return better_order(*given)  # type: ignore[arg-type]

    def search(portion: int) -> None:
        names.portion = portion
        rows = portions[portion]
        try:
            counts = searched(filter_, rows).counts
            passing = np.cumprod(rows >= 50, axis=0)
            assert counts.tolist() == passing.sum(axis=0).tolist()
        finally:
            if portion == first:
                done.set()

    portions = [rng.integers(0, 100, (3, n)) for n in sizes]
    with monkeypatch.context() as patched, ThreadPoolExecutor(2) as threads:
        patched.setattr(filter_eddy, "better_order", held)
        list(threads.map(search, range(2)))
    assert eddy.checks == 2 and eddy.rows == sum(sizes) and eddy.order.tolist() == [0, 1, 2]
    searched(filter_, rng.integers(0, 100, (3, 256)))  # completes a sample that is not yet full
    checks = eddy.checks
    searched(filter_, rng.integers(0, 100, (3, 100)))
    assert eddy.checks == checks, "a check was confirmed, so none is due"


def test_an_attribute_that_costs_much_is_looked_up_only_for_rows_that_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The times of the clock are those of lookups: a second for each row of attribute 0."""
    clock = [0.0]

    class Slow(Recorded):
        def at(self, rows: Ints | None) -> ValueColumn:
            column = super().at(rows)
            clock[0] += self.asked[-1]
            return column

    monkeypatch.setattr("eddyline.index.filters.row_codes.time.perf_counter", lambda: clock[0])
    # attribute 0 rejects more rows, but costs more
    filter_, rng = routed([[[Range(0, 95, None)], [Range(1, 90, None)]]], 2), np.random.default_rng(4)
    asked = []
    for _ in range(5):
        rows = rng.integers(0, 100, (2, 2000))
        slow, quick = Slow(rows[0]), Recorded(rows[1])
        counts = filter_.search([slow, quick], 2000, ALL, "counts").counts
        assert counts.tolist() == ((rows[0] >= 95) & (rows[1] >= 90)).astype(int).tolist()
        asked.append((sum(slow.asked), int((rows[1] >= 90).sum())))
    (eddy,) = filter_.eddies
    assert eddy.order.tolist() == [1, 0] and eddy.costs.tolist() == [eddy.costs[0], 1.0] and eddy.costs[0] > 1e6
    assert [n for n, _ in asked[:2]] == [2000, 2000], "its cost has to be measured, and then a check to be due"
    more = [n - needed for n, needed in asked[2:]]
    assert 0 in more and set(more) <= {0, 256}, "rows that need it, and the rows of a sample"
    assert eddy.sampled == sum(more)
    assert filter_.lookups.tolist() == [sum(n for n, _ in asked), 10_000]


def test_costs_that_hardly_differ_count_as_equal() -> None:
    filter_ = routed(nested([50, 50]), 2)
    (eddy,) = filter_.eddies
    eddy._code = np.array([filter_eddy.CODE_COST, 2 * filter_eddy.CODE_COST])
    assert eddy.costs.tolist() == [1.0, 1.0]
    eddy._code = np.array([filter_eddy.CODE_COST, 100 * filter_eddy.CODE_COST])
    assert eddy.costs[0] == 1.0 and eddy.costs[1] > 10
