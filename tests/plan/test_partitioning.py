"""How plans split: a table of texts, with where the tuples of each stream go."""

from __future__ import annotations

import pytest

from eddyline import types as t
from eddyline.plan.bands import ROUNDING
from eddyline.plan.build import plan
from eddyline.plan.expressions import text
from eddyline.plan.nodes import Node, Stream
from eddyline.plan.partitioning import Partitioning, partitioning
from eddyline.plan.routings import Anywhere, ByKey, Home, OnePlace, Reach, Routing
from eddyline.sql.binder import bind_standing
from eddyline.sql.bound import Call, Column, Constant
from eddyline.sql.catalog import Function
from eddyline.sql.parser import parse
from tests.plan.running import bind, catalog

F = "CREATE QUERY FAMILY f (lo INT, hi INT, w DOUBLE) AS "
BAND = F + "SELECT r.a FROM r, s WHERE s.b - r.b BETWEEN :lo AND :hi"

STATELESS = {
    "SELECT a, b + 1 AS x FROM s WHERE a > 3": "s anywhere",
    "SELECT a FROM r [RANGE 5 SECONDS] UNION ALL SELECT b FROM s UNION ALL SELECT a FROM R": "r anywhere, s anywhere",
    "SELECT d.a FROM (SELECT a, b FROM s [NOW] WHERE b > 1) AS d WHERE d.a > 3": "s anywhere",
    F + "SELECT a FROM s [RANGE :hi SECONDS] WHERE a > :lo": "s anywhere",
}
ANYWHERE = {
    "SELECT s.a, t.n FROM s [RANGE 3 SECONDS], t WHERE s.a = t.a": "s anywhere",
    "SELECT s.a, u.n FROM s, u WHERE s.a > u.a": "s anywhere",
    "SELECT s.a, t.n FROM s, t, u": "s anywhere",
    "SELECT s.a, g.k FROM s, (SELECT a, COUNT(*) AS k FROM t GROUP BY a) AS g WHERE s.a = g.a": "s anywhere",
    "SELECT s.a FROM s, t WHERE s.a = t.a UNION ALL SELECT a FROM r": "r anywhere, s anywhere",
}
BY_KEY = {
    # joins by equality, in the type both sides are compared in
    "SELECT r.a FROM r, s WHERE r.a = s.a": "r by a, s by a",
    "SELECT r.a FROM r, s WHERE r.a = s.b": "r by a::BIGINT, s by b",
    "SELECT r.a FROM r, s WHERE r.a = s.c": "r by a::DOUBLE, s by c",
    "SELECT r.a FROM r, s WHERE r.a = s.a AND r.n = s.n AND r.c < s.c": "r by a and n, s by a and n",
    "SELECT r.a FROM r, s WHERE r.a = s.a AND r.a = s.b": "r by a and a::BIGINT, s by a and b",
    "SELECT r.a FROM r, s WHERE r.a + r.b = s.b": "r by a::BIGINT + b, s by b",
    "SELECT r.a FROM r, s WHERE r.n <=> s.n": "r by n, s by n",
    F + "SELECT r.a FROM r, s WHERE r.a = s.a + 1": "r by a, s by a + 1",
    BAND + " AND r.n = s.n": "r by n, s by n",
    # of several streams with a common key, also by way of a table, a parameter or a later condition
    "SELECT x.a FROM r AS x, s AS y, link1 AS z WHERE x.a = y.a AND y.a = z.a": "link1 by a, r by a, s by a",
    "SELECT x.a FROM r AS x, s AS y, link1 AS z WHERE x.a = y.a AND y.a = z.b": (
        "link1 by b, r by a::BIGINT, s by a::BIGINT"
    ),
    "SELECT x.a FROM r AS x, s AS y, t WHERE x.a = t.a AND t.a = y.a": "r by a, s by a",
    "SELECT x.a FROM r AS x, s AS y, u, t WHERE x.a = u.a AND u.a = t.a AND t.a = y.a": "r by a, s by a",
    "SELECT d.p FROM (SELECT x.a AS p, y.a AS q FROM r AS x, s AS y) AS d WHERE d.p = d.q": "r by a, s by a",
    F + "SELECT r.a FROM r, s WHERE r.a = :lo AND s.a = :lo": "r by a, s by a",
    # of a stream with itself
    "SELECT x.a FROM r AS x, r [RANGE 2 SECONDS] AS y WHERE x.a = y.a": "r by a",
    "SELECT x.a FROM r AS x, r AS y WHERE x.a = y.b AND x.n = y.n": "r by n",
    # groups
    "SELECT a, n, COUNT(*) AS k FROM s GROUP BY a, n HAVING COUNT(*) > 2": "s by a and n",
    F + "SELECT a % 2 AS p, COUNT(*) AS k FROM s GROUP BY a % 2": "s by a % 2",
    F + "SELECT a % :lo AS p, n, COUNT(*) AS k FROM s GROUP BY a % :lo, n": "s by n",
    "SELECT x.a, y.n, COUNT(*) AS k FROM r AS x, s AS y WHERE x.a = y.a GROUP BY x.a, y.n": "r by a, s by a",
    "SELECT x.a, COUNT(*) AS k FROM r AS x, s AS y WHERE x.a = y.b GROUP BY x.a": "r by a::BIGINT, s by b",
    "SELECT x.a % y.b AS p, COUNT(*) AS k FROM r AS x, s AS y WHERE x.a = y.a AND x.b = y.b GROUP BY x.a % y.b": (
        "r by a::BIGINT % b, s by a::BIGINT % b"
    ),
    "SELECT t.a, COUNT(*) AS k FROM s, t WHERE s.a = t.a GROUP BY t.a": "s by a",
    "SELECT g.k, r.n FROM (SELECT a, COUNT(*) AS k FROM s GROUP BY a) AS g, r WHERE g.a = r.a": "r by a, s by a",
    "SELECT g.a, SUM(g.k) AS m FROM (SELECT a, n, COUNT(*) AS k FROM s GROUP BY a, n) AS g GROUP BY g.a": "s by a",
    # DISTINCT, EXCEPT, INTERSECT
    "SELECT DISTINCT a, n FROM s": "s by a and n",
    "SELECT DISTINCT CAST(c AS STRING) AS x FROM s": "s by c::STRING",
    "SELECT DISTINCT d.a FROM (SELECT a FROM r UNION ALL SELECT a FROM s) AS d": "r by a, s by a",
    "SELECT a, n FROM s EXCEPT ALL SELECT a, n FROM r": "r by a and n, s by a and n",
    "SELECT a, n FROM s EXCEPT SELECT a, n FROM s WHERE b > 1": "s by a and n",
    "SELECT a, b FROM s INTERSECT ALL SELECT a, a FROM r": "r by a and a::BIGINT, s by a and b",
    # beside what may go anywhere
    "SELECT a, COUNT(*) AS k FROM s GROUP BY a UNION ALL SELECT a, b FROM s": "s by a",
    "SELECT a, COUNT(*) AS k FROM s GROUP BY a UNION ALL SELECT a, b FROM r": "r anywhere, s by a",
}
BY_RANGE = {
    BAND: "r at b, s to b -:hi … -:lo",
    F + "SELECT r.a FROM r, s WHERE abs(r.c - s.c) <= :w": "r at c, s to c -:w … :w",
    F + "SELECT r.a FROM r, s WHERE :w > abs(s.a - r.c)": "r at c, s to a -:w … :w",
    F + "SELECT r.a FROM r, s WHERE s.b >= r.b - 3 AND s.b <= r.b + :hi": "r at b, s to b -:hi … 3.0",
    F + "SELECT r.a FROM r, s WHERE s.c > r.c + :lo AND 3 + r.c > s.c": "r at c, s to c -3.0 … -:lo",
    F + "SELECT r.a FROM r, s WHERE s.b + :lo = r.b": "r at b, s to b :lo … :lo",
    "SELECT r.a FROM r, s WHERE abs(r.a - s.a) < 3": "r at a, s to a -:p0 … :p0",
    F + "SELECT d.a FROM (SELECT a, b * 2 AS x FROM r WHERE b > 0) AS d, s WHERE s.c - d.x BETWEEN :lo AND :w + 1": (
        "r at b * 2, s to c -(:w + 1.0) … -:lo"
    ),
    # the stream without a window is at home
    F + "SELECT r.a FROM r [RANGE 5 SECONDS], s WHERE s.b - r.a BETWEEN :lo AND 3": "r to a :lo … 3.0, s at b",
    # an integer is never NaN
    F + "SELECT r.a FROM r, s WHERE s.b - r.b >= :lo AND s.b <= r.b + :hi": "r at b, s to b -:hi … -:lo",
    # under a join with a table, beside other streams, and beside the one at home
    F + "SELECT r.a FROM r, s, t WHERE s.b - r.b BETWEEN :lo AND :hi AND t.a = r.a": "r at b, s to b -:hi … -:lo",
    BAND + " UNION ALL SELECT DISTINCT a FROM link1": "link1 by a, r at b, s to b -:hi … -:lo",
    BAND + " UNION ALL SELECT a FROM r": "r at b, s to b -:hi … -:lo",
    BAND + " UNION ALL SELECT a FROM s": "r to b :lo … :hi, s at b",
}
ONE_PLACE = (
    # order of arrival, and one group of all
    "SELECT a FROM s [ROWS 3]",
    "SELECT r.a FROM r, s [ROWS 3] WHERE r.a = s.a",
    "SELECT COUNT(*) AS k FROM s",
    # no common key
    "SELECT r.a FROM r, s",
    "SELECT r.a FROM r, s WHERE r.a = s.a OR r.b = s.b",
    "SELECT x.a FROM r AS x, r AS y WHERE x.a = y.b",
    "SELECT x.a FROM r AS x, s AS y, link1 AS z WHERE x.a = y.a AND y.b = z.b",
    "SELECT x.n, COUNT(*) AS k FROM r AS x, s AS y WHERE x.a = y.a GROUP BY x.n",
    "SELECT a, b FROM s EXCEPT ALL SELECT b, a FROM s",
    "SELECT a, COUNT(*) AS k FROM s GROUP BY a UNION ALL SELECT b, COUNT(*) AS k FROM s GROUP BY b",
    "SELECT g.k, COUNT(*) AS m FROM (SELECT a, COUNT(*) AS k FROM s GROUP BY a) AS g GROUP BY g.k",
    "SELECT MAX(g.k) AS m FROM (SELECT a, COUNT(*) AS k FROM s GROUP BY a) AS g",
    "SELECT g.k FROM (SELECT a, COUNT(*) AS k FROM s GROUP BY a) AS g, r WHERE g.k = r.b",
    F + "SELECT a % :lo AS p, COUNT(*) AS k FROM s GROUP BY a % :lo",
    # -0.0 and 0.0 are one row of DISTINCT, and one key of a join, but two texts
    "SELECT CAST(d.c AS STRING) AS x, MAX(d.c) AS m FROM (SELECT DISTINCT c FROM s) AS d GROUP BY CAST(d.c AS STRING)",
    "SELECT CAST(x.c AS STRING) AS z, COUNT(*) AS k FROM r AS x, s AS y WHERE x.c = y.c GROUP BY CAST(x.c AS STRING)",
    # tables, which every bucket would tell again
    "SELECT a FROM t",
    "SELECT t.a FROM t, u WHERE t.a = u.a",
    "SELECT MIN(b) AS m FROM t WHERE a BETWEEN 1 AND 2",
    "SELECT a FROM s UNION ALL SELECT a FROM t",
    "SELECT a FROM s UNION ALL SELECT t.a FROM t, u",
    "SELECT a FROM s EXCEPT ALL SELECT a FROM t",
    "SELECT a FROM t EXCEPT ALL SELECT a FROM s",
    "SELECT a FROM s INTERSECT ALL SELECT a FROM t",
    "SELECT DISTINCT d.a FROM (SELECT a FROM s UNION ALL SELECT a FROM t) AS d",
    "SELECT t.n, COUNT(*) AS k FROM s, t WHERE s.a = t.a GROUP BY t.n",
    # what is no band, or not of two plain streams, or under an operator that sees rows together
    F + "SELECT r.a FROM r, s WHERE s.b - r.b >= :lo",
    F + "SELECT r.a FROM r, s WHERE s.b - r.b >= :lo AND s.a - r.b <= :hi",
    F + "SELECT r.a FROM r, s WHERE s.b - r.b >= :lo AND s.b - r.b <= r.a",
    F + "SELECT r.a FROM r, s WHERE s.b + r.b BETWEEN :lo AND :hi",
    F + "SELECT r.a FROM r, s WHERE s.b - :lo * r.b BETWEEN 0 AND :hi",
    F + "SELECT r.a FROM r, s WHERE abs(r.ts - s.ts) <= INTERVAL :hi SECONDS",
    F + "SELECT r.a FROM r, s WHERE abs(CAST(s.c AS FLOAT) - CAST(r.c AS FLOAT)) <= CAST(:lo AS FLOAT)",
    F + "SELECT x.a FROM r AS x, r AS y WHERE y.b - x.b BETWEEN :lo AND :hi",
    F + "SELECT DISTINCT r.a FROM r, s WHERE s.b - r.b BETWEEN :lo AND :hi",
    F + "SELECT g.a FROM (SELECT a, COUNT(*) AS k FROM r GROUP BY a) AS g, s WHERE s.b - g.k BETWEEN :lo AND :hi",
    F + "SELECT r.a FROM r, s, link1 WHERE s.b - r.b BETWEEN :lo AND :hi AND link1.b - s.b BETWEEN :lo AND :hi",
    # NaN is above all numbers: here a NaN of r would join with everything
    F + "SELECT r.a FROM r, s WHERE s.c - r.c >= :lo AND s.c <= r.c + :hi",
    # who takes any tuple would see the copies
    BAND + " UNION ALL SELECT a FROM r UNION ALL SELECT a FROM s",
    BAND + " UNION ALL SELECT r.a FROM r, s WHERE s.a - r.a BETWEEN :lo AND :hi",
    # one band a plan
    BAND + " UNION ALL SELECT x.a FROM link1 AS x, link2 AS y WHERE x.a - y.a BETWEEN :lo AND :hi",
)

