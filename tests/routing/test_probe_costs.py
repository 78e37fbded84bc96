"""Costs of multi-way joins: the document's numbers, and a nested loop that counts its comparisons."""

from __future__ import annotations

from itertools import permutations, product
from math import inf, prod
from random import Random

import pytest

from benchmarks.yardsticks.document_windows import result_size
from eddyline.routing.join_graph import (
    EAGER,
    InputStatistics,
    JoinGraph,
    JoinStatistics,
    Schedule,
    ThetaStatistics,
)
from eddyline.routing.probe_costs import ProbeCosts
from eddyline.routing.route_search import join_cost, multiway_cost, origin_first, pass_cost
from tests.routing.document_joins import EQUAL, FAST_FOURTH, FOUR, TABLE_5, TABLE_6, TABLE_7, streams

ORDERS = list(permutations(range(4)))


def numbers(text: str) -> tuple[int, ...]:
    """Inputs from the document's notation: "S2, S1" is (1, 0)."""
    return tuple(int(s.strip()[1:]) - 1 for s in text.split(","))


def cost(statistics: JoinStatistics, order: str) -> float:
    return multiway_cost(statistics, FOUR, numbers(order), EAGER)


def all_costs(statistics: JoinStatistics) -> list[float]:
    return sorted(multiway_cost(statistics, FOUR, order, EAGER) for order in ORDERS)


def test_table_5_costs_16000_as_the_appendix_derives_it() -> None:
    sizes = {"S1,S2": 200, "S1,S3": 400, "S1,S4": 600, "S2,S3": 400, "S2,S4": 600, "S3,S4": 1500}
    sizes |= {"S1,S2,S3": 800, "S1,S2,S4": 1200}
    assert {s: result_size(TABLE_5, FOUR, numbers(s)) for s in sizes} == sizes
    shares = [pass_cost(ProbeCosts(TABLE_5, FOUR, i), origin_first(range(4), i)) for i in range(4)]
    assert shares == pytest.approx([3800, 3800, 2400, 6000], rel=1e-12)
    assert cost(TABLE_5, "S1,S2,S3,S4") == pytest.approx(16_000, rel=1e-12)


def test_costs_of_table_5() -> None:
    costs = all_costs(TABLE_5)
    assert costs[0] == pytest.approx(16_000) and costs[-1] == pytest.approx(86_850)
    assert costs[4] == pytest.approx(19_600) and cost(TABLE_5, "S2,S1,S3,S4") == pytest.approx(19_600)


def test_costs_of_table_6() -> None:
    expected = {"S2,S1,S3,S4": 80_400, "S1,S2,S3,S4": 120_000, "S2,S3,S1,S4": 123_150, "S2,S3,S4,S1": 248_450}
    assert {o: cost(TABLE_6, o) for o in expected} == pytest.approx(expected)
    assert (all_costs(TABLE_6)[0], all_costs(TABLE_6)[-1]) == pytest.approx((80_400, 646_050))


def test_costs_of_table_7() -> None:
    expected = {
        "S3,S1,S4,S2": 47_977,
        "S4,S1,S3,S2": 47_977,
        "S3,S4,S1,S2": 49_542,
        "S3,S1,S2,S4": 51_954,
        "S1,S2,S3,S4": 68_200,
        "S2,S1,S3,S4": 79_000,
    }
    assert {o: round(cost(TABLE_7, o)) for o in expected} == expected
    costs = all_costs(TABLE_7)
    assert costs[0] == pytest.approx(cost(TABLE_7, "S3,S1,S4,S2"), rel=1e-12)
    assert round(sum(costs) / 24) == 63_362


@pytest.mark.parametrize(("interval", "lazy", "naive"), [(1, 20_450, 58_307), (50, 61_800, 57_900)])
def test_best_lazy_and_naive_costs_of_figure_3b(interval: float, lazy: int, naive: int) -> None:
    schedule = Schedule.every(interval)
    assert round(min(multiway_cost(FAST_FOURTH, FOUR, o, schedule) for o in ORDERS)) == lazy
    assert round(min(join_cost(FAST_FOURTH, FOUR, [o] * 4, schedule) for o in ORDERS)) == naive


