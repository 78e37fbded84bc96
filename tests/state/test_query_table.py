"""The table of a family's queries against a dict from id to query."""

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.sql.bound import Field
from eddyline.state.query_table import QueryRows, QueryTable

PARAMS = (Field("lo", pa.int64()), Field("name", pa.string()))
Query = tuple[str, tuple[Any, ...], int]  # name, values, since


def listed(rows: QueryRows) -> dict[int, Query]:
    """The live queries by id."""
    names, params = rows.names.to_pylist(), [p.to_pylist() for p in rows.params]
    return {
        int(rows.ids[i]): (names[i], tuple(p[i] for p in params), int(rows.since_at(np.array([i]))[0]))
        for i in rows.live().tolist()
    }


def check(table: QueryTable, plain: dict[int, Query], note: str = "") -> None:
    rows = table.rows()
    assert listed(rows) == plain, note
    assert len(table) == len(plain), note
    assert (np.diff(rows.ids) > 0).all(), note
    ids = np.array(list(plain), np.int64)
    assert rows.ids[rows.positions(ids)].tolist() == ids.tolist(), note
    assert rows.name_of(ids).to_pylist() == [plain[i][0] for i in ids.tolist()], note


def values(rnd: Random) -> tuple[Any, ...]:
    return rnd.choice([None, 0, 5, -(2**60)]), rnd.choice([None, "", "a", "é"])


@pytest.mark.parametrize("seed", range(10))
def test_queries_are_those_of_a_dict_while_they_come_and_go(seed: int) -> None:
    rnd = Random(seed)
    table, plain, next_id = QueryTable(PARAMS), dict[int, Query](), 0
    for step in range(80):
        kind = rnd.choice(["add one", "add one", "add", "drop", "drop", "compact", "save", "look"])
        if kind == "add one":
            query = (f"q{next_id}", values(rnd), step)
            assert table.add_one(*query) == next_id
            plain[next_id] = query
            next_id += 1
        elif kind == "add":
            new = [(f"q{next_id + i}", values(rnd), step) for i in range(rnd.choice([0, 1, 7]))]
            columns = [pa.array([q[1][i] for q in new], f.type) for i, f in enumerate(PARAMS)]
            ids = table.add(pa.array([q[0] for q in new], pa.string()), columns, step)
            assert ids.tolist() == list(range(next_id, next_id + len(new)))
            plain |= dict(zip(ids.tolist(), new, strict=True))
            next_id += len(new)
        elif kind == "drop" and plain:
            gone = rnd.sample(list(plain), rnd.randint(1, len(plain)) if rnd.random() < 0.2 else 1)
            table.drop(np.array(gone))
            plain = {i: q for i, q in plain.items() if i not in gone}
        elif kind == "compact":
            table.compact()
            assert len(table.rows().ids) == len(plain)
        elif kind == "save":
            saved, table = table.save(), QueryTable(PARAMS)
            table.load(saved, next_id)
        if rnd.random() < 0.5:
            check(table, plain, f"seed {seed}")
    check(table, plain, f"seed {seed}")


def table_of(n: int) -> QueryTable:
    table = QueryTable(PARAMS)
    table.add(pa.array([f"q{i}" for i in range(n)]), [pa.array(range(n)), pa.nulls(n, pa.string())], 3)
    return table


def test_a_view_stays_as_it_is_while_queries_are_added_and_removed() -> None:
    table = table_of(3)
    view = table.rows()
    before = listed(view)
    table.add_one("new", (1, "x"), 9)
    table.rows()
    table.drop(np.array([0]))
    table.compact()
    assert listed(view) == before
    assert list(listed(table.rows())) == [1, 2, 3]


def test_a_view_shows_what_was_there_when_it_was_made() -> None:
    table = table_of(3)
    view = table.rows()
    table.drop(np.array([1]))
    later = table.rows()
    table.drop(np.array([0]))
    table.add_one("x", (1, "x"), 9)
    assert (list(listed(view)), list(listed(later)), list(listed(table.rows()))) == ([0, 1, 2], [0, 2], [2, 3])
    assert view.version == later.version


def test_the_version_moves_when_rows_do() -> None:
    table = table_of(3)
    versions = [table.rows().version]
    table.add_one("x", (1, "x"), 9)
    versions.append(table.rows().version)
    table.compact()
    versions.append(table.rows().version)
    assert len(set(versions)) == 3


def test_only_leaves_the_queries_alive_that_are_named_and_still_there() -> None:
    table = table_of(5)
    table.drop(np.array([2]))
    assert list(listed(table.rows().only(np.array([1, 2, 4])))) == [1, 4]
    assert list(listed(table.rows())) == [0, 1, 3, 4]


def test_an_id_is_never_used_again() -> None:
    table = table_of(4)
    table.drop(np.array([2, 3]))
    table.compact()
    assert table.add_one("x", (1, "x"), 9) == 4
    saved, again = table.save(), QueryTable(PARAMS)
    again.load(saved, table.next_id)
    assert again.add_one("y", (1, "x"), 9) == 5


def test_the_table_is_crowded_while_most_of_many_rows_are_of_dropped_queries() -> None:
    table = table_of(3000)
    assert not table.crowded
    table.drop(np.arange(2900))
    assert table.crowded
    table.compact()
    assert not table.crowded
    assert list(listed(table.rows())) == list(range(2900, 3000))


def test_an_empty_table_has_typed_columns_and_is_saved_and_loaded() -> None:
    table, again = QueryTable(PARAMS), QueryTable(PARAMS)
    assert [p.type for p in table.rows().params] == [f.type for f in PARAMS]
    again.load(table.save(), 0)
    check(again, {})
    assert again.add_one("x", (1, "x"), 9) == 0


def test_a_family_without_parameters_holds_queries_too() -> None:
    table = QueryTable(())
    table.add_one("a", (), 1)
    table.add(pa.array(["b"]), [], 2)
    assert listed(table.rows()) == {0: ("a", (), 1), 1: ("b", (), 2)}
    assert table.nbytes > 0
