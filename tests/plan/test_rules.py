"""Plans as golden texts, and rewrites by what they must not change: the answers.

A golden file begins with statistics, if there are any, and SQL. `UPDATE_GOLDEN=1` writes the rest anew.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from eddyline.plan.build import build, plan
from eddyline.plan.explain import explain
from eddyline.plan.explain_physical import explain_physical
from eddyline.plan.expressions import all_of, conjuncts
from eddyline.plan.nodes import Join, Node, Project, Select, TableJoin
from eddyline.plan.physical_planner import physical_plan
from eddyline.plan.rules import CHOSEN, RULES, Rule, apply, optimize
from eddyline.plan.rules.merge_projections import merge_projections
from eddyline.plan.rules.merge_selections import merge_selections
from eddyline.plan.rules.pull_up_negation import pull_up_negation
from eddyline.plan.rules.push_down_duplicate_elimination import push_down_duplicate_elimination
from eddyline.plan.rules.push_down_negation import push_down_negation
from eddyline.plan.rules.push_down_selections import push_down_selections
from eddyline.plan.rules.push_selections_below_groups import push_selections_below_groups
from eddyline.plan.rules.push_selections_below_projections import push_selections_below_projections
from eddyline.plan.rules.push_selections_below_set_operations import push_selections_below_set_operations
from eddyline.plan.rules.push_selections_into_joins import push_selections_into_joins
from eddyline.plan.statistics import Statistics
from tests.plan.running import answers, batches, bind, plainly, registered

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.txt"))
each_file = pytest.mark.parametrize("file", GOLDEN, ids=lambda f: f.stem)


def sql_of(file: Path) -> str:
    lines = file.read_text().partition("\n\n")[0].splitlines()
    return "\n".join(line for line in lines if not line.startswith("-- "))


def statistics_of(file: Path) -> Statistics:
    """Those of lines such as `-- distinct link3.a = 5` and `-- queries = 64`."""
    distinct: dict[tuple[str, str], float] = {}
    queries = 1.0
    for line in file.read_text().splitlines():
        if line.startswith("-- "):
            what, _, value = line.removeprefix("-- ").partition(" = ")
            if what == "queries":
                queries = float(value)
            else:
                relation, _, column = what.removeprefix("distinct ").partition(".")
                distinct[relation, column] = float(value)
    return Statistics(distinct=distinct, queries=queries)


@each_file
def test_explain_text_is_the_golden_one(file: Path) -> None:
    given, sql = [x for x in file.read_text().splitlines() if x.startswith("-- ")], sql_of(file)
    bound = bind(sql)
    rewritten = optimize(build(bound.query), statistics_of(file))
    lines = [*given, sql, "", *(f"rewritten: {r}" for r in rewritten.rewrites)]
    lines += [explain(rewritten.plan), "", explain_physical(physical_plan(rewritten.plan), bound.params), ""]
    text = "\n".join(lines)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        file.write_text(text)
    assert file.read_text() == text


def test_every_class_of_query_has_a_golden_plan() -> None:
    assert len(GOLDEN) >= 15


@pytest.mark.parametrize("rule", [*RULES, *CHOSEN], ids=lambda r: r.__name__)
def test_every_rule_has_a_golden_plan_that_it_changed(rule: Rule) -> None:
    (file,) = [f for f in GOLDEN if f.stem == rule.__name__]
    assert f"\nrewritten: {rule.__name__.replace('_', ' ')}" in file.read_text()


def same_answers(sql: str, before: Node, after: Node, seeds: int) -> int:
    """Compares two plans of one text on random input; how many rows their answers had."""
    bound, rows = bind(sql), 0
    for seed in range(seeds):
        rnd = Random(f"{sql}{seed}")
        queries, steps = registered(rnd, bound), batches(rnd)
        expected, found = (answers(p, queries, steps) for p in (before, after))
        assert found == expected, f"seed {seed}: too many {found - expected}, too few {expected - found}"
        rows += len(found)
    return rows


@each_file
def test_all_rewrites_together_leave_the_answers_as_they_are(file: Path) -> None:
    query = bind(sql_of(file)).query
    assert same_answers(sql_of(file), plainly(build(query)), plan(query, statistics_of(file)), seeds=3) > 0


F = "CREATE QUERY FAMILY f (p INT) AS "
LINK1, LINK2, LINK3 = (f"link{i} [RANGE 5 SECONDS]" for i in (1, 2, 3))
NOT_ON_LINK2 = f"(SELECT a, b FROM {LINK1} EXCEPT ALL SELECT a, b FROM {LINK2}) AS d"
CASES: dict[Rule, list[str]] = {
    merge_projections: [
        "SELECT d.x + 1 AS y, d.n FROM (SELECT b * 2 AS x, n FROM s [RANGE 3 SECONDS]) AS d",
        "SELECT d.y FROM (SELECT e.x AS y, e.n FROM (SELECT a AS x, n FROM s) AS e) AS d",
        "SELECT d.a, d.a + d.a AS twice FROM (SELECT a, b FROM s [RANGE 2 SECONDS]) AS d",
        F + "SELECT d.x + :p AS y FROM (SELECT b * 2 AS x FROM s [RANGE 3 SECONDS]) AS d",
    ],
    merge_selections: [
        F + "SELECT d.a FROM (SELECT a, b FROM s [RANGE 3 SECONDS] WHERE a > :p) AS d WHERE d.b < 2",
    ],
    push_down_selections: [
        F + "SELECT r.a, s.b FROM r [RANGE 3 SECONDS], s WHERE r.a = s.a AND r.n = 'a' AND s.b > 0 AND r.b > :p",
        F + "SELECT x.a FROM r AS x, s [RANGE 2 SECONDS] AS y, s [RANGE 3 SECONDS] AS z "
        "WHERE x.a = y.a AND y.b = z.b AND z.a + z.b > 1 AND x.n IS NOT NULL AND z.c <= :p",
        "SELECT x.a, y.b FROM r [RANGE 3 SECONDS] AS x, r [RANGE 3 SECONDS] AS y WHERE x.a = y.a AND y.a < y.b",
        F + "SELECT r.a, u.n FROM r, s [RANGE 3 SECONDS], u WHERE r.a = s.a AND s.b = u.b AND r.b > 0 AND u.a >= :p",
    ],
    push_selections_below_projections: [
        "SELECT d.x FROM (SELECT a AS x, b, upper(n) AS m FROM s [RANGE 3 SECONDS]) AS d WHERE d.x < d.b OR d.m = d.m",
        F + "SELECT d.x FROM (SELECT a + :p AS x, b FROM s) AS d WHERE d.b > 0 AND d.x > 1",
        "SELECT d.a FROM (SELECT e.a, e.b FROM (SELECT a, b, c FROM s [RANGE 2 SECONDS]) AS e) AS d WHERE d.a <= d.b",
    ],
    push_selections_below_set_operations: [
        F + "SELECT d.a FROM (SELECT a, b FROM r UNION ALL SELECT b, a FROM s [RANGE 3 SECONDS]) AS d "
        "WHERE d.a < 2 AND d.b > :p",
        "SELECT d.a FROM (SELECT DISTINCT a, b FROM r [RANGE 3 SECONDS]) AS d WHERE d.a <= d.b",
        "SELECT d.a FROM (SELECT a, b FROM r INTERSECT ALL SELECT a, b FROM s) AS d WHERE d.a <= d.b",
        F + "SELECT d.a FROM (SELECT a, b FROM r [RANGE 4 SECONDS] EXCEPT ALL SELECT a, b FROM s [RANGE 3 SECONDS] "
        "EXCEPT ALL SELECT a, b FROM link1) AS d WHERE d.a IS NOT NULL AND d.b <> :p",
    ],
    push_selections_below_groups: [
        F + "SELECT a, COUNT(*) AS k FROM s [RANGE 3 SECONDS] GROUP BY a HAVING a > 1 AND COUNT(*) > :p",
        "SELECT a, b, MAX(c) AS m FROM s [RANGE 3 SECONDS] GROUP BY a, b HAVING a <= b",
        "SELECT abs(a) AS x, MIN(n) AS m FROM s [ROWS 4] GROUP BY abs(a), b HAVING abs(a) <= b AND MIN(n) = MIN(n)",
    ],
    push_selections_into_joins: [
        "SELECT d.a FROM (SELECT x.a, y.b FROM r [RANGE 3 SECONDS] AS x, s AS y WHERE x.n = y.n) AS d WHERE d.a = d.b",
        F + "SELECT d.a FROM (SELECT x.a, t.b, t.n FROM r [RANGE 4 SECONDS] AS x, t WHERE x.a = t.a) AS d "
        "WHERE d.a <= d.b AND d.b >= :p",
    ],
    pull_up_negation: [
        f"SELECT d.a FROM {NOT_ON_LINK2}, {LINK3} AS z WHERE d.a = z.a AND z.n = 'a'",
        f"SELECT z.n, d.b FROM r [RANGE 3 SECONDS] AS x, {NOT_ON_LINK2}, {LINK3} AS z WHERE d.a = z.a AND x.b = d.b",
        f"SELECT z.n, COUNT(*) AS k, MAX(d.b) AS m FROM {NOT_ON_LINK2}, {LINK3} AS z WHERE d.a = z.a GROUP BY z.n",
        "SELECT e.x, z.n FROM (SELECT b AS x, abs(a) AS y FROM (SELECT x.a, y.b FROM r AS x, s [RANGE 4 SECONDS] AS y "
        f"WHERE x.a = y.a EXCEPT ALL SELECT a, b FROM {LINK2}) AS d) AS e, {LINK3} AS z WHERE e.y = z.b",
        F + f"SELECT d.a, z.a AS other FROM {NOT_ON_LINK2}, {LINK3} AS z WHERE d.b <= z.b AND d.a > :p",
    ],
    push_down_negation: [
        F + f"SELECT x.a, z.n FROM {LINK1} AS x, {LINK3} AS z WHERE x.a = z.a AND z.n = 'a' "
        f"EXCEPT ALL SELECT y.a, w.n FROM {LINK2} AS y, {LINK3} AS w WHERE y.a = w.a AND w.n = 'a'",
        "SELECT x.a, x.b FROM link1 AS x, s AS z WHERE x.a = z.a AND x.b <= z.b "
        "EXCEPT ALL SELECT y.a, y.b FROM link2 AS y, s AS z WHERE y.a = z.a AND y.b <= z.b",
        F + "SELECT z.b, x.b AS a FROM r AS w, s AS z, link1 AS x WHERE x.b = z.a AND w.a = z.a AND w.b > :p "
        "EXCEPT ALL SELECT z.b, y.a AS b FROM r AS w, s AS z, (SELECT b AS a FROM link2) AS y "
        "WHERE y.a = z.a AND w.a = z.a AND w.b > :p",
    ],
    push_down_duplicate_elimination: [
        "SELECT DISTINCT x.a, z.n FROM r [RANGE 3 SECONDS] AS x, s [RANGE 5 SECONDS] AS z WHERE x.a = z.a",
        "SELECT DISTINCT z.b, abs(x.a) AS a FROM r [RANGE 3 SECONDS] AS x, s AS z WHERE abs(x.a) < z.b",
        F + "SELECT DISTINCT x.a FROM r [RANGE 3 SECONDS] AS x, s AS y, link1 AS z "
        "WHERE x.a = y.b AND y.b = z.a AND x.a > :p",
        "SELECT DISTINCT x.c, z.n FROM r [RANGE 3 SECONDS] AS x, s [ROWS 5] AS z WHERE x.c = z.c AND x.n <=> z.n",
    ],
}
BEFORE: dict[Rule, Rule] = {  # what must have moved first
    merge_selections: push_selections_below_projections,
    push_selections_into_joins: push_selections_below_projections,
}
cases = [
    pytest.param(rule, sql, id=f"{rule.__name__}-{i}") for rule, all_ in CASES.items() for i, sql in enumerate(all_)
]


def before(rule: Rule, sql: str) -> Node:
    built = build(bind(sql).query)
    return apply(BEFORE[rule], built) if rule in BEFORE else built


def test_every_rule_has_cases() -> None:
    assert set(CASES) == {*RULES, *CHOSEN}


@pytest.mark.parametrize(("rule", "sql"), cases)
def test_a_rule_changes_the_plan_and_not_the_answers(rule: Rule, sql: str) -> None:
    given = before(rule, sql)
    after = apply(rule, given)
    assert after != given
    assert [f.type for f in after.fields] == [f.type for f in given.fields]
    assert same_answers(sql, plainly(given), plainly(after), seeds=6) > 0


@pytest.mark.parametrize(("rule", "sql"), cases)
def test_a_rule_leaves_nothing_for_itself_to_do(rule: Rule, sql: str) -> None:
    once = apply(rule, before(rule, sql))
    assert apply(rule, once) == once


def found(node: Node, kind: type) -> list[Node]:
    return [n for n in (node, *(x for i in node.inputs for x in found(i, kind))) if isinstance(n, kind)]


def test_projections_are_merged_into_one() -> None:
    sql = "SELECT d.y FROM (SELECT e.x AS y, e.n FROM (SELECT a AS x, n FROM s) AS e) AS d"
    assert len(found(build(bind(sql).query), Project)) == 3
    assert len(found(plan(bind(sql).query), Project)) == 1


def test_a_computed_column_that_is_used_twice_is_computed_once() -> None:
    sql = "SELECT d.x + d.x AS y FROM (SELECT b * 2 AS x FROM s) AS d"
    assert len(found(plan(bind(sql).query), Project)) == 2


def test_a_condition_with_a_parameter_stays_above_the_state_that_is_shared() -> None:
    sql = F + "SELECT r.a FROM r, s WHERE r.a = s.a AND r.b > :p AND s.b > 0"
    (join,) = found(plan(bind(sql).query), Join)
    assert not isinstance(join.inputs[0], Select)
    assert isinstance(join.inputs[1], Select)


@pytest.mark.parametrize("table", ["t", "u"])
def test_a_condition_on_the_flowing_side_moves_below_a_table_join(table: str) -> None:
    """`build` puts it there already, so the plan in which it stands on the join is made by hand."""
    sql = F + f"SELECT s.a FROM s [RANGE 4 SECONDS], {table} WHERE s.a = {table}.a AND s.b > 0 AND {table}.b >= :p"
    built = build(bind(sql).query)
    assert isinstance(built, Project) and isinstance(built.input, TableJoin)
    join = built.input
    assert isinstance(join.input, Select)
    above = all_of([*conjuncts(join.condition), *conjuncts(join.input.condition)])
    before = replace(built, input=replace(join, input=join.input.input, condition=above))
    after = apply(push_down_selections, before)
    assert after == built != before
    assert same_answers(sql, plainly(before), after, seeds=6) > 0
