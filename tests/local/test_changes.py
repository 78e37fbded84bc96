"""What `Changes` tells: counts, names, rows, compact rows and who was affected agree with each other."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

import eddyline
from tests.local.common import at, bag, log_of, random_rows, row, tuples, world

FAMILY = "CREATE QUERY FAMILY above (lo INT) AS SELECT a, n FROM s WHERE a > :lo"
TIME = pa.timestamp("us")


def registered(db, family="above", **queries):
    if queries:
        db.register(family, [{"query": q, "lo": lo} for q, lo in queries.items()])
    return db


def above(**queries):
    db = world()
    db.execute(FAMILY)
    return registered(db, **queries)


def test_filter_changes_are_counted_named_and_listed():
    db = above(low=0, mid=1, high=9)
    ch = db.push("s", [row(0, a=1), row(1, a=2), row(2, a=0)])
    assert ch.count() == len(ch) == 3
    assert sorted(ch.queries()) == ["low", "mid"]
    assert log_of(ch, "low") == [("+", at(0), None, (1, "x")), ("+", at(1), None, (2, "x"))]
    assert log_of(ch, "mid") == [("+", at(1), None, (2, "x"))]
    assert log_of(ch, "high") == []
    assert bag(ch.rows("above").select(["query", "a"])) == Counter([("low", 1), ("low", 2), ("mid", 2)])


def test_compact_lists_the_queries_of_each_result():
    db = above(low=0, mid=1, high=9)
    table = db.push("s", [row(0, a=1), row(1, a=2)]).compact("above")
    assert table.column_names == ["a", "n", "op", "ts", "exp", "queries"]
    found = {(r["a"], r["op"], r["ts"], r["exp"]): sorted(r["queries"]) for r in table.to_pylist()}
    assert found == {(1, "+", at(0), None): ["low"], (2, "+", at(1), None): ["low", "mid"]}


def test_compact_keeps_multiplicities():
    db = above(low=0, mid=1)
    table = db.push("s", [row(0, a=2), row(0, a=2), row(0, a=1)]).compact("above")
    found = {r["a"]: sorted(r["queries"]) for r in table.to_pylist()}
    assert found == {2: ["low", "low", "mid", "mid"], 1: ["low"]}


def test_compact_treats_nulls_as_equal_results():
    db = world()
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT n, c FROM s")
    table = db.push("s", [row(0, n=None, c=None), row(0, n=None, c=None), row(0, n="", c=None)]).compact("q")
    assert Counter((r["n"], r["c"], len(r["queries"])) for r in table.to_pylist()) == {
        (None, None, 2): 1,
        ("", None, 1): 1,
    }


def test_changes_of_nothing_have_the_right_schemas():
    db = above(low=0)
    for ch in (db.push("s", []), db.push("s", [row(0, a=-5)]), db.push("r", [row(0)]), db.advance(at(1))):
        assert ch.count() == 0 and ch.queries() == [] and ch.count_affected("above") == 0
        own = [pa.field("a", pa.int32()), pa.field("n", pa.string())]
        head = [pa.field("op", pa.string()), pa.field("ts", TIME), pa.field("exp", TIME)]
        assert ch.rows("low").schema == pa.schema(head + own)
        assert ch.rows("above").schema == pa.schema([pa.field("query", pa.string()), *head, *own])
        many = pa.field("queries", pa.list_(pa.string()))
        assert ch.compact("above").schema == pa.schema([*own, *head, many])
        assert ch.affected("above").schema == pa.schema([("stream", pa.string()), ("row", pa.int64()), many])
        assert ch.rows("low").num_rows == ch.compact("above").num_rows == ch.affected("above").num_rows == 0


def test_full_and_empty_tables_have_the_same_schema():
    db = above(low=0)
    some, none = db.push("s", [row(0)]), db.push("s", [])
    for ask in ("rows", "compact", "affected"):
        assert getattr(some, ask)("above").schema == getattr(none, ask)("above").schema
    assert some.rows("low").schema == none.rows("low").schema


def test_family_without_queries_has_no_changes():
    ch = above().push("s", [row(0)])
    assert ch.count() == 0 and ch.rows("above").num_rows == 0 and ch.compact("above").num_rows == 0


def test_unknown_names_are_refused_with_a_suggestion():
    ch = above(low=0).push("s", [row(0)])
    for ask in (ch.rows, ch.compact, ch.affected, ch.count_affected):
        with pytest.raises(eddyline.CatalogError, match="abov"):
            ask("abov")


def test_families_are_named_without_regard_to_case():
    ch = above(low=0).push("s", [row(0)])
    assert ch.rows("ABOVE").num_rows == ch.compact("Above").num_rows == ch.count_affected("aBOVE") == 1


def test_a_query_name_stands_for_its_family_in_compact_and_affected():
    db = world()
    db.execute("CREATE CONTINUOUS QUERY q1 AS SELECT a FROM s WHERE a > 0")
    db.execute("CREATE CONTINUOUS QUERY q2 AS SELECT a FROM s WHERE a > 1")
    ch = db.push("s", [row(0, a=2)])
    assert sorted(ch.compact("q1").to_pylist()[0]["queries"]) == ["q1", "q2"]
    assert ch.count_affected("q2") == 2


def test_affected_gives_the_place_in_the_push():
    db = above(low=0, mid=1)
    ch = db.push("s", [row(5, a=2), row(0, a=9), row(5, a=0), row(6, a=1)])  # the second is late
    found = {(r["stream"], r["row"]): sorted(r["queries"]) for r in ch.affected("above").to_pylist()}
    assert found == {("s", 0): ["low", "mid"], ("s", 3): ["low"]}
    assert ch.count_affected("above") == 3


def test_affected_of_a_join_is_the_row_that_completed_it():
    db = world()
    db.execute(
        "CREATE CONTINUOUS QUERY j AS SELECT r.b, s.b FROM r [RANGE 5 SECONDS], s [RANGE 5 SECONDS] WHERE r.a = s.a"
    )
    db.push("r", [row(0, a=1), row(0, a=2)])
    ch = db.push("s", [row(0, a=3), row(0, a=1), row(0, a=1)])
    assert [(r["stream"], r["row"]) for r in ch.affected("j").to_pylist()] == [("s", 1), ("s", 2)]
    assert ch.count() == ch.count_affected("j") == 2


def test_both_sides_of_a_join_in_one_push_meet():
    text = "CREATE CONTINUOUS QUERY j AS SELECT r.b, s.b FROM r [RANGE 5 SECONDS], s [RANGE 5 SECONDS] WHERE r.a = s.a"
    for order in ("rs", "sr"):
        db = world()
        db.execute(text)
        batch = {"r": [row(0, a=1, b=10), row(1, a=2, b=20)], "s": [row(2, a=2, b=30), row(2, a=1, b=40)]}
        ch = db.push({x: batch[x] for x in order})
        assert Counter(log_of(ch, "j")) == Counter([("+", at(2), at(6), (20, 30)), ("+", at(2), at(5), (10, 40))])
        assert ch.count() == 2 and ch.count_affected("j") == 2
        assert {r["stream"] for r in ch.affected("j").to_pylist()} == {order[1]}


def test_self_join_meets_itself_and_its_neighbours():
    db = world()
    db.execute(
        "CREATE CONTINUOUS QUERY j AS SELECT x.b, y.b FROM s [RANGE 5 SECONDS] x, s [RANGE 5 SECONDS] y WHERE x.a = y.a"
    )
    ch = db.push("s", [row(0, b=1), row(1, b=2)])
    assert Counter(v for *_, v in log_of(ch, "j")) == Counter([(1, 1), (1, 2), (2, 1), (2, 2)])
    assert ch.count_affected("j") == 2
    assert Counter(r["row"] for r in ch.affected("j").to_pylist()) == {0: 1, 1: 1}


def test_aggregate_changes_are_affected_by_the_rows_that_made_them():
    db = world()
    db.execute("CREATE CONTINUOUS QUERY g AS SELECT a, COUNT(*) AS k FROM s GROUP BY a")
    ch = db.push("s", [row(0, a=1), row(1, a=2), row(1, a=7)])
    assert {tuple(r.values())[:2] for r in ch.affected("g").to_pylist()} <= {("s", 0), ("s", 1), ("s", 2)}
    assert ch.count_affected("g") == sum(len(r["queries"]) for r in ch.affected("g").to_pylist())
    assert ch.count_affected("g") > 0


def test_several_families_change_in_one_push():
    db = above(low=0)
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT b FROM s WHERE b < 5")
    db.execute("CREATE CONTINUOUS QUERY other AS SELECT b FROM r")
    ch = db.push({"s": [row(0)], "r": [row(0), row(1)]})
    assert ch.count() == 4 and sorted(ch.queries()) == ["low", "other", "q"]
    assert [ch.rows(n).num_rows for n in ("low", "q", "other", "above")] == [1, 1, 2, 1]
    assert ch.count_affected("above") == 1 and ch.count_affected("other") == 2


def test_own_columns_may_be_called_op_ts_exp_query_and_queries():
    db = world()
    db.execute(
        "CREATE CONTINUOUS QUERY q AS SELECT n AS op, ts, ts AS exp, a AS query, b AS queries FROM s [RANGE 1 SECOND]"
    )
    ch = db.push("s", [row(3, a=7, b=8)])
    assert ch.rows("q").column_names == ["op", "ts", "exp", "op", "ts", "exp", "query", "queries"]
    assert tuples(ch.rows("q")) == [("+", at(3), at(4), "x", at(3), at(3), 7, 8)]
    assert tuples(ch.compact("q")) == [("x", at(3), at(3), 7, 8, "+", at(3), at(4), ["q"])]
    family = db.execute("SHOW QUERIES").column("family")[0].as_py()
    assert tuples(ch.rows(family)) == [("q", "+", at(3), at(4), "x", at(3), at(3), 7, 8)]
    assert tuples(db.snapshot("q")) == [("x", at(3), at(3), 7, 8)]


def test_columns_with_equal_names_are_both_given():
    db = world()
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a, b AS a FROM s")
    ch = db.push("s", [row(0, a=1, b=2)])
    assert log_of(ch, "q") == [("+", at(0), None, (1, 2))] and tuples(db.snapshot("q")) == [(1, 2)]


def test_changes_outlive_the_drop_of_their_query():
    db = above(low=0, mid=1)
    ch = db.push("s", [row(0, a=2)])
    db.drop("above", ["low"])
    assert sorted(ch.queries()) == ["low", "mid"] and ch.count() == 2
    assert log_of(ch, "low") == [("+", at(0), None, (2, "x"))]
    assert sorted(ch.compact("above").to_pylist()[0]["queries"]) == ["low", "mid"]


def test_changes_outlive_the_drop_of_an_implicit_family():
    db = world()
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a FROM s")
    ch = db.push("s", [row(0)])
    db.execute("DROP CONTINUOUS QUERY q")
    assert ch.queries() == ["q"] and ch.rows("q").num_rows == 1 and ch.compact("q").num_rows == 1


def test_changes_outlive_the_drop_of_a_declared_family():
    db = above(low=0)
    ch = db.push("s", [row(0)])
    db.execute("DROP QUERY FAMILY above")
    assert ch.rows("above").num_rows == ch.rows("low").num_rows == ch.count_affected("above") == 1


def test_changes_belong_to_the_query_that_bore_the_name_then():
    db = above(low=0)
    ch = db.push("s", [row(0)])
    db.drop("above", ["low"])
    registered(db, low=0)
    assert ch.rows("low").num_rows == 1


def test_changes_of_a_query_dropped_twice_under_one_name_are_of_its_last_life():
    db = above(low=0)
    db.drop("above", ["low"])
    registered(db, low=0)
    ch = db.push("s", [row(0)])
    db.drop("above", ["low"])
    assert ch.rows("low").num_rows == 1


def test_changes_belong_to_the_family_that_bore_the_name_then():
    db = above(low=0)
    ch = db.push("s", [row(0)])
    db.execute("DROP QUERY FAMILY above")
    db.execute(FAMILY)
    assert ch.rows("above").num_rows == ch.compact("above").num_rows == ch.count_affected("above") == 1


def test_changes_stay_what_they_were_while_the_connection_goes_on():
    db = above(low=0)
    db.execute("CREATE CONTINUOUS QUERY g AS SELECT a, COUNT(*) AS k FROM s [RANGE 2 SECONDS] GROUP BY a")
    ch = db.push("s", [row(0), row(1)])
    before = (
        [tuples(ch.rows(n)) for n in ("low", "g", "above")],
        tuples(ch.compact("above")),
        tuples(ch.affected("above")),
    )
    for i in range(70):
        db.push("s", [row(2 + i, a=i)])
    db.snapshot("low")
    assert before == (
        [tuples(ch.rows(n)) for n in ("low", "g", "above")], tuples(ch.compact("above")), tuples(ch.affected("above"))
    )  # fmt: skip


QUERIES = {
    "filter": "SELECT a, n FROM s WHERE a > 0",
    "filter2": "SELECT a, n FROM s WHERE a > 1",
    "window": "SELECT a FROM s [RANGE 2 SECONDS] WHERE b >= 1",
    "window2": "SELECT a FROM s [RANGE 3 SECONDS] WHERE b >= 1",
    "join": "SELECT r.a, s.n FROM r [RANGE 2 SECONDS], s [RANGE 3 SECONDS] WHERE r.a = s.a",
    "join2": "SELECT r.a, s.n FROM r [RANGE 2 SECONDS], s [RANGE 4 SECONDS] WHERE r.a = s.a",
    "selfjoin": "SELECT x.a, y.b FROM s [RANGE 1 SECOND] x, s [RANGE 1 SECOND] y WHERE x.a = y.a",
    "group": "SELECT a, COUNT(*) AS k, SUM(c) AS v FROM s [RANGE 3 SECONDS] GROUP BY a",
    "count": "SELECT COUNT(*) AS k FROM r",
    "distinct": "SELECT DISTINCT a FROM s [RANGE 2 SECONDS]",
    "except": "SELECT a FROM s [RANGE 3 SECONDS] EXCEPT ALL SELECT a FROM r [RANGE 3 SECONDS]",
    "rows": "SELECT a, b FROM s [ROWS 3]",
    "table": "SELECT s.a, t.n FROM s, t WHERE s.a = t.a",
    "all": "SELECT DISTINCT n FROM r [RANGE 1 SECOND]",
}


@pytest.mark.parametrize("seed", range(4))
def test_counts_rows_compact_and_affected_agree_on_random_input(seed):
    rnd = Random(seed)
    db = world(delay=rnd.choice([0, 2]))
    seen = 0
    for name, text in QUERIES.items():
        emit = " WITH (emit = 'all')" if name == "all" else ""
        seen += db.execute(f"CREATE CONTINUOUS QUERY {name}_q{emit} AS {text}").count()
    names = db.execute("SHOW QUERIES").column("query").to_pylist()
    families = db.execute("SHOW FAMILIES").column("family").to_pylist()
    now = 0.0
    for step in range(25):
        now += rnd.choice([0, 1, 2])
        times = [max(0.0, now - rnd.choice([0, 0, 0, 1, 4])) for _ in range(rnd.randint(0, 6))]
        batch = random_rows(rnd, times)
        split = rnd.randint(0, len(batch))
        match rnd.randrange(5):
            case 0:
                ch, sizes = db.execute(f"INSERT INTO t VALUES ({rnd.randint(0, 3)}, 'z')"), {}
            case 1:
                ch, sizes = db.advance(at(now)), {}
            case _:
                ch = db.push({"r": batch[:split], "s": batch[split:]})
                sizes = {"r": split, "s": len(batch) - split}
        rows = {n: ch.rows(n) for n in names}
        assert ch.count() == sum(t.num_rows for t in rows.values()), step
        assert set(ch.queries()) == {n for n, t in rows.items() if t.num_rows}
        assert len(ch.queries()) == len(set(ch.queries()))
        for f in families:
            listed = Counter((q, *values[-4:-1], *values[:-4]) for values in tuples(ch.compact(f)) for q in values[-1])
            assert listed == bag(ch.rows(f)), (step, f)
            results = [values[:-1] for values in tuples(ch.compact(f))]
            assert len(results) == len(set(results)), "a result stands in two rows"
            who = ch.affected(f).to_pylist()
            assert ch.count_affected(f) == sum(len(w["queries"]) for w in who)
            assert len({(w["stream"], w["row"]) for w in who}) == len(who)
            assert all(len(set(w["queries"])) == len(w["queries"]) > 0 for w in who)
            assert all(0 <= w["row"] < sizes.get(w["stream"], 0) for w in who)
            assert {q for w in who for q in w["queries"]} <= set(ch.queries())
        seen += ch.count()
    assert seen == db.stats()["changes"] > 0


def test_what_a_new_query_sees_is_what_stood_when_it_came_whenever_it_is_asked() -> None:
    """The first answer of a query may be made late, but not of a later state."""
    db = world()
    db.execute("INSERT INTO t VALUES (1, 'x')")
    first = db.execute("CREATE CONTINUOUS QUERY c AS SELECT COUNT(*) AS n FROM t")
    second = db.execute("CREATE CONTINUOUS QUERY d AS SELECT COUNT(*) AS n FROM t WHERE a > 5")
    db.execute("INSERT INTO t VALUES (2, 'y'), (9, 'z')")
    third = db.execute("CREATE CONTINUOUS QUERY e AS SELECT COUNT(*) AS n FROM t WHERE a > 5")
    db.execute("DROP CONTINUOUS QUERY d")
    db.execute("DELETE FROM t")
    found = [ch.rows(name).column("n").to_pylist() for ch, name in ((first, "c"), (second, "d"), (third, "e"))]
    assert found == [[1], [0], [1]]


BAND = "CREATE QUERY FAMILY band (lo INT) AS SELECT r.a, s.n FROM r, s WHERE s.b - r.b BETWEEN :lo AND :lo + 2"


def of_joins(queries, ask):
    db = world()
    db.execute(BAND)
    registered(db, "band", **{f"q{i}": i % 5 - 3 for i in range(queries)})
    rnd, counted = Random(7), []
    for step in range(6):
        for stream in "rs":
            ch = db.push(stream, random_rows(rnd, [float(step)] * 5))
            counted.append(ask(ch))
    return db.stats()["changes"], counted


def test_the_number_of_changes_of_joins_is_the_same_whoever_looks():
    expected, counts = of_joins(10, lambda ch: ch.count())
    assert expected == sum(counts) > 0
    for ask in (lambda ch: None, lambda ch: ch.rows("band"), lambda ch: ch.count_affected("band")):
        assert of_joins(10, ask)[0] == expected


def test_the_changes_of_very_many_joins_are_not_counted_whoever_looks():
    for ask in (lambda ch: None, lambda ch: ch.count()):
        assert of_joins(65, ask)[0] is None
