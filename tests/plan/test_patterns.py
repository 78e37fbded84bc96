"""Update patterns: the leaves, and the five rules of document 3, section 5.2."""

from __future__ import annotations

import pytest

from eddyline.plan.build import plan
from eddyline.plan.nodes import GroupBy, Join, Negation, Node, Select, TableJoin, Union
from eddyline.plan.patterns import Pattern, label
from eddyline.plan.statistics import Statistics
from tests.plan.running import bind

MONOTONIC, WKS, WK, STR = Pattern.MONOTONIC, Pattern.WKS, Pattern.WK, Pattern.STR

# Sources of one column a, by the pattern of their edge.
SOURCES = {
    MONOTONIC: "SELECT a FROM r",
    WKS: "SELECT a FROM r [RANGE 5 SECONDS]",
    WK: "SELECT p.a FROM r [RANGE 5 SECONDS] AS p, s [RANGE 5 SECONDS] AS q WHERE p.a = q.a",
    STR: "SELECT a FROM r [RANGE 5 SECONDS] EXCEPT ALL SELECT a FROM s [RANGE 5 SECONDS]",
}
EACH = pytest.mark.parametrize("inner", list(Pattern))
PAIRS = pytest.mark.parametrize(("left", "right"), [(x, y) for x in Pattern for y in Pattern])


def pattern(sql: str) -> Pattern:
    return label(plan(bind(sql).query))


def nodes(node: Node, kind: type) -> list[Node]:
    return [n for n in (node, *(x for i in node.inputs for x in nodes(i, kind))) if isinstance(n, kind)]


@EACH
def test_the_sources_of_these_tests_have_the_patterns_they_are_listed_under(inner: Pattern) -> None:
    assert pattern(SOURCES[inner]) == inner


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("s", MONOTONIC),
        ("s [RANGE 5 SECONDS]", WKS),
        ("s [NOW]", WKS),
        ("s [ROWS 3]", STR),
        ("t", STR),
        ("u", STR),
    ],
)
def test_leaf_is_labelled_by_its_window(source: str, expected: Pattern) -> None:
    leaf = plan(bind(f"SELECT a FROM {source}").query)
    while leaf.inputs:
        (leaf,) = leaf.inputs
    assert label(leaf) == expected


def test_patterns_are_ordered_from_simple_to_complex() -> None:
    assert MONOTONIC < WKS < WK < STR


@EACH
def test_rule_1_selection_and_projection_leave_the_pattern_as_it_is(inner: Pattern) -> None:
    assert pattern(f"SELECT d.a + 1 AS x FROM ({SOURCES[inner]}) AS d WHERE d.a > 2") == inner


@pytest.mark.parametrize("inner", [MONOTONIC, WKS, WK])
def test_rule_1_a_join_with_a_non_retroactive_table_leaves_the_pattern_as_it_is(inner: Pattern) -> None:
    found = plan(bind(f"SELECT d.a, u.n FROM ({SOURCES[inner]}) AS d, u WHERE d.a = u.a").query)
    (join,) = nodes(found, TableJoin)
    assert (label(found), label(join)) == (inner, inner)


@PAIRS
def test_rule_2_a_union_has_the_more_complex_pattern_of_its_inputs(left: Pattern, right: Pattern) -> None:
    sources = f"SELECT x.a FROM ({SOURCES[left]}) AS x UNION ALL SELECT y.a FROM ({SOURCES[right]}) AS y"
    found = plan(bind(sources).query)
    assert isinstance(found, Union)
    assert label(found) == max(left, right)


def weak(*inputs: Pattern) -> Pattern:
    """Rule 3, and the case that the paper leaves out: where nothing leaves the inputs, nothing leaves the output."""
    return STR if STR in inputs else MONOTONIC if set(inputs) == {MONOTONIC} else WK


