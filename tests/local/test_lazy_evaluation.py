"""WITH (evaluate = …, expire = …): results come later, are the same when folded, and state is dropped when asked."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import eddyline
from eddyline.engine import collecting
from tests.local.common import Logs, at, bag, by_intervals, consolidated, log_of, random_rows, row, world

JOIN = "SELECT r.b, s.b AS c FROM r [RANGE 10 SECONDS], s [RANGE 10 SECONDS] WHERE r.a = s.a"
QUERIES = {
    "filter": "SELECT a, n FROM s [RANGE 2 SECONDS] WHERE a > 0",
    "unbounded": "SELECT a FROM s WHERE a < 2",
    "join": "SELECT r.a, s.b FROM r [RANGE 2 SECONDS], s [RANGE 3 SECONDS] WHERE r.a = s.a",
    "selfjoin": "SELECT x.b, y.b FROM s [RANGE 1 SECOND] x, s [RANGE 2 SECONDS] y WHERE x.a = y.a",
    "band": "SELECT r.b, s.b AS c FROM r [RANGE 3 SECONDS], s [RANGE 3 SECONDS] WHERE s.b - r.b BETWEEN 0 AND 1",
    "distinct": "SELECT DISTINCT a FROM s [RANGE 2 SECONDS]",
    "grouped": "SELECT a, COUNT(*) AS k, SUM(b) AS v, MAX(c) AS m FROM s [RANGE 3 SECONDS] GROUP BY a",
    "total": "SELECT COUNT(*) AS k, MIN(b) AS v FROM s [RANGE 2 SECONDS]",
    "except_": "SELECT a FROM s [RANGE 3 SECONDS] EXCEPT ALL SELECT a FROM r [RANGE 2 SECONDS]",
    "latest": "SELECT a, b FROM s [ROWS 3]",
    "table_": "SELECT s.a, t.n FROM s [RANGE 2 SECONDS], t WHERE s.a = t.a",
    "frozen": "SELECT s.a, u.n FROM s [RANGE 2 SECONDS], u WHERE s.a = u.a",
    "band_sums": "SELECT COUNT(*) AS k FROM r [RANGE 3 SECONDS], s [RANGE 3 SECONDS] WHERE s.b - r.b BETWEEN 0 AND 1",
}
KEEPING = [name for name in QUERIES if name not in ("filter", "unbounded")]


def lazy(text: str = JOIN, every: str = "5 seconds", name: str = "q", more: str = "", **options: Any) -> Any:
    db = world(**options)
    db.execute(f"CREATE CONTINUOUS QUERY {name} WITH (evaluate = '{every}'{more}) AS {text}")
    return db


def figures(db: Any, family: str = "family_1") -> Any:
    return db.stats()["families"][family]


def test_results_wait_until_the_clock_is_tau_ahead_of_the_last_evaluation() -> None:
    db = lazy("SELECT a FROM s [RANGE 60 SECONDS]")
    assert db.push("s", [row(0)]).count() == 1  # the first clock
    assert db.push("s", [row(1)]).count() == 0
    assert db.push("s", [row(4.9)]).count() == 0
    assert figures(db)["collected"] == 2 and figures(db)["clock"] == at(0)
    later = db.push("s", [row(5)])
    assert [ts for _, ts, _, _ in log_of(later, "q")] == [at(1), at(4.9), at(5)]
    assert figures(db)["collected"] == 0 and figures(db)["clock"] == at(5)


def test_time_that_passes_makes_an_evaluation_due() -> None:
    db = lazy("SELECT a FROM s [RANGE 60 SECONDS]")
    db.push("s", [row(0), row(0)])
    db.push("s", [row(2)])
    assert db.advance(at(4)).count() == 0
    assert db.advance(at(5)).count() == 1
    assert db.advance(at(99)).count() == 0


def test_a_quiet_stream_holds_results_back_until_time_passes() -> None:
    db = lazy()
    for second in range(0, 30, 3):
        assert db.push("r", [row(second)]).count() == 0
    assert figures(db)["collected"] == 10
    assert db.push("s", [row(12)]).count() == 7  # with the tuples of r from 3 to 21: both are in a window at once
    assert figures(db)["collected"] == 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", QUERIES)
def test_folded_changes_and_snapshots_do_not_depend_on_the_options(name: str, seed: int) -> None:
    rnd = Random(f"{name}{seed}")
    db = world(delay=rnd.choice([0, 2]))
    expire = ["", ", expire = '0 seconds'", ", expire = '7 seconds'"] if name in KEEPING else ["", "", ""]
    paces = {"eager": "emit = 'changes'"}
    for i, every in enumerate(("20 milliseconds", "1500 milliseconds", "1 minute")):
        paces[f"lazy{i}"] = f"evaluate = '{every}'{rnd.choice(expire)}"
    logs = Logs()
    for query, options in paces.items():
        made = db.execute(f"CREATE CONTINUOUS QUERY {query} WITH ({options}) AS {QUERIES[name]}")
        logs.of[query] = log_of(made, query)
    now = 0.0
    for _ in range(25):
        now += rnd.choice([0, 0.5, 1, 2])
        times = [max(0.0, now - rnd.choice([0, 0, 0, 1, 3])) for _ in range(rnd.randint(0, 4))]
        batch = random_rows(rnd, times)
        half = rnd.randint(0, len(batch))
        match rnd.randrange(8):
            case 0:
                logs.take(db.execute(f"INSERT INTO {rnd.choice('tu')} VALUES ({rnd.randint(0, 3)}, 'z')"))
            case 1:
                logs.take(db.execute(f"DELETE FROM {rnd.choice('tu')} WHERE a < 2"))
            case 2:
                logs.take(db.advance(at(now)))
            case _:
                logs.take(db.push({"r": batch[:half], "s": batch[half:]}))
        if rnd.random() < 0.2:
            want = bag(db.snapshot("eager"))
            assert all(bag(db.snapshot(query)) == want for query in paces)
    logs.take(db.advance(at(now + 120)))
    want = consolidated(logs.of["eager"], at(now + 120))
    assert all(consolidated(log, at(now + 120)) == want for log in logs.of.values())


def test_snapshot_includes_collected_tuples_and_their_changes_come_with_the_next_push() -> None:
    db, logs = lazy("SELECT a, COUNT(*) AS k FROM s [RANGE 60 SECONDS] GROUP BY a"), Logs("q")
    logs.take(db.push("s", [row(0)]))
    logs.take(db.push("s", [row(1), row(2)]))
    assert bag(db.snapshot("q")) == {(1, 3): 1}
    assert by_intervals(logs.of["q"], at(2)) == {(1, 1): 1}
    logs.take(db.push("s", [row(3, a=9)]))
    assert by_intervals(logs.of["q"], at(2)) == {(1, 3): 1}
    logs.take(db.advance(at(60)))
    assert by_intervals(logs.of["q"], at(60)) == {(1, 3): 1, (9, 1): 1}


def test_snapshot_of_a_join_evaluates_nothing() -> None:
    db = lazy()
    db.push({"r": [row(0)], "s": [row(0)]})
    db.push({"r": [row(1, b=2)], "s": [row(1)]})
    assert bag(db.snapshot("q")) == {(1, 1): 2, (2, 1): 2} and figures(db)["collected"] == 2


def test_query_added_while_tuples_are_collected_does_not_see_them() -> None:
    db = world()
    db.execute("CREATE QUERY FAMILY f (lo INT) WITH (evaluate = '5 seconds') AS SELECT a FROM s WHERE a > :lo")
    db.register("f", [{"query": "old", "lo": 0}])
    db.push("s", [row(0)])
    db.push("s", [row(1, a=2)])
    db.register("f", [{"query": "new", "lo": 0}])
    db.push("s", [row(2, a=3)])
    changes = db.push("s", [row(6, a=4)])
    assert [v for *_, v in log_of(changes, "old")] == [(2,), (3,), (4,)]
    assert [v for *_, v in log_of(changes, "new")] == [(3,), (4,)]


def test_query_with_an_initial_answer_gets_it_at_its_registration() -> None:
    db = world()
    db.execute(
        "CREATE QUERY FAMILY f (lo INT) WITH (evaluate = '5 seconds') AS SELECT COUNT(*) AS k FROM s WHERE a > :lo"
    )
    logs = Logs("old", "new")
    logs.of["old"] = log_of(db.register("f", [{"query": "old", "lo": 0}]), "old")
    logs.of["old"] += log_of(db.push("s", [row(0)]), "old")
    db.push("s", [row(1)])
    db.push("s", [row(2)])
    assert figures(db, "f")["collected"] == 2
    added = db.register("f", [{"query": "new", "lo": 0}])
    assert log_of(added, "new") == [("+", at(2), None, (0,))] and log_of(added, "old") == []
    logs.of["new"] = log_of(added, "new")
    logs.take(db.push("s", [row(3)]))
    logs.take(db.advance(at(30)))
    assert by_intervals(logs.of["old"], at(2)) == {(3,): 1} and by_intervals(logs.of["new"], at(2)) == {(0,): 1}
    assert by_intervals(logs.of["old"], at(30)) == {(4,): 1} and by_intervals(logs.of["new"], at(30)) == {(1,): 1}


def test_dropped_query_gets_nothing_of_what_was_collected_or_held() -> None:
    db = world()
    text = "SELECT COUNT(*) AS k FROM s [RANGE 60 SECONDS] WHERE a > :lo"
    db.execute(f"CREATE QUERY FAMILY f (lo INT) WITH (evaluate = '5 seconds') AS {text}")
    db.register("f", [{"query": "stays", "lo": 0}, {"query": "leaves", "lo": 0}])
    db.push("s", [row(0)])
    db.push("s", [row(1)])
    db.snapshot("leaves")  # holds the changes of both
    db.push("r", [row(1)])
    db.drop("f", ["leaves"])
    assert db.push("s", [row(2)]).queries() == ["stays"]
    assert db.advance(at(20)).queries() == ["stays"]


@pytest.mark.parametrize("table", ["t", "u"])
def test_collected_tuples_meet_a_table_as_it_was(table: str) -> None:
    db, logs = lazy(f"SELECT s.a, x.n FROM s [RANGE 60 SECONDS], {table} x WHERE s.a = x.a"), Logs("q")
    logs.take(db.execute(f"INSERT INTO {table} VALUES (1, 'before')"))
    logs.take(db.push("s", [row(0)]))
    logs.take(db.push("s", [row(1)]))
    assert figures(db)["collected"] == 1
    changed = db.execute(f"UPDATE {table} SET n = 'after'")
    logs.take(changed)
    assert figures(db)["collected"] == 0
    logs.take(db.push("s", [row(2)]))
    logs.take(db.advance(at(20)))
    after = {(1, "after"): 3} if table == "t" else {(1, "before"): 2, (1, "after"): 1}
    assert by_intervals(logs.of["q"], at(20)) == after


def test_table_change_that_is_refused_loses_no_change() -> None:
    db, logs = lazy("SELECT s.a, k.n FROM s [RANGE 60 SECONDS], k WHERE s.a = k.a"), Logs("q")
    logs.take(db.execute("INSERT INTO k VALUES (1, 'x')"))
    logs.take(db.push("s", [row(0)]))
    logs.take(db.push("s", [row(1)]))
    with pytest.raises(eddyline.DataError):
        db.execute("INSERT INTO k VALUES (1, 'y')")
    logs.take(db.advance(at(20)))
    assert by_intervals(logs.of["q"], at(20)) == {(1, "x"): 2}


def test_collected_tuples_meet_a_function_as_it_was() -> None:
    db = world()
    db.function("f", lambda a: a, ["INT"], "INT")
    db.execute("CREATE CONTINUOUS QUERY q WITH (evaluate = '5 seconds') AS SELECT f(a) AS v FROM s [RANGE 60 SECONDS]")
    db.push("s", [row(0)])
    db.push("s", [row(1)])
    db.function("f", lambda a: -a, ["INT"], "INT")
    db.push("r", [row(1)])
    assert [v for *_, v in log_of(db.push("s", [row(7)]), "q")] == [(1,), (-1,)]


def test_saved_connection_keeps_what_was_collected_and_held(tmp_path: Path) -> None:
    db, logs = lazy("SELECT a, COUNT(*) AS k FROM s [RANGE 60 SECONDS] GROUP BY a"), Logs("q")
    db.execute(f"CREATE CONTINUOUS QUERY j WITH (evaluate = '5 seconds', expire = '1 minute') AS {JOIN}")
    logs.of["j"] = []
    logs.take(db.push({"r": [row(0)], "s": [row(0)]}))
    logs.take(db.push({"r": [row(1, n="ü")], "s": [row(1)]}))
    db.snapshot("q")
    logs.take(db.push("r", [row(2)]))
    db.save(tmp_path / "saved")
    db = eddyline.connect(tmp_path / "saved")
    assert figures(db, "family_2")["collected"] == 3
    logs.take(db.push("s", [row(3)]))
    logs.take(db.advance(at(20)))
    assert by_intervals(logs.of["q"], at(20)) == {(1, 3): 1}
    assert len([1 for op, *_ in logs.of["j"] if op == "+"]) == 3 * 3


def test_family_that_fails_loses_what_it_collected_and_starts_anew() -> None:
    db = lazy("SELECT x.a FROM s [RANGE 60 SECONDS] x, s [RANGE 60 SECONDS] y", more=", most_bytes = '200000'")
    db.execute("CREATE CONTINUOUS QUERY other AS SELECT a FROM s")
    db.push("s", [row(0)])
    assert db.push("s", [row(1) for _ in range(100)]).queries() == ["other"]
    assert figures(db)["collected"] == 100
    with pytest.warns(eddyline.FamilyWarning, match="family_1"):
        changes = db.push("s", [row(9) for _ in range(100)])
    assert len(log_of(changes, "other")) == 100
    db.resume("q")
    assert figures(db)["collected"] == 0
    db.push("s", [row(10)])
    assert figures(db)["collected"] == 1
    assert len(log_of(db.advance(at(20)), "q")) == 1


def test_tuples_that_fill_a_quarter_of_the_memory_of_a_step_are_evaluated_before_they_are_due() -> None:
    most = 64 * collecting.BATCH
    db = lazy("SELECT a FROM s [RANGE 60 SECONDS]", "1 day", more=f", most_bytes = '{most}'")
    db.push("s", [row(0)])
    counts = [db.push("s", [row(1)]).count() for _ in range(40)]
    assert 1 < max(counts) < 17 and sum(counts) + figures(db)["collected"] == 40


def test_tuple_behind_the_latest_clock_is_not_visible_to_a_lazy_query_either() -> None:
    db = lazy("SELECT a FROM r UNION ALL SELECT a FROM s", clock="max")
    db.execute("CREATE CONTINUOUS QUERY eager AS SELECT a FROM r UNION ALL SELECT a FROM s")
    logs = Logs("q", "eager")
    for stream, second in (("r", 0), ("r", 3), ("s", 1), ("s", 3), ("s", 4), ("r", 3.5), ("r", 20)):
        logs.take(db.push(stream, [row(second, a=int(10 * second))]))
    assert [v for *_, v in logs.of["eager"]] == [(0,), (30,), (30,), (40,), (200,)]
    assert consolidated(logs.of["q"]) == consolidated(logs.of["eager"])
    assert db.late("s").num_rows == db.late("r").num_rows == 1


def test_every_end_is_sent_at_the_evaluation_that_passes_it() -> None:
    db = lazy("SELECT a FROM s [RANGE 2 SECONDS]", more=", emit = 'all'")
    db.push("s", [row(0)])
    assert db.advance(at(3)).count() == 0
    assert [op for op, *_ in log_of(db.advance(at(5)), "q")] == ["-"]


def test_changes_of_a_lazy_family_cannot_be_asked_for_by_arriving_row() -> None:
    db = lazy()
    changes = db.push({"r": [row(0)], "s": [row(0)]})
    for ask in (changes.affected, changes.count_affected, changes.sets):
        with pytest.raises(eddyline.CatalogError, match="every 5 seconds"):
            ask("family_1")
    assert changes.queries() == ["q"]


def test_texts_with_other_options_are_of_other_families_and_equal_lengths_are_of_one() -> None:
    db = world()
    for i, options in enumerate(["5 seconds", "5000 MILLISECONDS", "0.5 minutes", "30 seconds"]):
        db.execute(f"CREATE CONTINUOUS QUERY q{i} WITH (evaluate = '{options}') AS SELECT a FROM s WHERE a > {i}")
    db.execute("CREATE CONTINUOUS QUERY q9 AS SELECT a FROM s WHERE a > 9")
    assert [f["queries"] for f in db.execute("SHOW FAMILIES").to_pylist()] == [2, 2, 1]


def test_query_over_a_view_is_evaluated_by_its_own_option() -> None:
    db = world()
    db.execute("CREATE MATERIALIZED VIEW positive AS SELECT a FROM s [RANGE 60 SECONDS] WHERE a > 0")
    db.execute("CREATE CONTINUOUS QUERY q WITH (evaluate = '5 seconds') AS SELECT a FROM positive WHERE a < 9")
    db.push("s", [row(0)])
    assert db.push("s", [row(1)]).queries() == ["positive"]
    assert bag(db.execute("SELECT * FROM positive")) == bag(db.snapshot("q")) == {(1,): 2}


def test_explain_shows_both_options_and_the_clamp() -> None:
    db = lazy(more=", expire = '2 seconds'")
    text = db.explain("q", analyze=True)
    assert "evaluated every 5 seconds of event time" in text
    assert "expired every 5 seconds of event time (2 seconds asked for; never more often than it is evaluated)" in text
    assert "collected: 0 tuples" in text
    db.execute(f"CREATE CONTINUOUS QUERY e WITH (evaluate = '0 seconds', expire = '0 seconds') AS {JOIN}")
    assert "evaluated when tuples arrive\nexpired at every evaluation\n" in db.explain("e")


# Rows of state: tuples in windows; groups and values with their rows and coming events; the query in its class.
NEEDED = {"join": 4, "latest": 4, "distinct": 7, "grouped": 10}


@pytest.mark.parametrize("name", NEEDED)
def test_eager_expiration_keeps_no_row_that_no_window_needs(name: str) -> None:
    most = {}
    for query, options in {"plain": "", "swept": ", expire = '0 seconds'"}.items():
        db = world()
        db.execute(f"CREATE CONTINUOUS QUERY {query} WITH (snapshot = 'no'{options}) AS {QUERIES[name]}")
        most[query] = 0
        for second in range(0, 300, 2):
            db.push({"r": [row(second, a=second)], "s": [row(second, a=second)]})
            most[query] = max(most[query], figures(db)["state_rows"] + figures(db)["shared_rows"])
    assert most["swept"] <= NEEDED[name] < most["plain"], most


def test_lazy_expiration_drops_rows_at_its_interval() -> None:
    db = world()
    text = "SELECT r.b FROM r [RANGE 2 SECONDS], s [RANGE 2 SECONDS] WHERE r.a = s.a"
    db.execute(f"CREATE CONTINUOUS QUERY q WITH (expire = '50 seconds') AS {text}")
    db.push({"r": [row(1, a=i) for i in range(1000)], "s": [row(1)]})
    rows = []
    for second in (20, 40, 52, 60):
        db.advance(at(second))
        rows.append(figures(db)["shared_rows"])
    assert rows == [1000, 1000, 0, 0]  # the row of s, which no row probed, is dropped at once


@pytest.mark.parametrize(
    ("options", "text", "error"),
    [
        ("evaluate = '5'", JOIN, "evaluate cannot be '5'"),
        ("evaluate = 'often'", JOIN, "evaluate cannot be 'often'"),
        ("evaluate = '-1 seconds'", JOIN, "evaluate cannot be '-1 seconds'"),
        ("evaluate = 'nan seconds'", JOIN, "evaluate cannot be 'nan seconds'"),
        ("expire = '1 month'", JOIN, "expire cannot be '1 month'"),
        ("evaluate = '5 seconds'", "SELECT a FROM t", "evaluate has no effect"),
        ("expire = '5 seconds'", "SELECT a FROM s [RANGE 5 SECONDS]", "expire has no effect"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: str, text: str, error: str) -> None:
    db = world()
    with pytest.raises(eddyline.BindError, match=error):
        db.execute(f"CREATE CONTINUOUS QUERY q WITH ({options}) AS {text}")
    with pytest.raises(eddyline.BindError, match=error):
        db.execute(f"CREATE QUERY FAMILY f (lo INT) WITH ({options}) AS {text}")
    assert db.execute("SHOW FAMILIES").num_rows == 0


@pytest.mark.parametrize("window", ["RANGE 5 SECONDS", "ROWS 3"])
def test_collected_tuples_of_a_join_are_not_copied(window: str, tmp_path: Path) -> None:
    text = f"SELECT r.b AS rb, s.b AS sb FROM r [{window}], s [{window}] WHERE r.a = s.a"
    logs = {name: Logs("q") for name in ("lazy", "eager")}
    for name, options in (("lazy", " WITH (evaluate = '30 seconds')"), ("eager", "")):
        db: Any = world()
        db.execute(f"CREATE CONTINUOUS QUERY q{options} AS {text}")
        for second in range(10):
            logs[name].take(db.push({x: [row(second, a=i % 2, b=10 * second + i) for i in range(4)] for x in "rs"}))
            if second == 6:
                db.save(tmp_path / name)
                db = eddyline.connect(tmp_path / name)
        (running,) = db.engine.running.values()
        if name == "lazy":
            assert running.collected == 72  # the first tuples are due at once
            assert not running.collecting._batches, "tuples beside those of the log"
        logs[name].take(db.advance(at(100)))
    results = {name: consolidated(log.of["q"]) for name, log in logs.items()}
    assert results["lazy"] == results["eager"]
    assert len(results["lazy"]) > 50