@pytest.mark.parametrize("interval", [0.0, 5.0])
def test_costs_are_the_formulas_of_appendix_a(interval: float) -> None:
    rnd = Random(14)
    s = streams(*[(rnd.uniform(1, 20), rnd.uniform(50, 200), rnd.randint(5, 400)) for _ in range(4)])
    rate, v = [i.rate for i in s.inputs], [i.distinct[0] for i in s.inputs]
    rows = [i.rows + i.rate * interval for i in s.inputs]
    d12, d123, d13 = max(v[0], v[1]), max(min(v[0], v[1]), v[2]), max(v[0], v[2])
    d132, d14, d142 = max(min(v[0], v[2]), v[1]), max(v[0], v[3]), max(min(v[0], v[3]), v[1])
    phi_12 = rows[0] * rows[1] / d12
    phi_123 = phi_12 * rows[2] / d123
    first = rate[0] * (rows[1] + rows[1] / d12 * rows[2] + rows[1] / d12 * rows[2] / d123 * rows[3])
    second = rate[1] * (rows[0] + rows[0] / d12 * rows[2] + rows[0] / d12 * rows[2] / d123 * rows[3])
    third = rate[2] * (rows[0] + rows[0] / d13 * rows[1] + rows[0] / d13 * rows[1] / d132 * rows[3])
    fourth = rate[3] * (rows[0] + rows[0] / d14 * rows[1] + rows[0] / d14 * rows[1] / d142 * rows[2])
    assert multiway_cost(s, FOUR, range(4), Schedule.every(interval)) == pytest.approx(first + second + third + fourth)
    passes = 1 / interval if interval else rate[2]  # of new rows of the third input
    new = rate[2] * interval if interval else 1.0
    third = passes * (rows[0] * rows[1] + phi_12 * new + phi_12 * new / d123 * rows[3])
    passes, new = (1 / interval, rate[3] * interval) if interval else (rate[3], 1.0)
    fourth = passes * (rows[0] * rows[1] + phi_12 * rows[2] + phi_123 * new)
    naive = join_cost(s, FOUR, [range(4)] * 4, Schedule.every(interval))
    assert naive == pytest.approx(first + second + third + fourth)


@pytest.mark.parametrize("inputs", [2, 3, 4, 5, 6])
def test_the_expected_result_does_not_depend_on_the_order(inputs: int) -> None:
    rnd = Random(inputs)
    s = streams(*[(rnd.uniform(1, 20), 100, rnd.randint(1, 300)) for _ in range(inputs)])
    whole = result_size(s, JoinGraph.on_common_key(inputs), range(inputs))
    for order in permutations(range(inputs)):
        known, size = s.inputs[order[0]].distinct[0], s.inputs[order[0]].rows
        for i in order[1:]:
            size *= s.inputs[i].rows / max(known, s.inputs[i].distinct[0])
            known = min(known, s.inputs[i].distinct[0])
        assert size == pytest.approx(whole)


def test_equal_hash_tables_divide_the_cost_and_keep_the_ranking() -> None:
    scanned, hashed = (
        streams(*[(i.rate, i.rows / i.rate, i.distinct[0]) for i in TABLE_5.inputs], buckets=b) for b in (1.0, 5.0)
    )
    for order in ORDERS:
        assert multiway_cost(hashed, FOUR, order, EAGER) == pytest.approx(
            multiway_cost(scanned, FOUR, order, EAGER) / 5
        )


def test_an_exact_index_reads_only_matches_and_pays_for_lookups() -> None:
    statistics = JoinStatistics(
        (InputStatistics(2.0, 100.0, {0: 10.0}, inf, 3.0), InputStatistics(1.0, 400.0, {0: 40.0}, inf, 3.0))
    )
    # A new row of the first input matches 400 / 40 rows, one of the second 100 / 40.
    graph = JoinGraph.on_common_key(2)
    assert multiway_cost(statistics, graph, (0, 1), EAGER) == pytest.approx(2 * (10 + 3) + 1 * (2.5 + 3))


def test_lazy_and_general_cost_the_same_where_all_windows_are_equal() -> None:
    for interval in (1, 10, 50):
        schedule = Schedule.every(interval)
        lazy = multiway_cost(EQUAL, FOUR, range(4), schedule)
        firsts = [min(pass_cost(ProbeCosts(EQUAL, FOUR, i, schedule), o) for o in ORDERS) for i in range(4)]
        assert sum(firsts) == pytest.approx(lazy)


def test_rows_never_expire_more_often_than_the_join_is_evaluated() -> None:
    with pytest.raises(ValueError, match="cannot expire every 1"):
        Schedule(evaluate=5.0, expire=1.0)


# A nested loop that counts. Its data satisfies the assumptions exactly: the values of a key are 1 to v, equally often,
# and keys of different classes are independent; new rows have every combination once.

Row = dict[int, int]  # by class of keys


