"""Definitions interpret actions: each applies whole or not at all, and the runner hears of it in order."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.arrays import Ints
from eddyline.engine.actions import (
    AddQueries,
    AddQuery,
    ChangeTable,
    Define,
    DropQueries,
    DropQuery,
    LoadQueries,
    NewFamily,
    Quarantine,
    RemoveFamily,
    Undefine,
)
from eddyline.engine.definitions import Definitions
from eddyline.engine.family import Family
from eddyline.errors import DataError
from eddyline.state.delta import Delta

STREAM = "CREATE STREAM s (k INT, v DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS"
TABLE = "CREATE TABLE t (k INT PRIMARY KEY, name STRING)"
FAMILY = "CREATE QUERY FAMILY f (lo DOUBLE) AS SELECT k FROM s WHERE v > :lo"
NONE = np.empty(0, np.int64)


class Heard:
    """A runner and name keeper that notes what happens, and refuses what it is told to."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.refuses = ""

    def _note(self, *event: Any) -> None:
        if event[0] == self.refuses:
            raise RuntimeError("refused")
        self.events.append(event)

    def family_created(self, family: Family) -> None:
        self._note("created", family.name)

    def family_removed(self, family: Family) -> None:
        self._note("removed", family.name)

    def family_split(self, family: Family) -> None:
        self._note("split", family.name)

    def relation_defined(self, relation: Any) -> None:
        self._note("defined", relation.name)

    def relation_removed(self, kind: str, name: str) -> None:
        self._note("undefined", name)

    def claim(self, family: Family, ids: Any, names: Any) -> None:
        self._note("adding", list(ids))

    def release(self, names: Any) -> None:
        self._note("released", len(names))

    def queries_adding(self, family: Family) -> None:
        self._note("before adding", len(family.queries))

    def queries_added(self, family: Family, ids: Any) -> None:
        self._note("added", list(ids))

    def queries_dropping(self, family: Family) -> None:
        self._note("dropping", len(family.queries))

    def queries_dropped(self, family: Family, ids: Any) -> None:
        self._note("dropped", list(ids))

    def table_changing(self, table: str) -> None:
        self._note("changing", table)

    def table_changed(self, table: str, delta: Delta) -> None:
        self._note("table", table, len(delta))


def defined(*actions: Any, **options: Any) -> tuple[Definitions, Heard]:
    definitions, heard = Definitions(**options), Heard()
    definitions.runner = heard
    definitions.names = heard
    for action in (Define(STREAM), Define(TABLE), NewFamily(1, "f", "declared", FAMILY), *actions):
        definitions.apply(action)
    heard.events.clear()
    return definitions, heard


def rows(*names: str) -> AddQueries:
    return AddQueries(1, pa.array(names), (pa.array([float(len(n)) for n in names]),))


def live(definitions: Definitions) -> list[str]:
    table = definitions.families[1].queries.rows()
    return table.names_at(table.live()).to_pylist()


def test_queries_get_ids_that_are_never_used_again() -> None:
    definitions, heard = defined(rows("a", "b"))
    definitions.apply(DropQueries(1, np.array([1])))
    definitions.apply(AddQuery(1, "c", (3.0,)))
    definitions.apply(DropQuery(1, 2, "c"))
    definitions.apply(rows("d"))
    assert live(definitions) == ["a", "d"] and definitions.live[1] == 2
    assert [e for e in heard.events if e[0] == "added"] == [("added", [2]), ("added", [3])]


def test_queries_can_still_be_seen_when_they_are_about_to_be_dropped() -> None:
    definitions, heard = defined(rows("a", "b"))
    definitions.apply(DropQueries(1, np.array([0])))
    definitions.apply(RemoveFamily(1))
    dropped, removed = heard.events[:3], heard.events[3:]
    assert dropped == [("dropping", 2), ("released", 1), ("dropped", [0])]
    assert removed == [("dropping", 1), ("removed", "f"), ("removed", "f")]
    assert not definitions.families and not definitions.live


def test_queries_cannot_be_seen_yet_when_they_are_about_to_be_added() -> None:
    definitions, heard = defined(rows("a"))
    definitions.apply(rows("b", "c"))
    definitions.apply(AddQuery(1, "d", (3.0,)))
    assert [e for e in heard.events if e[0] in ("before adding", "added")] == [
        ("before adding", 1),
        ("added", [1, 2]),
        ("before adding", 3),
        ("added", [3]),
    ]


