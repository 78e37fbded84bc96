"""Joins over the same streams by keys that are equal in odd ways, and with constants of their own."""

from __future__ import annotations

from collections import Counter

from tests.local.common import Logs, row
from tests.local.shared_streams import PAIR, TEXTS, joins, results

# Keys.


def test_null_keys_join_with_nothing_and_nan_and_zeros_with_themselves() -> None:
    db = joins(
        "SELECT x.b AS rb, y.b AS sb FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y WHERE x.c = y.c",
        "SELECT x.b AS rb, y.b AS sb FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y WHERE x.c <=> y.c",
    )
    odd = [None, float("nan"), -0.0, 0.0, float("inf"), -float("nan"), float("-inf")]
    groups = [{1, 5}, {2, 3}, {4}, {6}]
    db.push("r", [row(1, b=i, c=c) for i, c in enumerate(odd)])
    found = db.push("s", [row(1, b=i, c=c) for i, c in enumerate(odd)])
    equal = Counter((x, y) for group in groups for x in group for y in group)
    assert results(found, "q0") == equal
    assert results(found, "q1") == equal + Counter({(0, 0): 1})


def test_texts_join_if_all_their_characters_are_equal() -> None:
    db = joins("SELECT x.b AS rb, y.b AS sb FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y WHERE x.n = y.n")
    for i, text in enumerate(TEXTS):
        db.push("r", [row(1, b=i, n=text)])
    found = db.push("s", [row(1, b=i, n=text) for i, text in enumerate((*TEXTS, None, "b"))])
    assert results(found, "q0") == Counter((i, i) for i in range(len(TEXTS)))


def test_keys_of_different_types_join_by_value() -> None:
    db = joins(
        "SELECT x.a AS k, y.b AS v FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y WHERE x.a = y.b",
        "SELECT x.a AS k, y.c AS v FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y WHERE x.a = y.c",
        "SELECT x.a AS k, y.b AS v, z.c AS w FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y, v [RANGE 9 SECONDS] z "
        "WHERE x.a = y.b AND y.b = z.c",
    )
    db.push("r", [row(1, a=a) for a in (0, 1, -1, 2**31 - 1)])
    wide = [(0, -0.0), (1, 1.0), (-1, -1.5), (2**32 + 1, 1.5), (2**31 - 1, 2147483647.0), (2**63 - 1, float("nan"))]
    found = db.push("s", [row(1, b=b, c=c) for b, c in wide])
    assert results(found, "q0") == Counter((n, n) for n in (0, 1, -1, 2**31 - 1))
    assert results(found, "q1") == Counter((n, float(n)) for n in (0, 1, 2**31 - 1))
    found = db.push("v", [row(1, c=c) for _, c in wide])
    assert results(found, "q2") == Counter((n, n, float(n)) for n in (0, 1, 2**31 - 1))


def test_keys_that_overflow_join_with_nothing() -> None:
    db = joins("SELECT x.a AS k, y.a AS v FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y WHERE x.b + 1 = y.b")
    db.push("r", [row(1, a=1, b=2**63 - 1), row(1, a=2, b=-1)])
    found = db.push("s", [row(1, a=3, b=-(2**63)), row(1, a=4, b=0)])
    assert results(found, "q0") == Counter({(2, 4): 1})


def test_equalities_of_different_attributes_are_not_closed_into_one_key() -> None:
    db = joins(
        "SELECT x.b, y.b, z.b FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y, v [RANGE 9 SECONDS] z "
        "WHERE x.a = y.a AND y.b = z.a"
    )
    db.push({"r": [row(1, a=1, b=1)], "s": [row(1, a=1, b=2)]})
    assert results(db.push("v", [row(1, a=1, b=3)]), "q0") == Counter()
    assert results(db.push("v", [row(1, a=2, b=4)]), "q0") == Counter({(1, 2, 4): 1})


def test_transitive_equality_of_a_double_between_two_whole_numbers_is_not_skipped() -> None:
    """BIGINT keys that round to the same double are equal to it, and not to each other."""
    db = joins(
        "SELECT x.b AS k, y.c AS v, z.b AS w FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y, v [RANGE 9 SECONDS] z "
        "WHERE x.b = y.c AND y.c = z.b"
    )
    db.push("r", [row(1, b=2**53)])
    db.push("s", [row(1, c=2.0**53)])
    assert results(db.push("v", [row(1, b=2**53 + 1)]), "q0") == Counter({(2**53, 2.0**53, 2**53 + 1): 1})


# Per-query selections and constants.


def test_selections_of_different_queries_do_not_mix() -> None:
    db = joins()
    db.execute(f"CREATE QUERY FAMILY fam (x INT, y INT) AS {PAIR.format(9)} AND x.b = :x AND y.b = :y")
    db.register("fam", [{"query": f"m{x}{y}", "x": x, "y": y} for x in range(3) for y in range(3)])
    db.push("r", [row(1, b=0), row(1, b=1)])
    found = db.push("s", [row(1, b=1), row(1, b=2)])
    for x in range(3):
        for y in range(3):
            assert results(found, f"m{x}{y}") == Counter({(x, y): 1} if x < 2 and y > 0 else {})


def test_windows_of_different_queries_of_one_family_do_not_mix() -> None:
    db = joins()
    text = "SELECT x.b AS rb, y.b AS sb FROM r [RANGE :w SECONDS] x, s [RANGE :v SECONDS] y WHERE x.a = y.a"
    db.execute(f"CREATE QUERY FAMILY fam (w INT, v INT) AS {text}")
    db.register("fam", [{"query": f"m{w}_{v}", "w": w, "v": v} for w in (0, 3, 7) for v in (0, 3, 7)])
    logs = Logs(*(f"m{w}_{v}" for w in (0, 3, 7) for v in (0, 3, 7)))
    logs.take(db.push({"r": [row(0, b=0), row(5, b=5)], "s": [row(2, b=2), row(8, b=8)]}))
    for w in (0, 3, 7):
        for v in (0, 3, 7):
            wanted = Counter((x, y) for x in (0, 5) for y in (2, 8) if max(x, y) <= min(x + w, y + v))
            assert Counter(values for *_, values in logs.of[f"m{w}_{v}"]) == wanted, (w, v)


def test_three_inputs_are_pruned_by_the_condition_of_each_query_on_each_of_them() -> None:
    db = joins()
    text = "SELECT x.b, y.b, z.b FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y, v [RANGE 9 SECONDS] z "
    db.execute(
        f"CREATE QUERY FAMILY fam (i INT, j INT, k INT) AS {text} WHERE x.a = y.a AND y.a = z.a "
        "AND x.b >= :i AND y.b >= :j AND z.b >= :k"
    )
    names = [(i, j, k) for i in range(3) for j in range(3) for k in range(3)]
    db.register("fam", [{"query": f"m{i}{j}{k}", "i": i, "j": j, "k": k} for i, j, k in names])
    logs = Logs(*(f"m{i}{j}{k}" for i, j, k in names))
    for stream in "svr":
        logs.take(db.push(stream, [row(1, b=0), row(1, b=1)]))
    for i, j, k in names:
        wanted = Counter((x, y, z) for x in range(i, 2) for y in range(j, 2) for z in range(k, 2))
        assert Counter(values for *_, values in logs.of[f"m{i}{j}{k}"]) == wanted