class Case:
    """A random join graph over small windows."""

    def __init__(self, seed: int) -> None:
        rnd = Random(seed)
        self.inputs = rnd.randint(2, 4)
        one = frozenset(range(self.inputs))
        classes = [one] if rnd.random() < 0.5 else [frozenset(rnd.sample(range(self.inputs), 2)) for _ in range(2)]
        self.values = [{c: rnd.randint(1, 4) for c, m in enumerate(classes) if i in m} for i in range(self.inputs)]
        self.windows = [rnd.randint(1, 2) * self.combinations(i) for i in range(self.inputs)]
        thetas = [frozenset(rnd.sample(range(self.inputs), 2))] if rnd.random() < 0.5 else []
        self.graph = JoinGraph(self.inputs, tuple(classes), tuple(thetas))
        self.buckets = [rnd.choice([1, inf]) for _ in range(self.inputs)]

    def combinations(self, i: int) -> list[Row]:
        values = self.values[i]
        return [dict(zip(values, v, strict=True)) for v in product(*(range(1, n + 1) for n in values.values()))]

    def statistics(self, origin: int) -> JoinStatistics:
        """The rate of the origin makes a pass of one unit of time have every combination once."""
        rates = [float(len(self.combinations(i))) if i == origin else 0.0 for i in range(self.inputs)]
        inputs = (
            InputStatistics(rates[i], float(len(self.windows[i])), dict(self.values[i]), self.buckets[i])
            for i in range(self.inputs)
        )
        # Values of keys say nothing about a theta predicate, so every row satisfies it here.
        return JoinStatistics(tuple(inputs), tuple(ThetaStatistics(1.0, 2.0) for _ in self.graph.thetas))

    def counted(self, origin: int, order: tuple[int, ...]) -> float:
        """Comparisons of one pass; a costly predicate is evaluated as soon as its inputs are bound."""
        rows = [self.combinations(i) if i == origin else self.windows[i] for i in range(self.inputs)]
        partials: list[dict[int, Row]] = [{order[0]: row} for row in rows[order[0]]]
        comparisons = 0.0
        for place, new in enumerate(order[1:], 1):
            bound = frozenset(order[:place])
            usable = self.graph.usable(bound, new)
            found = []
            for partial in partials:
                matches = [r for r in rows[new] if self.agrees(partial, r, new)]
                looked_up = usable and new != origin and self.buckets[new] == inf
                comparisons += len(matches if looked_up else rows[new])
                found += [{**partial, new: r} for r in matches]
            partials = found
            comparisons += 2.0 * len(partials) * sum(t <= bound | {new} and new in t for t in self.graph.thetas)
        return comparisons

    def agrees(self, partial: dict[int, Row], row: Row, new: int) -> bool:
        return all(
            partial[i][c] == row[c]
            for c, members in enumerate(self.graph.equalities)
            for i in members & partial.keys()
            if new in members
        )


@pytest.mark.parametrize("seed", range(60))
def test_costs_are_what_a_nested_loop_counts(seed: int) -> None:
    case = Case(seed)
    for origin in range(case.inputs):
        costs = ProbeCosts(case.statistics(origin), case.graph, origin, Schedule(1.0, 1.0))
        for order in permutations(range(case.inputs)):
            # The predicate keeps every row, so it costs least where the fewest partial results are: compare that place.
            predicted = costs.passes * sum(
                costs.probe(frozenset(order[:k]), frozenset(), order[k]) for k in range(1, case.inputs)
            )
            places = [2.0 * costs.size(frozenset(order[: k + 1])) for k in range(1, case.inputs)]
            bound_at = [max(order.index(i) for i in t) for t in case.graph.thetas]
            predicted += sum(places[k - 1] for k in bound_at)
            assert case.counted(origin, order) == pytest.approx(predicted), f"seed {seed}, {origin}, {order}"
            at_best = sum(min(places[k - 1 :]) for k in bound_at)
            assert pass_cost(costs, order) == pytest.approx(predicted - sum(places[k - 1] for k in bound_at) + at_best)


def test_the_whole_join_has_the_counted_number_of_results() -> None:
    case = Case(3)
    sizes = [prod(case.values[i].values()) for i in range(case.inputs)]
    assert [len(case.combinations(i)) for i in range(case.inputs)] == sizes
    matches = 0
    for rows in product(*case.windows):
        bound: dict[int, Row] = {}
        if all(case.agrees(bound, row, i) and bound.update({i: row}) is None for i, row in enumerate(rows)):
            matches += 1
    statistics = JoinStatistics(case.statistics(0).inputs, tuple(ThetaStatistics(1.0) for _ in case.graph.thetas))
    assert result_size(statistics, case.graph, range(case.inputs)) == pytest.approx(matches)
