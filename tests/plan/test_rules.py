"""Plans as golden texts, and rewrites by what they must not change: the answers.

`UPDATE_GOLDEN=1` writes the files in `golden/` anew from the SQL they begin with.
"""

from __future__ import annotations

import os
from collections.abc import Callable
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
from eddyline.plan.rules import RULES, apply
from eddyline.plan.rules.merge_projections import merge_projections
from eddyline.plan.rules.push_down_selections import push_down_selections
from tests.plan.running import answers, batches, bind, plainly, registered

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.txt"))
each_file = pytest.mark.parametrize("file", GOLDEN, ids=lambda f: f.stem)


def sql_of(file: Path) -> str:
    return file.read_text().partition("\n\n")[0]


@each_file
def test_explain_text_is_the_golden_one(file: Path) -> None:
    sql = sql_of(file)
    bound = bind(sql)
    logical = plan(bound.query)
    text = f"{sql}\n\n{explain(logical)}\n\n{explain_physical(physical_plan(logical), bound.params)}\n"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        file.write_text(text)
    assert file.read_text() == text


def test_every_class_of_query_has_a_golden_plan() -> None:
    assert len(GOLDEN) >= 15


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
    assert same_answers(sql_of(file), plainly(build(query)), plan(query), seeds=3) > 0


F = "CREATE QUERY FAMILY f (p INT) AS "
CASES: dict[Callable[[Node], Node], list[str]] = {
    merge_projections: [
        "SELECT d.x + 1 AS y, d.n FROM (SELECT b * 2 AS x, n FROM s [RANGE 3 SECONDS]) AS d",
        "SELECT d.y FROM (SELECT e.x AS y, e.n FROM (SELECT a AS x, n FROM s) AS e) AS d",
        "SELECT d.a, d.a + d.a AS twice FROM (SELECT a, b FROM s [RANGE 2 SECONDS]) AS d",
        F + "SELECT d.x + :p AS y FROM (SELECT b * 2 AS x FROM s [RANGE 3 SECONDS]) AS d",
    ],
    push_down_selections: [
        F + "SELECT r.a, s.b FROM r [RANGE 3 SECONDS], s WHERE r.a = s.a AND r.n = 'a' AND s.b > 0 AND r.b > :p",
        F + "SELECT x.a FROM r AS x, s [RANGE 2 SECONDS] AS y, s [RANGE 3 SECONDS] AS z "
        "WHERE x.a = y.a AND y.b = z.b AND z.a + z.b > 1 AND x.n IS NOT NULL AND z.c <= :p",
        "SELECT x.a, y.b FROM r [RANGE 3 SECONDS] AS x, r [RANGE 3 SECONDS] AS y WHERE x.a = y.a AND y.a < y.b",
        F + "SELECT r.a, u.n FROM r, s [RANGE 3 SECONDS], u WHERE r.a = s.a AND s.b = u.b AND r.b > 0 AND u.a >= :p",
    ],
}
cases = [
    pytest.param(rule, sql, id=f"{rule.__name__}-{i}") for rule, all_ in CASES.items() for i, sql in enumerate(all_)
]


def test_every_rule_has_cases() -> None:
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize(("rule", "sql"), cases)
def test_a_rule_changes_the_plan_and_not_the_answers(rule: Callable[[Node], Node], sql: str) -> None:
    before = build(bind(sql).query)
    after = apply(rule, before)
    assert after != before
    assert same_answers(sql, plainly(before), plainly(after), seeds=6) > 0


@pytest.mark.parametrize(("rule", "sql"), cases)
def test_a_rule_leaves_nothing_for_itself_to_do(rule: Callable[[Node], Node], sql: str) -> None:
    once = apply(rule, build(bind(sql).query))
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