SPLIT = {"stateless": STATELESS, "anywhere": ANYWHERE, "by key": BY_KEY, "by range": BY_RANGE}


def planned(sql: str) -> Node:
    return plan(bind(sql).query)


def described(found: Partitioning) -> str:
    return ", ".join(f"{stream} {place(routing)}" for stream, routing in found.routings)


def place(routing: Routing) -> str:
    match routing:
        case Anywhere():
            return "anywhere"
        case ByKey(key):
            return "by " + " and ".join(typed(e) for e in key)
        case Home(value):
            return f"at {text(value)}"
        case Reach(value, low, high):
            return f"to {text(value)} {text(low)} … {text(high)}"
        case OnePlace():
            return "in one place"


def typed(expr: object) -> str:
    """Text with conversions: the type is part of a key."""
    match expr:
        case Call(function="cast", args=(x,), type=to):
            return f"{typed(x)}::{t.name_of(to)}"
        case Call(function="add", args=(x, y)):
            return f"{typed(x)} + {typed(y)}"
        case Call(function="mod", args=(x, y)):
            return f"{typed(x)} % {typed(y)}"
        case Column() | Constant():
            return text(expr)
    raise TypeError(f"no text for {expr}")


@pytest.mark.parametrize(
    ("kind", "sql", "expected"), [(kind, sql, where) for kind, texts in SPLIT.items() for sql, where in texts.items()]
)
def test_a_plan_splits_as_listed(kind: str, sql: str, expected: str) -> None:
    found = partitioning(planned(sql))
    assert (found.kind, described(found)) == (kind, expected)
    assert found == partitioning(planned(sql)), "the same plan gives the same answer"


