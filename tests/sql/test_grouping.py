"""Keys and aggregates are the same exactly if they compute the same, whatever they are called."""

import pytest

import eddyline

SETUP = """
CREATE TABLE r (k STRING, a INT); CREATE TABLE s (k STRING, a INT);
INSERT INTO r VALUES ('A', 1), ('a', 10); INSERT INTO s VALUES ('A', 100), ('b', 1000);
"""


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT SUM(CASE WHEN k = 'A' THEN a END), SUM(CASE WHEN k = 'a' THEN a END) FROM r", [(1, 10)]),
        ("SELECT SUM(r.a), SUM(s.a) FROM r, s WHERE r.k = s.k", [(1, 100)]),
        ("SELECT SUM(r.a), SUM(x.a) FROM r, r x WHERE r.k < x.k", [(1, 10)]),
        ("SELECT r.k, COUNT(*) FROM r GROUP BY k HAVING SUM(a) > 1 AND SUM(r.a) < 20", [("a", 1)]),
        ("SELECT concat('r.', k) FROM r GROUP BY concat('r.', r.k)", [("r.A",), ("r.a",)]),
        ("SELECT K, count(*) FROM r GROUP BY `k`", [("A", 1), ("a", 1)]),
        ("SELECT k, SUM(a) AS total FROM r GROUP BY k HAVING total > 1", [("a", 10)]),
        ("SELECT k, SUM(a) * 2 AS Twice, COUNT(*) AS n FROM r GROUP BY k HAVING twice = 2 AND N = 1", [("A", 2, 1)]),
        ("SELECT concat(k, '!') AS shout FROM r GROUP BY k HAVING shout = 'A!'", [("A!",)]),
        ("SELECT k, MAX(a) AS a FROM r GROUP BY k HAVING a > 1", [("a", 10)]),
        ("SELECT a + 1 AS a, COUNT(*) AS n FROM r GROUP BY a HAVING SUM(a) > 1", [(11, 1)]),
        ("SELECT SUM(a) AS total FROM r HAVING total > 100", []),
    ],
)
def test_a_grouping_gives(sql: str, rows: list[tuple[object, ...]]) -> None:
    db = eddyline.connect()
    db.execute(SETUP)
    found = db.execute(sql)
    assert sorted(zip(*[column.to_pylist() for column in found.columns], strict=True)) == rows


def test_having_by_the_name_of_a_column_is_having_by_its_expression() -> None:
    db = eddyline.connect()
    db.execute("CREATE STREAM t (k STRING, v INT, ts TIMESTAMP) WATERMARK ts")
    text = "CREATE CONTINUOUS QUERY {} AS SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING {} > {}"
    for name, what, least in (("p", "n", 1), ("q", "COUNT(*)", 1), ("r", "n", 2)):
        db.execute(text.format(name, what, least))
    assert len(db.registry) == 1
    rows = [{"k": "a", "v": i, "ts": "2026-01-01T00:00:00"} for i in range(2)]
    changes = db.push("t", rows)
    assert sorted(changes.queries()) == ["p", "q"]


def test_the_key_of_one_source_is_not_that_of_another() -> None:
    db = eddyline.connect()
    db.execute(SETUP)
    with pytest.raises(eddyline.BindError, match="neither a group key"):
        db.execute("SELECT s.k, COUNT(*) FROM r, s GROUP BY r.k")
    with pytest.raises(eddyline.BindError, match="neither a group key"):
        db.execute("SELECT concat('', k) FROM r GROUP BY concat('r.', k)")
