"""Save and restore: what was saved goes on, and what cannot be read says so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest

import eddyline
from eddyline.engine.actions import NewFamily
from tests.local.common import at, bag, log_of, random_rows, row, tuples, world

FUNCTIONS = {"twice": lambda x: 2 * x}


def full() -> Any:
    """A connection with one of everything, some way into its life."""
    db = world(delay=1)
    db.function("twice", FUNCTIONS["twice"], ["INT"], "INT")
    db.execute("""
        INSERT INTO t VALUES (1, 'x'), (NULL, NULL); INSERT INTO k VALUES (1, 'one'); INSERT INTO u VALUES (1, 'u');
        CREATE QUERY FAMILY above (lo INT, p STRING) AS SELECT a FROM s [RANGE 3 SECONDS] WHERE a >= :lo AND n LIKE :p;
        CREATE QUERY FAMILY gone (lo INT) AS SELECT a FROM s WHERE a > :lo;
        CREATE MATERIALIZED VIEW totals AS SELECT a, SUM(b) AS v FROM s GROUP BY a;
        CREATE CONTINUOUS QUERY over AS SELECT a FROM totals WHERE v > 2;
        CREATE CONTINUOUS QUERY filter_ AS SELECT a, twice(a) AS d FROM s WHERE a > 0;
        CREATE CONTINUOUS QUERY ended WITH (emit = 'all') AS SELECT a FROM s [RANGE 2 SECONDS];
        CREATE CONTINUOUS QUERY joined AS SELECT r.b, s.b FROM r [RANGE 4 SECONDS], s [RANGE 2 SECONDS] WHERE r.a = s.a;
        CREATE CONTINUOUS QUERY latest AS SELECT a, b FROM s [ROWS 3];
        CREATE CONTINUOUS QUERY minus AS SELECT a FROM s [RANGE 3 SECONDS] EXCEPT ALL SELECT a FROM r [RANGE 3 SECONDS];
        CREATE CONTINUOUS QUERY frozen AS SELECT s.b, u.n FROM s, u WHERE s.a = u.a;
        CREATE CONTINUOUS QUERY shown AS SELECT s.b, t.n FROM s [RANGE 5 SECONDS], t WHERE s.a = t.a;
        CREATE SINK out USING parquet OPTIONS (path 'out') FOR above, filter_;
        CREATE SINK everything USING json OPTIONS (path 'all')
    """)
    db.register("above", [{"query": f"u{i}", "lo": i, "p": "%" if i else None} for i in range(4)])
    db.drop("above", ["u2"])
    rnd, now = Random("full"), 0.0
    for _ in range(12):
        now += rnd.choice([0, 1])
        batch = random_rows(rnd, [max(0.0, now - rnd.choice([0, 0, 1, 4])) for _ in range(6)])
        db.push({"r": batch[:3], "s": batch[3:]})
    return db


def restored(db: Any, path: Path) -> Any:
    db.save(path)
    return eddyline.connect(path, functions=FUNCTIONS)


def same(a: Any, b: Any) -> None:
    queries = a.execute("SHOW QUERIES").column("query").to_pylist()
    for what in ("STREAMS", "TABLES", "QUERIES", "FAMILIES", "VIEWS", "FUNCTIONS"):
        assert b.execute(f"SHOW {what}").to_pylist() == a.execute(f"SHOW {what}").to_pylist(), what
    for name in queries:
        assert bag(b.snapshot(name)) == bag(a.snapshot(name)), name
        assert b.explain(name) == a.explain(name)
    for x in "rs":
        assert tuples(b.late(x)) == tuples(a.late(x))
    for x in ("t", "k", "u", "totals"):
        assert bag(b.execute(f"SELECT * FROM {x}")) == bag(a.execute(f"SELECT * FROM {x}"))


def go_on(a: Any, b: Any) -> None:
    rnd, now = Random("on"), 12.0
    for i in range(15):
        now += rnd.choice([0, 1])
        batch = random_rows(rnd, [max(0.0, now - rnd.choice([0, 0, 1, 4])) for _ in range(6)])
        found = [db.push({"r": batch[:3], "s": batch[3:]}) for db in (a, b)]
        if i % 5 == 4:
            found = [db.execute("UPDATE t SET a = 2 WHERE a = 1") for db in (a, b)]
        assert found[0].count() == found[1].count()
        for name in a.execute("SHOW QUERIES").column("query").to_pylist():
            assert sorted(map(str, log_of(found[0], name))) == sorted(map(str, log_of(found[1], name))), name
    same(a, b)


def test_everything_is_there_after_a_restore(tmp_path: Path) -> None:
    db = full()
    same(db, restored(db, tmp_path / "d"))


def test_statistics_are_there_after_a_restore(tmp_path: Path) -> None:
    db = full()
    again = restored(db, tmp_path / "d")
    want, found = db.stats(), again.stats()
    for counts in (want, found):
        for figures in (counts, *counts["families"].values()):
            for name in ("state_rows", "state_bytes", "shared_bytes"):  # a save may tidy up
                figures.pop(name)
    assert found == want


def test_restored_connection_goes_on_like_its_twin(tmp_path: Path) -> None:
    db = full()
    go_on(db, restored(db, tmp_path / "d"))


def test_saving_changes_nothing_in_the_connection(tmp_path: Path) -> None:
    db, twin = full(), full()
    db.save(tmp_path / "d")
    db.save(tmp_path / "d")
    go_on(twin, db)


def test_restore_of_a_restore_of_a_restore(tmp_path: Path) -> None:
    db = full()
    again = restored(restored(restored(db, tmp_path / "1"), tmp_path / "2"), tmp_path / "1")
    go_on(db, again)


def test_saving_over_an_old_save_replaces_it(tmp_path: Path) -> None:
    db = full()
    db.save(tmp_path / "d")
    db.push("s", [row(60, a=3)])
    db.execute("DROP CONTINUOUS QUERY latest")
    again = restored(db, tmp_path / "d")
    same(db, again)
    assert [p.name for p in tmp_path.iterdir()] == ["d"], "nothing is left beside the save"


def test_an_old_save_stays_if_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = full()
    db.save(tmp_path / "save")
    before = sorted(path.name for path in (tmp_path / "save").iterdir())
    rename = Path.rename

    def refuse_the_new(self: Path, to: Path) -> Path:
        if Path(to).name == "save" and not self.name.endswith(".old"):
            raise OSError("no room")
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", refuse_the_new)
    with pytest.raises(eddyline.Error, match="no room"):
        db.save(tmp_path / "save")
    assert [path.name for path in tmp_path.iterdir()] == ["save"]
    assert sorted(path.name for path in (tmp_path / "save").iterdir()) == before


def test_restored_connection_may_be_saved_where_it_came_from(tmp_path: Path) -> None:
    db = full()
    again = restored(db, tmp_path / "d")
    again.push("s", [row(60, a=3)])
    third = restored(again, tmp_path / "d")
    same(again, third)


def test_save_makes_missing_folders(tmp_path: Path) -> None:
    world().save(tmp_path / "a" / "b" / "c")
    world().save(str(tmp_path / "text"))
    assert eddyline.connect(str(tmp_path / "text")).execute("SHOW STREAMS").num_rows == 2


def test_names_are_free_or_taken_as_before(tmp_path: Path) -> None:
    again = restored(full(), tmp_path / "d")
    for sql in (
        "CREATE CONTINUOUS QUERY u1 AS SELECT a FROM s",
        "CREATE QUERY FAMILY above AS SELECT a FROM s",
        "CREATE TABLE totals (a INT)",
        "DROP TABLE t",
        "DROP MATERIALIZED VIEW totals",
    ):
        with pytest.raises(eddyline.CatalogError):
            again.execute(sql)
    again.register("above", [{"query": "u2", "lo": 0, "p": "%"}])
    again.execute("CREATE CONTINUOUS QUERY new AS SELECT a, twice(a) AS d FROM s WHERE a > 5")
    assert again.execute("SHOW FAMILIES").num_rows == full().execute("SHOW FAMILIES").num_rows, "it joins its shape"


def test_new_families_get_the_names_they_would_have_got(tmp_path: Path) -> None:
    a = world()
    a.execute("CREATE CONTINUOUS QUERY q1 AS SELECT a FROM s; CREATE CONTINUOUS QUERY q2 AS SELECT b FROM s")
    a.execute("DROP CONTINUOUS QUERY q2")
    b = restored(a, tmp_path / "d")
    for db in (a, b):
        db.execute("CREATE CONTINUOUS QUERY q3 AS SELECT c FROM s")
    assert a.execute("SHOW QUERIES").to_pylist() == b.execute("SHOW QUERIES").to_pylist()


def test_errors_of_functions_are_still_counted(tmp_path: Path) -> None:
    db = full()
    db.push("s", [row(70, a=2**31 - 1)])
    assert db.stats()["functions"]["twice"]["errors"] > 0
    assert restored(db, tmp_path / "d").stats()["functions"] == db.stats()["functions"]


def test_sinks_are_there_after_a_restore(tmp_path: Path) -> None:
    db = full()
    again = restored(db, tmp_path / "d")
    assert again.execute("SHOW SINKS").to_pylist() == db.execute("SHOW SINKS").to_pylist()
    with pytest.raises(eddyline.CatalogError):
        again.execute("CREATE SINK out USING parquet")


def test_sink_outlives_its_target_in_a_save(tmp_path: Path) -> None:
    db = full()
    db.execute("DROP CONTINUOUS QUERY filter_")
    assert restored(db, tmp_path / "d").execute("SHOW SINKS").to_pylist() == db.execute("SHOW SINKS").to_pylist()


def test_missing_functions_are_asked_for(tmp_path: Path) -> None:
    full().save(tmp_path / "d")
    with pytest.raises(eddyline.StateError, match="twice"):
        eddyline.connect(tmp_path / "d")


def test_function_given_under_another_case_is_found(tmp_path: Path) -> None:
    full().save(tmp_path / "d")
    db = eddyline.connect(tmp_path / "d", functions={"TWICE": FUNCTIONS["twice"]})
    assert [v for *_, v in log_of(db.push("s", [row(60, a=3)]), "filter_")] == [(3, 6)]


def test_clock_policy_is_kept_and_cannot_be_changed(tmp_path: Path) -> None:
    world(clock="max").save(tmp_path / "d")
    assert eddyline.connect(tmp_path / "d").engine.options.clock == "max"
    assert eddyline.connect(tmp_path / "d", clock="max").engine.options.clock == "max"
    with pytest.raises(eddyline.StateError, match="max"):
        eddyline.connect(tmp_path / "d", clock="min")


@pytest.mark.parametrize("name", ["a b", "Ünï", "a.b", "x/y", "../up", "select", "CON"])
def test_streams_and_tables_of_any_name_are_saved(tmp_path: Path, name: str) -> None:
    db = eddyline.connect()
    try:
        db.execute(f"CREATE STREAM `{name}` (a INT, ts TIMESTAMP) WATERMARK ts; CREATE TABLE `{name}2` (a INT)")
    except eddyline.Error:
        return
    db.execute(f"CREATE CONTINUOUS QUERY q AS SELECT a FROM `{name}`; INSERT INTO `{name}2` VALUES (5)")
    db.push(name, [{"a": 1, "ts": at(5)}, {"a": 2, "ts": at(0)}])
    (tmp_path / "in").mkdir()
    again = restored(db, tmp_path / "in" / "d")
    assert tuples(again.snapshot("q")) == [(1,)] and again.late(name).num_rows == 1
    assert tuples(again.execute(f"SELECT a FROM `{name}2`")) == [(5,)]
    assert [p.name for p in tmp_path.iterdir()] == ["in"] and [p.name for p in (tmp_path / "in").iterdir()] == ["d"]


# What cannot be read or written


def refused(path: Path) -> str:
    with pytest.raises(eddyline.StateError) as e:
        eddyline.connect(path, functions=FUNCTIONS)
    assert str(e.value)
    return str(e.value)


def test_places_without_a_save_are_refused(tmp_path: Path) -> None:
    assert "nowhere" in refused(tmp_path / "nowhere")
    (tmp_path / "file").write_text("hello")
    assert "file" in refused(tmp_path / "file")
    refused(tmp_path)


def test_save_does_not_overwrite_what_is_not_a_save(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hello")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").write_text("hello")
    for name in ("file", "folder"):
        with pytest.raises(eddyline.StateError, match=name):
            world().save(tmp_path / name)
    with pytest.raises(eddyline.StateError):
        world().save(tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == (tmp_path / "folder" / "mine").read_text() == "hello"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: Any) -> Path:
    path = tmp_path_factory.mktemp("saved") / "d"
    full().save(path)
    return path


def copy(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "copy"))


def files(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file())


def test_another_format_is_refused_by_number(saved: Path, tmp_path: Path) -> None:
    path = copy(saved, tmp_path)
    manifest = json.loads((path / "manifest.json").read_text())
    for number in (999, 0, "1", None, [1]):
        (path / "manifest.json").write_text(json.dumps(manifest | {"format": number}))
        assert str(number) in refused(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "5", '"text"', "{}", '{"format": 1}', "\0\0", "é" * 10])
def test_manifest_that_is_no_manifest_is_refused(saved: Path, tmp_path: Path, text: str) -> None:
    path = copy(saved, tmp_path)
    (path / "manifest.json").write_text(text)
    refused(path)


ADDED_LATER = {"first_function_errors", "pooled_lookups"}  # saves of earlier versions lack them


def test_manifest_with_any_entry_missing_or_of_another_kind_is_refused(saved: Path, tmp_path: Path) -> None:
    path = copy(saved, tmp_path)
    manifest = json.loads((path / "manifest.json").read_text())
    for key in manifest:
        without = {k: v for k, v in manifest.items() if k != key}
        for damaged in (
            *([] if key in ADDED_LATER else [without]),
            manifest | {key: None},
            manifest | {key: "nonsense"},
            manifest | {key: [{"nonsense": 1}]},
        ):
            (path / "manifest.json").write_text(json.dumps(damaged))
            with pytest.raises(eddyline.StateError):
                eddyline.connect(path, functions=FUNCTIONS)
                pytest.fail(f"{key} = {damaged.get(key)!r} was accepted")


def test_missing_file_is_refused(saved: Path, tmp_path: Path) -> None:
    path = copy(saved, tmp_path)
    accepted = []
    for file in files(path):
        content = file.read_bytes()
        file.unlink()
        try:
            eddyline.connect(path, functions=FUNCTIONS)
            accepted.append(str(file.relative_to(path)))
        except eddyline.StateError:
            pass
        file.write_bytes(content)
    assert not accepted


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
def test_truncated_file_is_refused(saved: Path, tmp_path: Path, kept: float) -> None:
    path = copy(saved, tmp_path)
    for file in files(path):
        content = file.read_bytes()
        file.unlink()
        file.write_bytes(content[: int(kept * len(content))])
        refused(path)
        file.unlink()
        file.write_bytes(content)
    eddyline.connect(path, functions=FUNCTIONS)


def test_file_of_another_kind_is_refused(saved: Path, tmp_path: Path) -> None:
    path = copy(saved, tmp_path)
    table = (path / "tables" / "t.arrow").read_bytes()
    for file in files(path):
        if file.suffix == ".arrow" and "tables" not in file.parts:
            content = file.read_bytes()
            file.unlink()
            file.write_bytes(table)
            refused(path)
            file.unlink()
            file.write_bytes(content)


def test_table_with_the_rows_of_another_is_refused(saved: Path, tmp_path: Path) -> None:
    path = copy(saved, tmp_path)
    late = (path / "streams" / "s.late.arrow").read_bytes()
    (path / "tables" / "t.arrow").unlink()
    (path / "tables" / "t.arrow").write_bytes(late)
    refused(path)


def test_value_changed_in_place_is_noticed(saved: Path, tmp_path: Path) -> None:
    """Every file is of the right form and size; without a checksum the answers would be silently others."""
    path = copy(saved, tmp_path)
    file = path / "tables" / "k.arrow"
    content = file.read_bytes()
    assert content.count(b"one") == 1
    file.write_bytes(content.replace(b"one", b"two"))
    refused(path)


def test_files_of_a_saved_connection_stay_in_its_folder_whatever_its_streams_are_called(tmp_path: Path) -> None:
    db = eddyline.connect()
    db.execute("CREATE STREAM `../../escape` (k INT, ts TIMESTAMP) WATERMARK ts; CREATE TABLE `a/../../b` (k INT)")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT k FROM `../../escape`")
    db.push("../../escape", [{"k": 1, "ts": "2026-01-01"}])
    db.save(tmp_path / "here" / "saved")
    assert [f.name for f in tmp_path.iterdir()] == ["here"]
    assert [f.name for f in (tmp_path / "here").iterdir()] == ["saved"]
    again = eddyline.connect(tmp_path / "here" / "saved")
    assert again.snapshot("q")["k"].to_pylist() == [1]


BUSY = (
    "CREATE QUERY FAMILY busy (least BIGINT) AS SELECT a, COUNT(*) AS k FROM s [RANGE 5 SECONDS] GROUP BY a "
    "HAVING a <> 1 AND COUNT(*) >= :least"
)


def busy(rules: Literal[1, 2]) -> Any:
    db = world()
    db.apply([NewFamily(1, "busy", "declared", BUSY, "whole", rules)])
    db.register("busy", [{"query": f"b{n}", "least": n} for n in (1, 2)])
    db.push("s", [row(i, a=i % 3) for i in range(6)])
    return db


@pytest.mark.parametrize(("rules", "saved_by"), [(1, "this version"), (2, "this version"), (1, "an older version")])
def test_a_family_keeps_the_rules_it_was_planned_with(rules: Literal[1, 2], saved_by: str, tmp_path: Path) -> None:
    """The saved groups include some that the newer plan filters out below: it would send retractions for them."""
    old = busy(rules)
    old.save(tmp_path / "saved")
    manifest = json.loads((tmp_path / "saved" / "manifest.json").read_text())
    if saved_by != "this version":
        for family in manifest["families"]:
            assert family.pop("rules") == 1
        (tmp_path / "saved" / "manifest.json").write_text(json.dumps(manifest))
    new = eddyline.connect(tmp_path / "saved")
    assert new.explain("busy") == old.explain("busy")
    assert ("rewritten: push selections below groups" in new.explain("busy")) == (rules == 2)
    for i in range(6, 14):
        batch = [row(i, a=i % 2)]
        changes = [db.push("s", batch) for db in (old, new)]
        for name in ("b1", "b2"):
            assert log_of(changes[0], name) == log_of(changes[1], name)
    same_as = busy(3 - rules)  # type: ignore[arg-type]
    same_as.push("s", [row(i, a=i % 2) for i in range(6, 14)])
    for name in ("b1", "b2"):
        assert bag(new.snapshot(name)) == bag(same_as.snapshot(name))


def test_rules_of_a_later_version_are_refused_with_the_remedy(tmp_path: Path) -> None:
    busy(2).save(tmp_path / "saved")
    manifest = json.loads((tmp_path / "saved" / "manifest.json").read_text())
    manifest["families"][0]["rules"] = 9
    (tmp_path / "saved" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(eddyline.StateError, match="rules of a later version") as refused:
        eddyline.connect(tmp_path / "saved")
    assert "Use the version of Eddyline that wrote it." in str(refused.value)
