"""What the physical plan decides: where queries are attached, what is kept, what can be deferred, how joins probe."""

from __future__ import annotations

import pytest

from eddyline.operators.build import OPERATORS, build
from eddyline.plan import physical
from eddyline.plan.build import plan
from eddyline.plan.explain_physical import explain_physical
from eddyline.plan.patterns import Pattern
from eddyline.plan.physical import PhysicalNode, StemJoin
from eddyline.plan.physical_planner import physical_plan
from tests.plan.running import bind

F = "CREATE QUERY FAMILY f (lo INT, hi INT, w INT) AS "
FILTER = F + "SELECT a FROM s WHERE a BETWEEN :lo AND :hi"
BAND = F + "SELECT r.a FROM r, s WHERE s.b - r.b BETWEEN :lo AND :hi"
GROUP = "SELECT a, COUNT(*) AS k FROM s [RANGE 3 SECONDS] GROUP BY a"
KINDS = [
    FILTER,
    BAND,
    GROUP,
    F + "SELECT a FROM s [RANGE :w SECONDS] WHERE a > :lo",
    "SELECT a FROM s [ROWS 3] WHERE a > 1",
    "SELECT a FROM r EXCEPT ALL SELECT a FROM s",
    "SELECT a FROM r INTERSECT ALL SELECT a FROM t",
    "SELECT DISTINCT a FROM r",
    "SELECT a FROM r UNION ALL SELECT a FROM t",
    "SELECT s.a, t.n FROM s, t WHERE s.a = t.a",
    "SELECT s.a, u.n FROM s, u WHERE s.a = u.a",
    "SELECT x.a FROM r AS x, s AS y, link1 AS z WHERE x.a = y.a AND y.b = z.b",
    "SELECT COUNT(*) AS k FROM s",
    "SELECT g.k, t.n FROM (SELECT a, COUNT(*) AS k FROM s GROUP BY a) AS g, t WHERE g.a = t.a",
]


def planned(sql: str, emit: str = "changes", strategy: str = "auto") -> PhysicalNode:
    return physical_plan(plan(bind(sql).query), emit, strategy)


def join_of(root: PhysicalNode) -> StemJoin:
    (join,) = [n for n in root.walk() if isinstance(n, StemJoin)]
    return join


@pytest.mark.parametrize("emit", ["changes", "all"])
@pytest.mark.parametrize("sql", KINDS)
def test_every_node_becomes_one_operator_with_the_edges_that_were_planned(sql: str, emit: str) -> None:
    root = planned(sql, emit)
    nodes, operators = list(root.walk()), build(root).walk()
    assert [o.node for o in operators] == nodes
    assert [type(o) for o in operators] == [OPERATORS[type(n)] for n in nodes]
    assert all((o.types, o.attached) == (n.types, n.attached) for o, n in zip(operators, nodes, strict=True))
    assert root.attached and not root.pending


@pytest.mark.parametrize("sql", KINDS)
def test_explain_has_a_line_for_every_operator(sql: str) -> None:
    root = planned(sql)
    lines = [line for line in explain_physical(root).splitlines() if not line.lstrip().startswith("|")]
    assert len(lines) == len(list(root.walk()))
    assert [line.endswith("per query") for line in lines] == [n.attached for n in root.walk()]


def test_a_strict_edge_retracts_and_so_does_what_is_above_a_grouping() -> None:
    for sql in KINDS:
        for node in planned(sql).walk():
            grouped = any(isinstance(n, physical.GroupBy) for n in node.walk())
            assert node.retracts == (node.pattern is Pattern.STR or grouped), sql


@pytest.mark.parametrize(
    ("sql", "deferrable"),
    [
        (FILTER, True),
        (BAND, True),
        (F + "SELECT a FROM s [RANGE :w SECONDS] WHERE a > :lo", False),  # a window that is the query's own
        (F + "SELECT a FROM s WHERE a > :lo AND n = 'a'", False),  # a filter below
        ("SELECT r.a FROM r, s WHERE r.a = s.a", False),  # a join that has nothing per query
        (F + "SELECT x.a FROM r AS x, s AS y, link1 AS z WHERE x.a = y.a AND y.b = z.b AND x.a > :lo", True),
        (GROUP, False),
    ],
)
def test_filters_of_a_stream_and_joins_over_ranges_can_be_deferred(sql: str, deferrable: bool) -> None:
    assert planned(sql).deferrable is deferrable
    assert not planned(sql, emit="all").deferrable


