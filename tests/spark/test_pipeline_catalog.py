"""The catalog: statements checked as in-process, written down as commits, and taken up by others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eddyline.engine.actions import Action, AddQueries, Define, DropQueries, NewFamily, NextFamily
from eddyline.engine.definitions import Definitions
from eddyline.errors import CatalogError, DataError, Error, StateError
from eddyline.session import session
from eddyline.spark.catalog import logged
from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.catalog.following import Follower
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.sql.binder import bind_standing

STREAM = "CREATE STREAM t (k INT, v DOUBLE, ts TIMESTAMP) WATERMARK ts"
FAMILY = "CREATE QUERY FAMILY f (lo DOUBLE) AS SELECT k FROM t WHERE v >= :lo"


def opened(folder: Path) -> PipelineCatalog:
    found = PipelineCatalog(CommitLog(folder / "ck" / "eddyline" / "catalog"))
    found.catch_up()
    return found


def alerts(*names: str) -> pa.Table:
    return pa.table({"query": list(names), "lo": [float(i) for i in range(len(names))]})


def names(catalog: PipelineCatalog) -> list[str]:
    return sorted(catalog.execute("SHOW QUERIES")["query"].to_pylist())


def test_what_one_process_commits_another_takes_up(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    one.execute(f"{STREAM}; {FAMILY}")
    other.register("f", alerts("a", "b"))
    one.execute("CREATE CONTINUOUS QUERY q AS SELECT k FROM t WHERE v > 1.5")
    other.drop("f", ["a"])
    one.catch_up()
    assert names(one) == names(other) == ["b", "q"]
    with pytest.raises(CatalogError, match="already a query 'q'"):
        other.execute("CREATE CONTINUOUS QUERY q AS SELECT v FROM t")


def test_texts_are_rows_of_a_numbered_family_in_the_log(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    catalog.execute(STREAM)
    catalog.execute("; ".join(f"CREATE CONTINUOUS QUERY q{i} AS SELECT k FROM t WHERE v > {i}.5" for i in range(50)))
    first, *rest = catalog.log.read(2)
    assert isinstance(first, NewFamily)
    (added,) = rest
    assert isinstance(added, AddQueries)
    assert added.names.to_pylist() == [f"q{i}" for i in range(50)]
    assert added.params[0].to_pylist() == [i + 0.5 for i in range(50)]


def test_a_statement_that_fails_commits_nothing_and_a_script_what_came_before(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    catalog.execute(STREAM)
    for bad in ("CREATE CONTINUOUS QUERY q AS SELECT nothing FROM t", "DROP STREAM x", "CREATE STREAM t (a INT)"):
        with pytest.raises(Error):
            catalog.execute(bad)
    assert catalog.log.latest() == 1
    with pytest.raises(Error):
        catalog.execute(f"{FAMILY}; CREATE CONTINUOUS QUERY q AS SELECT nothing FROM t")
    assert catalog.log.latest() == 2
    with pytest.raises(DataError):
        catalog.register("f", pa.table({"query": ["a"], "lo": ["much"]}))
    assert catalog.log.latest() == 2
    assert names(opened(tmp_path)) == []


def test_a_script_is_run_once_and_what_was_dropped_since_stays_dropped(tmp_path: Path) -> None:
    script = f"{STREAM}; CREATE CONTINUOUS QUERY q AS SELECT k FROM t; CREATE CONTINUOUS QUERY r AS SELECT v FROM t"
    opened(tmp_path).run_script(script)
    opened(tmp_path).execute("DROP CONTINUOUS QUERY q")
    opened(tmp_path).run_script(script + "; CREATE CONTINUOUS QUERY s AS SELECT ts FROM t")
    assert names(opened(tmp_path)) == ["r", "s"]


def test_a_pipelines_script_with_an_error_commits_nothing_and_a_mended_one_is_run_whole(tmp_path: Path) -> None:
    good = f"{STREAM}; CREATE CONTINUOUS QUERY q AS SELECT k FROM t"
    catalog = opened(tmp_path)
    catalog.run_script(good)
    with pytest.raises(Error, match="no column 'nothing'"):
        catalog.run_script(f"{good}; {FAMILY}; CREATE CONTINUOUS QUERY r AS SELECT nothing FROM t")
    assert catalog.log.latest() == 1
    catalog.run_script(f"{good}; {FAMILY.replace('>=', '>')}; CREATE CONTINUOUS QUERY r AS SELECT v FROM t")
    assert names(catalog) == names(opened(tmp_path)) == ["q", "r"]
    assert ">=" not in catalog.registry.named("f").sql


def test_a_snapshot_says_what_the_commits_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logged, "COMMITS", 5)
    monkeypatch.setattr(logged, "MOST_COMMITS", 5)
    catalog = opened(tmp_path)
    catalog.execute(f"{STREAM}; CREATE TABLE u (k INT PRIMARY KEY, n STRING); {FAMILY}")
    catalog.execute("INSERT INTO u VALUES (1, 'one'), (2, 'two')")
    catalog.function("half", lambda x: x / 2, ["DOUBLE"], "DOUBLE")
    catalog.register("f", alerts("a", "b", "c"))
    catalog.drop("f", ["b"])
    catalog.execute("CREATE CONTINUOUS QUERY q AS SELECT half(v) AS h FROM t")
    catalog.quarantine(catalog.registry.named("f").number, [2], "for a reason")
    log = catalog.log
    base = log.snapshot_before(log.latest())
    assert base > 0
    log.trim(base)
    assert not log.has(1)
    again = opened(tmp_path)
    assert names(again) == ["a", "c", "q"]
    assert again.tables["u"].to_arrow().to_pylist() == [{"k": 1, "n": "one"}, {"k": 2, "n": "two"}]
    assert again.definitions.functions.bodies["half"](4.0) == 2.0
    assert again.quarantined == catalog.quarantined
    again.register("f", alerts("d"))
    applied: list[Action] = []
    definitions = Definitions()
    Follower(log, definitions).move_to(log.latest(), lambda a: applied.append(a) or definitions.apply(a) or [])
    assert {f.name: len(f.queries) for f in definitions.families.values()} == {"f": 2, "family_2": 1}
    assert not any(isinstance(a, DropQueries) for a in applied)
    assert definitions.families[1].queries.next_id == 4


def test_a_million_queries_are_taken_up_as_columns(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    catalog.execute(f"{STREAM}; {FAMILY}")
    n = 1_000_000
    numbers = pa.array(range(n))
    catalog.register("f", pa.table({"query": numbers.cast(pa.string()), "lo": numbers.cast(pa.float64())}))
    again = opened(tmp_path)
    assert len(again.registry.named("f").queries) == n
    again.drop("f", ["17"])
    with pytest.raises(CatalogError, match="no query '17'"):
        again.drop("f", ["17"])


def test_what_a_pipeline_cannot_do_is_said(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    catalog.execute(f"{STREAM}; CREATE CONTINUOUS QUERY q AS SELECT k FROM t; CREATE TABLE u (k INT)")
    catalog.execute("INSERT INTO u VALUES (1); CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM u")
    assert catalog.execute("SELECT k FROM u")["k"].to_pylist() == [1]
    for call in (
        lambda: catalog.execute("SELECT n FROM v"),
        lambda: catalog.execute("EXPLAIN ANALYZE q"),
        lambda: catalog.execute("INSERT INTO t VALUES (1, 2.0, '2026-01-01')"),
    ):
        with pytest.raises(CatalogError) as raised:
            call()
        assert raised.value.hint


def test_a_damaged_or_missing_commit_is_named(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    catalog.execute(STREAM)
    catalog.execute(FAMILY)
    folder = tmp_path / "ck" / "eddyline" / "catalog"
    (folder / "000000000001.commit").write_bytes(b"nonsense")
    with pytest.raises(StateError, match=r"000000000001\.commit' is damaged"):
        opened(tmp_path)
    (folder / "000000000001.commit").unlink()
    with pytest.raises(StateError, match=r"000000000001\.commit' is missing"):
        opened(tmp_path)


def test_a_long_text_is_bound_while_the_log_is_not_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, other = opened(tmp_path), opened(tmp_path)
    catalog.execute(STREAM)
    times = 0

    def bind(*args: Any) -> Any:
        nonlocal times
        times += 1
        assert not catalog._open  # or the next line would wait for ever
        if times == 1:
            other.execute("CREATE CONTINUOUS QUERY meanwhile AS SELECT k FROM t")
        return bind_standing(*args)

    monkeypatch.setattr(session, "bind_standing", bind)
    catalog.execute(f"CREATE CONTINUOUS QUERY q AS SELECT k FROM t WHERE k IN ({', '.join(map(str, range(2000)))})")
    assert times == 2  # one of them for the short text
    assert names(catalog) == ["meanwhile", "q"]


def test_a_long_text_is_bound_again_if_the_catalog_has_changed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, other = opened(tmp_path), opened(tmp_path)
    catalog.execute(STREAM)
    times = 0

    def bind(*args: Any) -> Any:
        nonlocal times
        times += 1
        bound = bind_standing(*args)
        if times == 1:
            other.execute(f"DROP STREAM t; {STREAM.replace('k INT', 'k STRING')}")
        return bound

    monkeypatch.setattr(session, "bind_standing", bind)
    items = ", ".join(f"'{i}'" for i in range(2000))
    catalog.execute(f"CREATE CONTINUOUS QUERY q AS SELECT k FROM t WHERE k IN ({items})")
    assert times == 2
    (family,) = catalog.registry
    assert family.fields[0].type == pa.string() == family.bound.params[0].type.value_type


def test_a_long_list_goes_through_the_log_as_one_value(tmp_path: Path) -> None:
    catalog = opened(tmp_path)
    catalog.execute(
        f"{STREAM}; CREATE CONTINUOUS QUERY q AS SELECT k FROM t WHERE k IN ({', '.join(map(str, range(50)))})"
    )
    (added,) = [a for a in catalog.log.read(1) if isinstance(a, AddQueries)]
    assert [p.to_pylist() for p in added.params] == [[list(range(50))]]
    (family,) = opened(tmp_path).registry
    assert family.queries.rows().params[0].to_pylist() == [list(range(50))]


def test_a_family_of_a_log_that_has_an_item_of_a_list_per_parameter_stays_what_it_was(tmp_path: Path) -> None:
    """As versions before lists were parameters wrote it: the action says nothing of lists."""
    items = list(range(20))
    text = f"CREATE CONTINUOUS QUERY q AS SELECT k FROM t WHERE k IN ({', '.join(map(str, items))})"
    log = CommitLog(tmp_path / "ck" / "eddyline" / "catalog")
    with log.lock():
        columns = tuple(pa.array([i]) for i in items)
        old = NewFamily(1, "family_1", "implicit", text)
        log.append([Define(STREAM), old, AddQueries(1, pa.array(["q"]), columns), NextFamily(2)])
    catalog = opened(tmp_path)
    (family,) = catalog.registry
    assert len(family.bound.params) == 20
    catalog.execute(text.replace("QUERY q", "QUERY r"))
    assert names(catalog) == names(opened(tmp_path)) == ["q", "r"]