@PAIRS
def test_rule_3_a_join_is_weak_unless_an_input_is_strict(left: Pattern, right: Pattern) -> None:
    sources = f"({SOURCES[left]}) AS x, ({SOURCES[right]}) AS y"
    assert pattern(f"SELECT x.a FROM {sources} WHERE x.a = y.a") == weak(left, right)


@PAIRS
def test_rule_3_an_intersection_is_weak_unless_an_input_is_strict(left: Pattern, right: Pattern) -> None:
    sources = f"SELECT x.a FROM ({SOURCES[left]}) AS x INTERSECT ALL SELECT y.a FROM ({SOURCES[right]}) AS y"
    assert pattern(sources) == weak(left, right)


@EACH
def test_rule_3_duplicate_elimination_is_weak_unless_its_input_is_strict(inner: Pattern) -> None:
    assert pattern(f"SELECT DISTINCT d.a FROM ({SOURCES[inner]}) AS d") == weak(inner)


@EACH
@pytest.mark.parametrize("grouping", ["", " GROUP BY d.a"])
def test_rule_4_grouping_is_always_weak(inner: Pattern, grouping: str) -> None:
    found = plan(bind(f"SELECT COUNT(*) AS n FROM ({SOURCES[inner]}) AS d{grouping}").query)
    (group,) = nodes(found, GroupBy)
    assert (label(found), label(group)) == (WK, WK)


def test_rule_4_a_range_extreme_over_a_table_is_a_grouping() -> None:
    assert pattern("SELECT MIN(b) AS m FROM t WHERE a BETWEEN 1 AND 3") == WK


@PAIRS
def test_rule_5_negation_is_always_strict(left: Pattern, right: Pattern) -> None:
    sources = f"SELECT x.a FROM ({SOURCES[left]}) AS x EXCEPT ALL SELECT y.a FROM ({SOURCES[right]}) AS y"
    assert pattern(sources) == STR


@EACH
def test_rule_5_a_join_with_a_retroactive_table_is_always_strict(inner: Pattern) -> None:
    assert pattern(f"SELECT d.a, t.n FROM ({SOURCES[inner]}) AS d, t WHERE d.a = t.a") == STR


LINK1, LINK2, LINK3 = (f"link{i} [RANGE 60 SECONDS]" for i in (1, 2, 3))


NEGATION = f"SELECT x.a FROM {LINK1} AS x EXCEPT ALL SELECT y.a FROM {LINK2} AS y"
QUERY_5 = (
    "CREATE QUERY FAMILY f (label STRING) AS "
    f"SELECT :label AS label, d.a FROM ({NEGATION}) AS d, {LINK3} AS z WHERE d.a = z.a AND z.n = 'ftp'"
)


def test_figure_6_with_negation_pulled_up_only_the_result_is_strict() -> None:
    found = plan(bind(QUERY_5).query, Statistics(queries=64.0))
    (above,) = nodes(found, Negation)
    assert (label(found), label(above)) == (STR, STR)
    assert [label(i) for i in above.inputs] == [WK, WK]
    joins = nodes(found, Join)
    assert [label(j) for j in joins] == [WK, WK]
    assert [label(i) for j in joins for i in j.inputs] == [WKS] * 4


def test_figure_6_with_negation_pushed_down_the_join_is_strict_too() -> None:
    found = plan(bind(QUERY_5).query)
    (join,), (below,) = nodes(found, Join), nodes(found, Negation)
    assert [label(n) for n in (found, join, below)] == [STR, STR, STR]
    assert [label(i) for i in below.inputs] == [WKS, WKS]


def test_figure_6_in_a_family_the_selection_on_the_third_link_stands_below_the_join() -> None:
    join = f"SELECT x.a FROM {LINK1} AS x, {LINK3} AS z WHERE x.a = z.a AND z.n = 'ftp' AND x.b > :low"
    (below,) = nodes(plan(bind(f"CREATE QUERY FAMILY f (low INT) AS {join}").query), Join)
    assert isinstance(below.inputs[1], Select)
    assert label(below.inputs[1]) == WKS
