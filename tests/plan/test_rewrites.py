"""Rules against the reference: random queries in both forms, split over buckets, and cases that decide what is sound.

`EDDYLINE_NIGHTLY=1` plays more; `python -m tests.plan.rewrites` as many as are asked for.
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import datetime, timedelta
from random import Random

import pytest

import eddyline
from eddyline.engine import engine
from eddyline.plan import nodes
from eddyline.plan.build import build
from eddyline.plan.expressions import calls_functions
from eddyline.plan.nodes import Node
from eddyline.plan.rules import Rule, apply, optimize
from eddyline.plan.rules.pull_up_negation import pull_up_negation
from eddyline.plan.rules.push_down_duplicate_elimination import push_down_duplicate_elimination
from eddyline.plan.rules.push_down_negation import push_down_negation
from eddyline.plan.rules.push_selections_below_groups import push_selections_below_groups
from eddyline.plan.rules.push_selections_below_projections import push_selections_below_projections
from eddyline.plan.rules.push_selections_below_set_operations import push_selections_below_set_operations
from eddyline.plan.rules.push_selections_into_joins import push_selections_into_joins
from tests.oracle.scenario import Player, cut
from tests.oracle.splitting import SplitFamily, Trial
from tests.plan import rewrites
from tests.plan.running import bind

NIGHTLY = os.environ.get("EDDYLINE_NIGHTLY") == "1"
each_rule = pytest.mark.parametrize("rule", rewrites.TEXTS, ids=lambda rule: rule.__name__)


@each_rule
def test_both_forms_have_the_answers_of_the_reference(rule: Rule) -> None:
    for seed in range(700 if NIGHTLY else 8):
        assert rewrites.play(rule, seed) >= 0


@each_rule
def test_buckets_together_say_what_one_place_says(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial()
    monkeypatch.setattr(SplitFamily, "trial", trial)
    monkeypatch.setattr(engine, "RunningFamily", SplitFamily)
    for seed in range(1_000, 1_000 + (150 if NIGHTLY else 5)):
        rnd = Random(seed)
        trial.rnd, trial.buckets = rnd, rnd.choice([2, 3])
        case = rewrites.case_of(rule, seed)
        with rewrites.planned(rule, "with"):
            player = Player(case.scenario)
            for e in cut(rnd, case.scenario):
                player.push(e[1]) if e[0] == "push" else player.play(e)
            for family in player.db.engine.running.values():
                assert isinstance(family, SplitFamily)
                family.check_logs()
    assert trial.kinds["by queries"]


QUERY_5 = (
    "SELECT d.a FROM (SELECT a FROM link1 [RANGE 60 SECONDS] EXCEPT ALL SELECT a FROM link2 [RANGE 60 SECONDS]) AS d, "
    "link3 [RANGE 60 SECONDS] AS z WHERE d.a = z.a"
)
AS_IN_FIGURE_6 = (
    "SELECT x.a FROM link1 [RANGE 60 SECONDS] AS x, link3 [RANGE 60 SECONDS] AS z WHERE x.a = z.a "
    "EXCEPT ALL SELECT a FROM link2 [RANGE 60 SECONDS]"
)


@pytest.mark.parametrize(
    ("sql", "form", "rows"), [(QUERY_5, "without", 3), (QUERY_5, "with", 3), (AS_IN_FIGURE_6, "without", 5)]
)
def test_two_one_and_three_copies_give_three_rows_in_both_forms_of_query_5(
    sql: str, form: rewrites.Form, rows: int
) -> None:
    """The form of the document's Figure 6 is another query: it subtracts link2 once, not once for each match."""
    db = eddyline.connect()
    for i in (1, 2, 3):
        db.execute(f"CREATE STREAM link{i} (a INT, ts TIMESTAMP) WATERMARK ts")
    with rewrites.planned(pull_up_negation, form):
        db.execute(f"CREATE CONTINUOUS QUERY q AS {sql}")
    assert ("pull up negation" in db.explain("q")) == (form == "with")
    now = datetime(2026, 1, 1)
    for i, copies in ((1, 2), (2, 1), (3, 3)):
        db.push(f"link{i}", [{"a": 7, "ts": now + timedelta(seconds=n)} for n in range(copies)])
    db.advance(now + timedelta(seconds=10))
    assert Counter(map(str, db.snapshot("q").to_pylist())) == Counter({"{'a': 7}": rows})