@pytest.mark.parametrize("sql", ONE_PLACE)
def test_a_plan_that_cannot_be_split_stays_in_one_place(sql: str) -> None:
    found = partitioning(planned(sql))
    assert found.kind == "one place"
    assert {stream for stream, _ in found.routings} == {n.source.stream.lower() for n in leaves(planned(sql))}
    assert {routing for _, routing in found.routings} <= {OnePlace()}


def leaves(node: Node) -> list[Stream]:
    return [node] if isinstance(node, Stream) else [x for i in node.inputs for x in leaves(i)]


@pytest.mark.parametrize("kind", [*SPLIT, "one place"])
def test_only_a_stateless_plan_keeps_no_state_and_none_that_tells_every_end(kind: str) -> None:
    for sql in SPLIT.get(kind, ONE_PLACE):
        found, all_ends = partitioning(planned(sql)), partitioning(planned(sql), keeps_tuples=True)
        assert found.keeps_state == (kind != "stateless"), sql
        assert all_ends == (Partitioning("anywhere", found.routings) if kind == "stateless" else found), sql
        assert all_ends.keeps_state, sql


def test_streams_are_found_by_name_in_any_case() -> None:
    found = partitioning(planned("SELECT r.a FROM R, s WHERE r.a = s.a"))
    assert found.routing("R") == found.routing("r") == found.routing("s")