@pytest.mark.parametrize(
    ("sql", "recomputable", "initial_answer"),
    [
        (FILTER, True, False),
        (BAND, True, False),
        (GROUP, False, False),
        ("SELECT COUNT(*) AS k FROM s", False, True),  # the group always exists
        ("SELECT a FROM s [ROWS 3]", True, False),
        ("SELECT DISTINCT a FROM s", False, False),
        ("SELECT s.a, t.n FROM s, t WHERE s.a = t.a", True, True),
        ("SELECT s.a, u.n FROM s, u WHERE s.a = u.a", False, True),
    ],
)
def test_what_is_kept_and_what_new_queries_are_shown(sql: str, recomputable: bool, initial_answer: bool) -> None:
    assert (planned(sql).recomputable, planned(sql).initial_answer) == (recomputable, initial_answer)


def test_probes_go_first_where_equalities_lead() -> None:
    join = join_of(planned("SELECT x.a FROM r AS x, s AS y, link1 AS z WHERE x.a = y.a AND y.b = z.b AND x.c < z.c"))
    assert [[p.input for p in order] for order in join.probes] == [[1, 2], [0, 2], [1, 0]]
    assert [len(keys) for keys in join.keys] == [1, 2, 1]
    assert all(order[0].conditions is None and order[1].conditions is not None for order in join.probes)


def test_both_sides_of_a_band_are_processed_by_ranges_unless_by_row_is_asked_for() -> None:
    assert all(join_of(planned(BAND)).ranges)
    assert not any(join_of(planned(BAND, strategy="by row")).ranges)
    assert join_of(planned(BAND)).strategy is None
    assert join_of(planned(BAND, strategy="ssi")).strategy == "ssi"


def test_conditions_over_one_input_are_a_first_filter_and_carry_their_queries_if_there_are_no_others() -> None:
    alone = join_of(planned(F + "SELECT r.a FROM r, s WHERE r.a = s.a AND r.b > :lo"))
    assert alone.filters[1] is None and alone.filters[0] is not None and alone.filters[0].carries
    both = join_of(planned(F + "SELECT r.a FROM r, s WHERE r.a = s.a AND r.b > :lo AND s.b > :hi"))
    assert [f is not None and f.carries for f in both.filters] == [False, False]
    assert all(f is not None and not f.always for f in both.filters)


def test_conditions_above_a_class_of_queries_are_checked_together() -> None:
    sql = F + "SELECT d.a FROM (SELECT DISTINCT a, b FROM s) AS d WHERE d.a > :lo AND d.b < :hi"
    (cluster,) = [n for n in planned(sql).walk() if isinstance(n, physical.Cluster)]
    assert cluster.where is not None and not cluster.params


@pytest.mark.parametrize(
    ("aggregate", "folded"),
    [("COUNT(*)", True), ("SUM(r.b)", True), ("MAX(s.c)", True), ("SUM(r.b + s.b)", False), ("SUM(r.b + 1)", False)],
)
def test_aggregates_of_one_input_each_are_folded_without_joined_rows(aggregate: str, folded: bool) -> None:
    root = planned(BAND.replace("r.a", f"{aggregate} AS v"))
    (group,) = [n for n in root.walk() if isinstance(n, physical.GroupBy)]
    assert (group.range_arguments is not None) is folded


def test_a_table_is_one_more_input_of_a_join_by_key_and_stays_above_one_by_ranges() -> None:
    by_key = planned(F + "SELECT r.a FROM r, s, t WHERE r.a = s.a AND s.a = t.a AND r.b > :lo")
    assert len(join_of(by_key).inputs) == 3
    above, bands = [
        n for n in planned(BAND.replace("r, s", "r, s, t") + " AND s.a = t.a").walk() if type(n) is StemJoin
    ]
    assert bands.ranged and above.inputs[0] is bands and len(above.inputs) == 2
