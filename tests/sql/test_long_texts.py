"""Long texts: binding is linear, a long IN list is one value, and what is too long is refused."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import eddyline
from eddyline.errors import Error, ParseError
from eddyline.local.connection import Connection
from eddyline.sql import limits
from eddyline.sql.cursor import words

STREAM = "CREATE STREAM s (a BIGINT, n INT, b DOUBLE, c STRING, d DATE, ts TIMESTAMP) WATERMARK ts"
ROWS = [
    {"a": a, "n": a, "b": b, "c": c, "d": None if a is None else f"2026-01-{a % 28 + 1:02}", "ts": "2026-01-01T00:00"}
    for a, b, c in zip(
        [*range(60), None, -7], [*(x / 2 for x in range(60)), None, float("nan")], [*map(str, range(60)), None, "ü"],
        strict=True,
    )
]  # fmt: skip


def fresh() -> Connection:
    db = eddyline.connect()
    db.execute(STREAM)
    return db


def selected(db: Connection, condition: str, name: str = "q") -> list[Any]:
    db.execute(f"CREATE CONTINUOUS QUERY {name} AS SELECT a FROM s WHERE {condition}")
    return sorted(db.push("s", pushed()).rows(name)["a"].to_pylist(), key=repr)


def pushed() -> pa.Table:
    columns = {k: [r[k] for r in ROWS] for k in ROWS[0]}
    table = pa.table(columns)
    return table.set_column(4, "d", table["d"].cast(pa.date32())).set_column(
        5, "ts", table["ts"].cast(pa.timestamp("us"))
    )


def calls(work: Callable[[], Any]) -> int:
    """How many functions of Python work calls: what it does, whatever the clock says."""
    count = 0

    def note(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("item", ["a <> {i}", "(a = {i} OR b > {i})", "c LIKE '{i}%'"])
def test_the_work_of_registering_a_chain_of_conditions_grows_with_its_length(item: str) -> None:
    def register(n: int) -> int:
        db = fresh()
        chain = " AND ".join(item.format(i=i) for i in range(n))
        return calls(lambda: db.execute(f"CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE {chain}"))

    register(3)
    assert register(1600) < 5 * register(400)


def test_ten_thousand_conditions_are_one_query() -> None:
    chain = " AND ".join(f"a <> {i}" for i in range(1, 10_001))
    assert selected(fresh(), chain) == [-7, 0]


def test_an_in_list_of_any_length_is_one_parameter() -> None:
    db = fresh()
    db.execute(f"CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE a IN ({', '.join(map(str, range(20_000)))})")
    (family,) = db.registry
    assert [str(p.type) for p in family.bound.params] == ["list<item: int64>"]
    assert family.queries.nbytes < 20_000 * 10


def test_the_work_of_an_in_list_is_a_small_number_of_calls_per_value() -> None:
    def register(n: int, what: str) -> int:
        db = fresh()
        items = ", ".join(what.format(i=i) for i in range(n))
        return calls(lambda: db.execute(f"CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE c IN ({items})"))

    register(30, "'{i}'")
    assert register(4_000, "'x{i}'") - register(2_000, "'x{i}'") < 2_000 * 5


def test_lists_of_different_lengths_fall_into_one_family() -> None:
    db = fresh()
    for n in (17, 18, 500, 2_000):
        db.execute(f"CREATE CONTINUOUS QUERY q{n} AS SELECT a FROM s WHERE a IN ({', '.join(map(str, range(n)))})")
    assert len(db.registry) == 1
    changes = db.push("s", pushed())
    assert [len(changes.rows(f"q{n}")) for n in (17, 18, 500, 2_000)] == [17, 18, 60, 60]


def lists(rnd: random.Random, column: str, n: int) -> str:
    match column:
        case "c":
            return ", ".join(f"'{rnd.choice([str(rnd.randrange(90)), 'ü', ''])}'" for _ in range(n))
        case "b":
            return ", ".join(rnd.choice([f"{rnd.randrange(60)}", f"{rnd.randrange(60)}.5", "-1.5"]) for _ in range(n))
        case "d":
            return ", ".join(f"'2026-01-{rnd.randrange(1, 29):02}'" for _ in range(n))
        case _:
            return ", ".join(str(rnd.randrange(-10, 90)) for _ in range(n))


@pytest.mark.parametrize("seed", range(6))
def test_long_lists_select_what_short_lists_do(seed: int) -> None:
    """As alternatives of at most 16 items each, which are compared one by one."""
    rnd = random.Random(seed)
    db = fresh()
    expected: dict[str, str] = {}
    for i in range(24):
        column, negated = rnd.choice("anbcd"), rnd.random() < 0.4
        items = lists(rnd, column, rnd.choice([17, 20, 40])).split(", ")
        if rnd.random() < 0.2:
            items.insert(rnd.randrange(len(items)), "NULL")
        parts = [f"{column} IN ({', '.join(items[j : j + 10])})" for j in range(0, len(items), 10)]
        some = f"({' OR '.join(parts)})"
        db.execute(
            f"CREATE CONTINUOUS QUERY long{i} AS SELECT a FROM s WHERE "
            f"{column} {'NOT ' * negated}IN ({', '.join(items)}) AND (a < 1000 OR a IS NULL)"
        )
        db.execute(f"CREATE CONTINUOUS QUERY short{i} AS SELECT a FROM s WHERE {'NOT ' * negated}{some}")
        expected[f"long{i}"] = f"short{i}"
    changes = db.push("s", pushed())
    for long, short in expected.items():
        assert changes.rows(long)["a"].to_pylist() == changes.rows(short)["a"].to_pylist(), long


def test_a_list_that_is_looked_up_and_one_that_is_evaluated_agree() -> None:
    """Under a function an index cannot help; with more cuts than an index has codes it is not sure of itself."""
    many = ", ".join(str(i) for i in range(0, 200_000, 2))
    db = fresh()
    db.function("same", lambda x: x, ["BIGINT"], "BIGINT")
    db.execute(f"CREATE CONTINUOUS QUERY looked AS SELECT a FROM s WHERE a IN ({many})")
    db.execute(f"CREATE CONTINUOUS QUERY called AS SELECT a FROM s WHERE same(a) IN ({many})")
    db.execute(f"CREATE CONTINUOUS QUERY beyond AS SELECT a FROM s WHERE a NOT IN ({many})")
    changes = db.push("s", pushed())
    assert changes.rows("looked")["a"].to_pylist() == list(range(0, 60, 2)) == changes.rows("called")["a"].to_pylist()
    assert changes.rows("beyond")["a"].to_pylist() == [*range(1, 60, 2), -7]


def test_groups_of_queries_with_the_same_list_are_one_class_and_others_are_not() -> None:
    db = fresh()
    for name, start in (("p", 0), ("q", 0), ("r", 10)):
        items = ", ".join(str(i) for i in range(start, start + 20))
        db.execute(f"CREATE CONTINUOUS QUERY {name} AS SELECT COUNT(*) AS n FROM s WHERE a IN ({items}) AND a > 4")
    changes = db.push("s", pushed())
    assert [changes.rows(x)["n"].to_pylist()[-1] for x in "pqr"] == [15, 15, 20]
    assert "3 queries in 2 classes" in db.explain("p", analyze=True)


@pytest.mark.parametrize(
    "text",
    [
        "c = 'IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18)' OR a = 1",
        "a = 1 -- IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18)\n",
        "a = 1 /* a IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18) */",
        "a = 1 AND a NOT IN (2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, /* ; */ 14, 15, 16, 17, 18)",
        "a = 1 AND a IN (\n1, 2, 3, 4, 5, 6, 7, 8, 9, 10\n, 11, 12, 13, 14, 15, 16, 17, 1 + 1)",
        "a = 1 AND c IN ('1', '2', '3', '4', '5', '6', '7', '8', '9', 'it''s', ')', '\\'', '13', '14', '15', '16')",
        "a = 1 AND 1 IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18)",
        "a = 1 AND b IN (-1, -2.5, 1e0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0.5, 18)",
    ],
)
def test_a_list_counts_only_where_it_is_one(text: str) -> None:
    assert selected(fresh(), text) == [1]


def test_an_item_that_does_not_fit_is_named_with_its_place() -> None:
    items = ["1"] * 30
    items[20] = "'x'"
    with pytest.raises(Error, match="'x' cannot be read as BIGINT") as failed:
        selected(fresh(), f"a IN ({', '.join(items)})")
    sql, span = failed.value.sql, failed.value.span
    assert sql is not None and span is not None and sql[span[0] : span[1] + 2].startswith("'x'")
    with pytest.raises(Error, match="STRING and INT cannot be compared"):
        selected(fresh(), f"c IN ({', '.join(['1'] * 30)})")


def test_a_list_where_none_can_be_is_refused() -> None:
    many = ", ".join(map(str, range(40)))
    with pytest.raises(Error):
        fresh().execute(f"SELECT * FROM s PIVOT (SUM(a) FOR n IN ({many}))")


def test_a_statement_is_known_by_its_words_however_its_list_is_spaced() -> None:
    items = [*map(str, range(20)), "-3", "'a b'"]
    spaced = words(f"SELECT 1 WHERE a IN ( {' , '.join(items)} )")
    assert words(f"SELECT 1 WHERE a IN ({','.join(items)})") == spaced
    assert spaced.endswith("18 , 19 , - 3 , 'a b' )")


def test_lists_survive_saving_dropping_and_changes_of_tables(tmp_path: Path) -> None:
    db = fresh()
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY)")
    many = ", ".join(map(str, range(10, 40)))
    db.execute(f"CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE a IN ({many})")
    db.execute(f"CREATE CONTINUOUS QUERY r AS SELECT a FROM s WHERE a IN ({many}, 50)")
    db.execute(f"INSERT INTO t VALUES (9), (10), (11); DELETE FROM t WHERE k IN ({many})")
    assert db.execute("SELECT k FROM t")["k"].to_pylist() == [9]
    db.save(tmp_path / "saved")
    again = eddyline.connect(tmp_path / "saved")
    again.execute("DROP CONTINUOUS QUERY q")
    assert len(again.push("s", pushed()).rows("r")) == 31


def test_explain_and_show_shorten_a_list() -> None:
    db = fresh()
    db.execute(f"CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE a IN ({', '.join(map(str, range(5_000)))})")
    assert "a IN (:p0)" in db.explain("q")
    assert "p0 ARRAY<BIGINT>" in db.explain("q")
    assert "q: p0 = 0, 1, 2, … 4997 more" in db.explain("q")


@pytest.fixture
def short_limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(limits, "MOST_CHARACTERS", 400)
    monkeypatch.setattr(limits, "MOST_TOKENS", 60)
    yield


def test_a_statement_that_is_too_long_is_refused(short_limits: None) -> None:
    db = fresh()
    with pytest.raises(
        ParseError, match=r"too long: it has about 4\d\d characters; the most are 400 characters and 60"
    ):
        db.execute(f"CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE c = '{'x' * 400}'")
    with pytest.raises(ParseError, match=r"too long: it has 4.. characters"):
        db.execute(f"CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE c = '{';' * 400}'")
    with pytest.raises(ParseError, match=r"too long: it has 8. words and signs"):
        db.execute("CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE " + " AND ".join(["a>1"] * 18))
    assert not len(db.registry)


def test_a_script_may_be_longer_than_a_statement(short_limits: None) -> None:
    db = fresh()
    db.execute("; ".join(f"CREATE CONTINUOUS QUERY q{i} AS SELECT a FROM s WHERE a > {i}" for i in range(20)))
    assert len(db.execute("SHOW QUERIES")) == 20


@pytest.mark.parametrize(
    "deep", ["(" * 5000 + "a" + ")" * 5000 + " = 1", "NOT " * 5000 + "a = 1", "a" + " + a" * 5000 + " > 1"]
)
def test_what_is_nested_too_deeply_is_refused(deep: str) -> None:
    with pytest.raises(Error, match="nested too deeply"):
        selected(fresh(), deep)
