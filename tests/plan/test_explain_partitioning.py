"""What EXPLAIN says about the split over buckets: where the tuples of each stream go, or why all go to one bucket."""

from __future__ import annotations

import pytest

from eddyline.plan.build import plan
from eddyline.plan.explain_partitioning import explain_partitioning
from eddyline.plan.partitioning import by_queries, partitioning
from tests.plan.running import bind
from tests.plan.test_partitioning import ANYWHERE, BY_KEY, BY_RANGE, ONE_PLACE, STATELESS, F

SAID = {
    "SELECT a FROM s WHERE a > 3": "stateless",
    "SELECT s.a, t.n FROM s, t WHERE s.a = t.a": "anywhere (s anywhere)",
    "SELECT r.a FROM r, s WHERE r.a = s.a AND r.n = s.n": "by key (r by a and n, s by a and n)",
    "SELECT x.a FROM r AS x, s AS y, t WHERE x.a = t.a AND t.a = y.a": "by key (r by a, s by a)",
    F + "SELECT r.a FROM r, s WHERE s.b - r.b BETWEEN :lo AND :hi": (
        "by range (r in the cell of b, s copied to the cells from b plus -:hi to b plus -:lo)"
    ),
    "SELECT r.a FROM r, s": (
        "one place (the join of r and s has no common key: no equality of its conditions relates two of its inputs)"
    ),
    "SELECT x.a FROM r AS x, s AS y, link1 AS z WHERE x.a = y.a AND y.b = z.b": (
        "one place (the join of x, y and z has no common key: z has nothing equal to x.a = y.a)"
    ),
    "SELECT x.a FROM r AS x, s AS y, link1 AS z WHERE x.a = y.a": (
        "one place (the join of x, y and z has no common key: z has nothing equal to x.a = y.a)"
    ),
    "SELECT x.a FROM r AS x, r AS y WHERE x.a = y.b": (
        "one place (the join of x and y needs one stream routed by different keys)"
    ),
    "SELECT r.a FROM r, s [ROWS 3] WHERE r.a = s.a": (
        "one place (the count window over s counts the tuples of the whole stream)"
    ),
    "SELECT COUNT(*) AS k FROM s": "one place (without keys all rows are in one group)",
    "SELECT MIN(b) AS m FROM t": "one place (it reads tables only, which every bucket has)",
    "SELECT a, COUNT(*) AS k FROM s GROUP BY a UNION ALL SELECT b, COUNT(*) AS k FROM s GROUP BY b": (
        "one place (the inputs of the union need different routings of a stream)"
    ),
}


@pytest.mark.parametrize(("sql", "said"), SAID.items())
def test_the_split_is_told_with_routings_or_the_reason(sql: str, said: str) -> None:
    bound = plan(bind(sql).query)
    assert explain_partitioning(bound, partitioning(bound)) == said


@pytest.mark.parametrize("sql", [*STATELESS, *ANYWHERE, *BY_KEY, *BY_RANGE, *ONE_PLACE])
def test_every_plan_in_one_place_has_a_reason_and_no_other_has_one(sql: str) -> None:
    bound = plan(bind(sql).query)
    split = partitioning(bound)
    said = explain_partitioning(bound, split)
    assert (
        said == split.kind if split.kind == "stateless" else said.startswith(f"{split.kind} (") and said.endswith(")")
    )
    every = explain_partitioning(bound, by_queries(bound))
    assert every == "by queries (all tuples go to all buckets, each with a part of the queries)"
