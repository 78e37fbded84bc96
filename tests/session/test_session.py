"""A session turns statements into actions and changes nothing itself."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from eddyline.engine.actions import (
    Action,
    AddQueries,
    AddQuery,
    ChangeTable,
    Define,
    DropQueries,
    DropQuery,
    NewFamily,
    RemoveFamily,
    Undefine,
)
from eddyline.engine.definitions import Definitions
from eddyline.engine.table_rows import TableRows
from eddyline.errors import CatalogError, DataError
from eddyline.session.run_statements import run_script
from eddyline.session.session import Session
from eddyline.sql.parser import parse

WORLD = """
    CREATE STREAM s (k INT, v DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS;
    CREATE TABLE t (k INT PRIMARY KEY, name STRING);
    CREATE QUERY FAMILY f (lo DOUBLE) AS SELECT k FROM s WHERE v > :lo
"""


class Recorder:
    """A host that applies actions to definitions alone, and remembers them."""

    def __init__(self) -> None:
        self.definitions = Definitions()
        self.session = Session(self.definitions, self)
        self.actions: list[Action] = []

    def run(self, sql: str) -> list[Action]:
        """The actions of a script."""
        self.actions = []
        run_script(self, parse(sql), sql)
        return self.actions

    def apply(self, actions: Sequence[Action]) -> None:
        for action in actions:
            self.definitions.apply(action)
            self.actions.append(action)

    def insert(self, stream: str, rows: pa.Table) -> Any:
        self.pushed = stream, rows.to_pylist()

    def show(self, what: str) -> pa.Table:
        raise AssertionError("not asked here")

    def explain(self, name: str, analyze: bool) -> str:
        raise AssertionError("not asked here")

    def table(self, name: str) -> TableRows:
        return self.definitions.tables[name]

    def view(self, name: str) -> pa.Table:
        raise AssertionError("not asked here")


@pytest.fixture
def host() -> Recorder:
    host = Recorder()
    host.run(WORLD)
    return host


def kinds(actions: Sequence[Action]) -> list[type]:
    return [type(a) for a in actions]


def test_declarations_define_and_families_are_created() -> None:
    assert kinds(Recorder().run(WORLD)) == [Define, Define, NewFamily]


def test_the_first_text_of_a_shape_creates_its_family_and_the_next_only_adds_a_query(host: Recorder) -> None:
    first = host.run("CREATE CONTINUOUS QUERY a AS SELECT k FROM s WHERE v > 1.5")
    second = host.run("CREATE CONTINUOUS QUERY b AS SELECT k FROM s WHERE v > 2.5")
    assert kinds(first) == [NewFamily, AddQuery] and kinds(second) == [AddQuery]
    assert [a.values for a in (*first, *second) if isinstance(a, AddQuery)] == [(1.5,), (2.5,)]


def test_a_text_of_a_known_template_needs_no_parser_while_its_family_is_there(host: Recorder) -> None:
    text = "CREATE CONTINUOUS QUERY {} AS SELECT k FROM s WHERE v > {}"
    assert host.session.known(text.format("a", 1.5)) is None
    host.run(text.format("a", 1.5))
    added = host.session.known(text.format("b", 2.5))
    assert isinstance(added, AddQuery) and (added.name, list(added.values)) == ("b", [2.5])
    assert host.session.known(text.format("a", 2.5)) is None  # the name is taken: the slow path says so
    host.run("DROP CONTINUOUS QUERY a")
    assert host.session.known(text.format("b", 2.5)) is None


def test_a_family_of_texts_is_removed_with_its_last_query(host: Recorder) -> None:
    for name in "ab":
        host.run(f"CREATE CONTINUOUS QUERY {name} AS SELECT k FROM s WHERE v > 1")
    assert isinstance(host.session.known("DROP CONTINUOUS QUERY a"), DropQuery)
    assert kinds(host.run("DROP CONTINUOUS QUERY a")) == [DropQuery]
    assert kinds(host.run("DROP CONTINUOUS QUERY b")) == [RemoveFamily]
    assert host.session.registry.is_free("a") and host.session.registry.is_free("b")


def test_rows_of_constants_become_columns_and_a_declared_family_stays_without_queries(host: Recorder) -> None:
    (added,) = host.session.register("f", [{"query": "x", "lo": 1.0}, {"query": "y", "lo": 2.0}])
    assert isinstance(added, AddQueries) and added.params[0].to_pylist() == [1.0, 2.0]
    assert len(host.session.registry.named("f").queries) == 0, "a session applies nothing"
    host.apply([added])
    (dropped,) = host.session.drop("f", ["x", "y"])
    assert isinstance(dropped, DropQueries) and dropped.ids.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"query": "x", "lo": 1.0}, {"query": "x", "lo": 2.0}], "more than once"),
        ([{"query": "old", "lo": 1.0}], "already a query 'old'"),
        ([{"query": "f", "lo": 1.0}], "taken by a family"),
        ([{"query": "x"}], "lacks column 'lo'"),
    ],
)
def test_rows_that_cannot_all_be_registered_give_no_action(host: Recorder, rows: list[Any], message: str) -> None:
    host.apply(host.session.register("f", [{"query": "old", "lo": 0.0}]))
    with pytest.raises((CatalogError, DataError), match=message):
        host.session.register("f", rows)


def test_a_view_is_a_family_a_relation_and_one_query_and_is_dropped_as_such(host: Recorder) -> None:
    assert kinds(host.run("CREATE MATERIALIZED VIEW w AS SELECT name FROM t")) == [NewFamily, Define, AddQuery]
    assert kinds(host.run("DROP MATERIALIZED VIEW w")) == [RemoveFamily, Undefine]


def test_changes_of_a_table_name_the_rows_that_leave_by_position(host: Recorder) -> None:
    host.run("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    (change,) = host.run("UPDATE t SET name = upper(name) WHERE k >= 2")
    assert isinstance(change, ChangeTable) and change.gone.tolist() == [1, 2]
    assert [c.to_pylist() for c in change.new] == [[2, 3], ["B", "C"]]
    (change,) = host.run("DELETE FROM t WHERE k = 1")
    assert isinstance(change, ChangeTable) and len(change.gone) == 1 and not len(change.new[0])
    (change,) = host.run("INSERT INTO t SELECT k + 10, name FROM t")
    assert isinstance(change, ChangeTable) and change.new[0].to_pylist() == [12, 13]


def test_rows_for_a_stream_are_left_to_the_host(host: Recorder) -> None:
    assert host.run("INSERT INTO s (ts, k) VALUES ('2026-01-01', 7)") == []
    stream, rows = host.pushed
    assert stream == "s" and [(r["k"], r["v"]) for r in rows] == [(7, None)]


def test_what_is_read_cannot_be_dropped_and_what_is_not_there_need_not(host: Recorder) -> None:
    with pytest.raises(CatalogError, match="'s' is read by family 'f'"):
        host.run("DROP STREAM s")
    assert host.run("DROP STREAM IF EXISTS nowhere; DROP CONTINUOUS QUERY IF EXISTS nobody") == []