def test_keys_and_numbers_are_expressions_over_the_columns_of_the_stream() -> None:
    found = partitioning(planned("SELECT y.a FROM r AS x, s AS y WHERE x.b = y.b"))
    assert found.routing("s") == ByKey((Column(1, t.BIGINT, "b"),))
    found = partitioning(planned(BAND))
    assert found.routing("r") == Home(Column(1, t.BIGINT, "b"))


def test_a_bound_of_several_terms_is_moved_outwards_by_what_rounding_may_add() -> None:
    found = partitioning(planned(F + "SELECT r.a FROM r, s WHERE r.c - s.c + 1 BETWEEN :lo AND :w")).routing("s")
    assert isinstance(found, Reach)
    assert text(found.low) == f"((0.0 + -1.0) + :lo) - ({ROUNDING} * ((0.0 + abs(-1.0)) + abs(:lo)))"
    assert text(found.high) == f"((0.0 + -1.0) + :w) + ({ROUNDING} * ((0.0 + abs(-1.0)) + abs(:w)))"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT f(a) AS x, COUNT(*) AS k FROM s GROUP BY f(a)",
        "SELECT r.a FROM r, s WHERE f(r.a) = f(s.a)",
        "SELECT r.a FROM r, s WHERE r.a - s.a BETWEEN f(1) AND f(2)",
        "SELECT r.a FROM r, s WHERE f(r.a) - s.a BETWEEN 1 AND 2",
    ],
)
def test_nothing_is_routed_by_what_a_users_function_gives(sql: str) -> None:
    known = catalog()
    known.add(Function("f", (t.INT,), t.INT))
    found = partitioning(plan(bind_standing(known, parse(sql)[0].body.query).bound.query))
    assert found.kind == "one place"