# What a rule must leave as it is.

F = "CREATE QUERY FAMILY f (p INT) AS "
NEGATION = "(SELECT a, b, c FROM link1 EXCEPT ALL SELECT a, b, c FROM link2) AS d"
UNSOUND: dict[Rule, list[str]] = {
    push_selections_below_projections: [
        F + "SELECT d.x FROM (SELECT a + :p AS x FROM s) AS d WHERE d.x > 1",
        F + "SELECT d.x FROM (SELECT a + b AS x FROM s) AS d WHERE d.x > 1",  # may overflow
        F + "SELECT d.x FROM (SELECT a AS x FROM s) AS d WHERE d.x > :p",
    ],
    push_selections_below_set_operations: [
        F + "SELECT d.a FROM (SELECT DISTINCT a, c FROM s) AS d WHERE CAST(d.c AS STRING) = '0.0'",
        F + "SELECT d.a FROM (SELECT a, c FROM r EXCEPT ALL SELECT a, c FROM s) AS d WHERE d.a > :p",
    ],
    push_selections_below_groups: [
        F + "SELECT COUNT(*) AS k FROM s HAVING COUNT(*) > 1",
        F + "SELECT a, COUNT(*) AS k FROM s GROUP BY a HAVING COUNT(*) > a",
        F + "SELECT c, COUNT(*) AS k FROM s GROUP BY c HAVING CAST(c AS STRING) = '0.0'",
        F + "SELECT a, COUNT(*) AS k FROM s GROUP BY a HAVING a > :p",
    ],
    push_selections_into_joins: [
        F + "SELECT x.a, y.b FROM r AS x, s AS y WHERE x.a = y.a",
    ],
    pull_up_negation: [
        f"SELECT d.a, z.c FROM {NEGATION}, link3 AS z WHERE d.a = z.a",  # 0.0 and -0.0 of z.c would be counted as one
        f"SELECT d.a FROM {NEGATION}, link3 AS z WHERE CAST(d.c AS STRING) = z.n",
        f"SELECT d.a FROM {NEGATION}, link3 AS z WHERE d.a + z.a > z.b",
        f"SELECT d.a FROM {NEGATION}, (SELECT a * b AS x FROM link3) AS z WHERE d.a = z.x",
    ],
    push_down_negation: [
        # x.b is used by the join and not kept; the windows, the inputs or the conditions of C differ
        F + "SELECT x.a FROM r AS x, s AS z WHERE x.b = z.b "
        "EXCEPT ALL SELECT x.a FROM link1 AS x, s AS z WHERE x.b = z.b",
        F + "SELECT x.a FROM r AS x, s AS z WHERE x.a = z.b "
        "EXCEPT ALL SELECT x.a FROM link1 AS x, s [RANGE 5 SECONDS] AS z WHERE x.a = z.b",
        F + "SELECT x.a FROM r AS x, s AS z WHERE x.a = z.b "
        "EXCEPT ALL SELECT x.a FROM link1 AS x, link2 AS z WHERE x.a = z.b",
        F + "SELECT x.a FROM r AS x, s AS z WHERE x.a = z.b "
        "EXCEPT ALL SELECT x.a FROM link1 AS x, s AS z WHERE x.a = z.a",
        # the constants of a text are parameters, and two of them may differ
        "SELECT x.a FROM r AS x, s AS z WHERE x.a = z.b AND z.a > 1 "
        "EXCEPT ALL SELECT x.a FROM link1 AS x, s AS z WHERE x.a = z.b AND z.a > 1",
    ],
    push_down_duplicate_elimination: [
        "SELECT DISTINCT x.a, z.n FROM r AS x, s AS z WHERE x.a = z.a AND x.b < z.b",  # x.b and z.b are dropped
        "SELECT DISTINCT x.a + z.a AS y, x.a, z.a AS b FROM r AS x, s AS z WHERE x.a = z.a",
        "SELECT DISTINCT coalesce(x.a, z.a) AS y FROM r AS x, s AS z",
        "SELECT DISTINCT x.a FROM r AS x, s AS z WHERE x.a < z.a",
        "SELECT DISTINCT x.c, z.n FROM r AS x, s AS z WHERE CAST(x.c AS STRING) = z.n",
    ],
}
unsound = [pytest.param(rule, sql, id=f"{rule.__name__}-{i}") for rule, x in UNSOUND.items() for i, sql in enumerate(x)]