@pytest.mark.parametrize("refused", ["created", "adding"])
def test_what_is_refused_never_was(refused: str) -> None:
    definitions, heard = defined(rows("a"))
    heard.refuses = refused
    action = (
        NewFamily(2, "g", "declared", FAMILY.replace("FAMILY f", "FAMILY g")) if refused == "created" else rows("b")
    )
    with pytest.raises(RuntimeError):
        definitions.apply(action)
    assert list(definitions.families) == [1] and live(definitions) == ["a"]
    heard.refuses = ""
    definitions.apply(action)
    assert 2 in definitions.families if refused == "created" else live(definitions) == ["a", "b"]


def test_a_table_change_that_violates_the_key_changes_nothing() -> None:
    new = (pa.array([1, 2], pa.int32()), pa.array(["a", "b"]))
    definitions, heard = defined(ChangeTable("t", NONE, new))
    with pytest.raises(DataError, match="already has a row"):
        definitions.apply(ChangeTable("t", NONE, tuple(c[:1] for c in new)))
    assert len(definitions.tables["t"]) == 2 and heard.events == [("changing", "t")]
    definitions.apply(ChangeTable("t", np.array([0]), tuple(c[:0] for c in new)))
    assert definitions.tables["t"].to_arrow().to_pylist() == [{"k": 2, "name": "b"}]
    assert heard.events[1:] == [("changing", "t"), ("table", "t", 1)]


def test_quarantine_drops_queries_where_they_run_and_keeps_them_where_they_are_resumed() -> None:
    for kept, expected in (("dropped", ["b"]), ("kept", ["a", "b"])):
        definitions, _ = defined(rows("a", "b"), Quarantine(1, (0,), "an error"), quarantined=kept)
        assert live(definitions) == expected and definitions.quarantined == {1: {0: "an error"}}
        definitions.apply(DropQueries(1, np.array([0])))
        assert live(definitions) == ["b"] and not definitions.quarantined[1] and definitions.live[1] == 1


class Odd:
    """Keeps every second query."""

    def keeps(self, family: Family, split: Any) -> bool:
        return True

    def owned(self, ids: Ints, split: Any) -> Any:
        return ids % 2 == 1


def test_a_share_keeps_its_own_queries_and_counts_them_all() -> None:
    definitions, heard = defined(rows("a", "b", "c", "d"), share=Odd())
    assert live(definitions) == ["b", "d"] and definitions.live[1] == 4
    definitions.apply(DropQueries(1, np.array([0, 1])))
    assert live(definitions) == ["d"] and definitions.live[1] == 2
    assert heard.events[-1] == ("dropped", [1])
    definitions.apply(rows("e", "f"))
    assert definitions.families[1].queries.rows().ids.tolist() == [1, 3, 5]


def test_queries_that_the_same_commits_drop_again_are_left_out() -> None:
    definitions, _ = defined()
    definitions.leaving = {1: {0, 2}}
    definitions.apply(rows("a", "b", "c"))
    definitions.apply(DropQueries(1, np.array([0, 2])))
    assert live(definitions) == ["b"] and definitions.live[1] == 1


def test_a_snapshot_brings_ids_and_the_arrival_numbers_it_is_given() -> None:
    definitions, _ = defined()
    load = LoadQueries(1, 9, np.array([3, 7]), pa.array(["a", "b"]), (pa.array([1.0, 2.0]),))
    definitions.apply(load, lambda family, ids: ids * 10)
    table = definitions.families[1].queries.rows()
    assert table.ids.tolist() == [3, 7] and table.since_at(np.arange(2)).tolist() == [30, 70]
    assert definitions.families[1].queries.next_id == 9


def test_what_is_undefined_is_gone_with_its_rows() -> None:
    definitions, _ = defined(ChangeTable("t", NONE, (pa.array([1], pa.int32()), pa.array(["a"]))))
    definitions.apply(Undefine("table", "t"))
    assert not definitions.tables and definitions.catalog.tables.get("t") is None
    definitions.apply(Define(TABLE))
    assert len(definitions.tables["t"]) == 0
