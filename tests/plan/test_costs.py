"""The cost model: the formulas of document 3, section 5.4.1, as corrected, and what it depends on."""

from __future__ import annotations

from math import log2

import pytest

from eddyline.plan import statistics
from eddyline.plan.build import build
from eddyline.plan.costs import PROBE, Estimate, Lookup, estimate
from eddyline.plan.nodes import Node, Project
from eddyline.plan.rules import optimize
from eddyline.plan.statistics import Statistics
from tests.plan.running import bind

F = "CREATE QUERY FAMILY f (p INT) AS "
# Link 1 has 2 tuples a second, link 2 has 3, and windows of 10 and 20 seconds: 20 and 60 rows.
LINK1, LINK2 = "link1 [RANGE 10 SECONDS] AS x", "link2 [RANGE 20 SECONDS] AS y"
KNOWN = Statistics(
    rates={"link1": 2.0, "link2": 3.0},
    distinct={("link1", "a"): 5.0, ("link2", "a"): 12.0, ("link1", "b"): 2.0},
)


def logical(sql: str) -> Node:
    """The plan as written, without the projection at its root."""
    plan = build(bind(F + sql).query)
    return plan.input if isinstance(plan, Project) else plan


def estimated(sql: str, lookup: Lookup = "scan", known: Statistics = KNOWN) -> Estimate:
    return estimate(logical(sql), known, lookup)


def test_a_window_has_the_rows_of_its_length_and_no_cost() -> None:
    found = estimated(f"SELECT a FROM {LINK1}")
    assert (found.cost, found.rate, found.rows, found.distinct[:2]) == (0.0, 2.0, 20.0, (5.0, 2.0))


@pytest.mark.parametrize(
    ("sql", "cost"),
    [
        (f"SELECT a FROM {LINK1} WHERE a = 1", 2.0),
        (f"SELECT x.a FROM {LINK1} UNION ALL SELECT y.a FROM {LINK2}", 2 * 2.0 + 2 * 3.0),  # projections below it
        (f"SELECT x.a FROM {LINK1}, {LINK2} WHERE x.a = y.a", 2 * 60.0 + 3 * 20.0),
        (f"SELECT x.a FROM {LINK1} INTERSECT ALL SELECT y.a FROM {LINK2}", 5.0 + 2 * 60.0 + 3 * 20.0),
        (f"SELECT DISTINCT a FROM {LINK1}", 2.0 + 2 * 5 / 2),
        (f"SELECT a, COUNT(*) AS k, MAX(b) AS m FROM {LINK1} GROUP BY a", 2 * 2.0 * 2),
        (f"SELECT x.a FROM {LINK1} EXCEPT ALL SELECT y.a FROM {LINK2}", 5.0 + 2 * 2 * log2(5) + 2 * 3 * log2(12)),
    ],
)
def test_operators_cost_what_the_corrected_formulas_say(sql: str, cost: float) -> None:
    assert estimated(sql).cost == pytest.approx(cost)


def test_by_key_a_tuple_looks_at_the_rows_of_its_own_key() -> None:
    found = estimated(f"SELECT x.a FROM {LINK1}, {LINK2} WHERE x.a = y.a", "key")
    assert found.cost == pytest.approx(2 * (PROBE + 60 / 12) + 3 * (PROBE + 20 / 12))
    assert found.rate == pytest.approx(2 * 60 / 12 + 3 * 20 / 12)
    assert found.rows == pytest.approx(20 * 60 / 12)


def test_without_a_key_a_join_scans_in_any_case() -> None:
    sql = f"SELECT x.a FROM {LINK1}, {LINK2} WHERE x.a < y.a"
    assert estimated(sql, "key").cost == estimated(sql, "scan").cost == 2 * 60 + 3 * 20