@pytest.mark.parametrize(("rule", "sql"), unsound)
def test_a_rule_leaves_what_it_would_change_for_users(rule: Rule, sql: str) -> None:
    given = build(bind(sql).query)
    assert apply(rule, given) == given


NOT_IN_S = "(SELECT a, b FROM r EXCEPT ALL SELECT a, b FROM s) AS d"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT d.a FROM {NOT_IN_S} WHERE odd(d.a) AND d.a < d.b",
        "SELECT d.a FROM (SELECT odd(a) AS o, a FROM r) AS d WHERE d.o",
        f"SELECT d.a FROM {NOT_IN_S}, r AS z WHERE d.a = z.a AND odd(z.b)",
        f"SELECT d.a FROM {NOT_IN_S}, (SELECT a FROM r WHERE odd(b)) AS z WHERE d.a = z.a",
        "SELECT DISTINCT x.a, y.b FROM r AS x, s AS y WHERE x.a = y.b AND odd(x.a)",
        "SELECT DISTINCT odd(x.a) AS o, x.a, y.b FROM r AS x, s AS y WHERE x.a = y.b",
    ],
)
@pytest.mark.parametrize("rule", [pull_up_negation, push_down_duplicate_elimination], ids=lambda r: r.__name__)
def test_users_functions_stay_where_they_are_called(sql: str, rule: Rule) -> None:
    db = eddyline.connect()
    for name in "rs":
        db.execute(f"CREATE STREAM {name} (a INT, b INT, ts TIMESTAMP) WATERMARK ts")
    db.function("odd", lambda x: x % 2 == 1, ["INT"], "BOOLEAN")
    with rewrites.planned(rule, "with"):
        db.execute(f"CREATE CONTINUOUS QUERY q AS {sql}")
    family, _ = db.registry.query("q")
    assert calls(family.plan) == calls(build(family.bound.query))


def calls(node: Node) -> list[str]:
    """The kinds of nodes that call a function, from the root on."""
    own = [type(node).__name__] if any(map(calls_functions, nodes.expressions(node))) else []
    return own + [name for i in node.inputs for name in calls(i)]


def test_with_equal_guesses_forms_that_are_not_clearly_better_are_not_taken() -> None:
    for sql in (QUERY_5, "SELECT DISTINCT x.a, z.n FROM r AS x, s AS z WHERE x.a = z.a", AS_IN_FIGURE_6):
        given = build(bind(sql).query)
        assert optimize(given).plan == given


@pytest.mark.parametrize(
    ("options", "rewritten"),
    [
        ("", True),
        ("WITH (join = 'hash')", True),
        ("WITH (join = 'nested loop')", True),
        ("WITH (join = 'hybrid', index_entries = 100)", False),
        ("WITH (order = 'z, d, w')", False),
    ],
)
def test_options_that_name_the_inputs_of_a_join_keep_it_as_written(options: str, rewritten: bool) -> None:
    db = eddyline.connect()
    for name in "rs":
        db.execute(f"CREATE STREAM {name} (a INT, b INT, ts TIMESTAMP) WATERMARK ts")
    with rewrites.planned(pull_up_negation, "with"):
        db.execute(
            f"CREATE CONTINUOUS QUERY q {options} AS "
            f"SELECT d.a FROM {NOT_IN_S}, r AS z, s AS w WHERE d.a = z.a AND z.b = w.b"
        )
    assert ("rewritten: pull up negation" in db.explain("q")) is rewritten