@pytest.mark.parametrize("lookup", ["key", "scan"])
def test_above_an_input_that_retracts_a_join_costs_twice_as_much(lookup: Lookup) -> None:
    """A table that never changes, and is as large as the window, differs from it in retractions alone."""
    known = Statistics(rates={"link1": 2.0, "t": 2.0, "u": 2.0}, rows={"t": 20.0, "u": 20.0})
    of_streams = estimated(f"SELECT x.a FROM {LINK1}, link1 [RANGE 10 SECONDS] AS z WHERE x.a = z.a", lookup, known)
    with_table = estimated(f"SELECT x.a FROM {LINK1}, t WHERE x.a = t.a", lookup, known)
    assert with_table.cost == 2 * of_streams.cost


def test_the_changes_of_a_non_retroactive_table_probe_nothing() -> None:
    known = Statistics(rates={"link1": 2.0, "u": 1000.0}, rows={"u": 20.0})
    found = estimated(f"SELECT x.a FROM {LINK1}, u WHERE x.a = u.a", "scan", known)
    assert found.cost == 2.0 * 20.0


def test_unknown_columns_have_about_as_many_values_as_rows() -> None:
    found = estimated("SELECT r.a FROM r [RANGE 60 SECONDS], s [RANGE 60 SECONDS] WHERE r.n = s.n", "key", Statistics())
    assert found.rate == pytest.approx(2 * statistics.RATE)  # one match for each tuple


def test_windows_by_parameters_have_a_guessed_size() -> None:
    sized = f"SELECT a FROM s [RANGE {statistics.SECONDS:g} SECONDS]"
    by_parameter = "SELECT a FROM s [RANGE :p SECONDS]"
    assert estimated(sized).rows == estimated(by_parameter).rows == statistics.RATE * statistics.SECONDS
    assert estimated("SELECT a FROM s [ROWS 7]").rows == 7


def test_what_is_above_a_class_of_queries_is_computed_for_each_of_them() -> None:
    many = Statistics(queries=50.0)
    shared = estimated("SELECT DISTINCT a FROM s [RANGE 5 SECONDS]", "key", many).cost
    assert shared == estimated("SELECT DISTINCT a FROM s [RANGE 5 SECONDS]", "key", Statistics()).cost
    by_class = estimated("SELECT DISTINCT a FROM s [RANGE :p SECONDS]", "key", many).cost
    assert by_class == 50 * estimated("SELECT DISTINCT a FROM s [RANGE :p SECONDS]", "key", Statistics()).cost
    above = "SELECT d.a FROM (SELECT DISTINCT a, b FROM s [RANGE 5 SECONDS]) AS d WHERE d.a = 1"
    alone = estimated(above, "key", Statistics()).cost
    below = estimated("SELECT DISTINCT a, b FROM s [RANGE 5 SECONDS]", "key", Statistics()).cost
    assert estimated(above, "key", many).cost == pytest.approx(below + 50 * (alone - below))


DISTINCT_JOIN = f"SELECT DISTINCT x.a, y.a AS b FROM {LINK1}, {LINK2} WHERE x.a = y.a"


def test_a_form_is_chosen_where_it_is_cheaper_by_the_margin() -> None:
    few = Statistics(rates={"link1": 100.0, "link2": 100.0}, distinct={("link1", "a"): 5.0, ("link2", "a"): 5.0})
    given = build(bind(F + DISTINCT_JOIN).query)
    chosen = optimize(given, few)
    (told,) = chosen.rewrites
    assert told.startswith("push down duplicate elimination, for an estimated cost of ")
    assert estimate(chosen.plan, few).cost * 2 <= estimate(given, few).cost
    assert optimize(given).plan == given


def test_a_plan_depends_on_the_query_and_the_statistics_alone() -> None:
    few = Statistics(rates={"link1": 100.0, "link2": 100.0}, distinct={("link1", "a"): 5.0, ("link2", "a"): 5.0})
    plans = [optimize(build(bind(F + DISTINCT_JOIN).query), few) for _ in range(3)]
    assert plans[0] == plans[1] == plans[2]
