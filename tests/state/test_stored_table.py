"""Stored tables: rows are found by key while rows are inserted and deleted, as in a plain list."""

from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline import types as t
from eddyline.state.store.stored_table import StoredTable
from tests.nightly import TIMES


def columns_of(rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    return [pa.array([r[i] for r in rows], x) for i, x in enumerate((t.INT, t.STRING))]


def matching(table: StoredTable, column: int, value: Any) -> list[int]:
    """The positions of the rows with a value, found by the index."""
    type_ = (t.INT, t.STRING)[column]
    index = table.index(column, [type_], lambda rows: [rows.columns[column]])
    wanted = index.wanted([pa.array([value], type_)], 1)
    return index.matches(wanted, 0, len(table), index.counts(wanted, 0, len(table)))[1].tolist()


def test_rows_are_found_by_key_after_every_change() -> None:
    rnd, found = Random("tables"), 0
    for _ in range(40 * TIMES):
        rows: list[tuple[Any, ...]] = []
        table = StoredTable(columns_of(rows))
        for _ in range(12):
            kept = [i for i in range(len(rows)) if rnd.random() < rnd.choice([0.2, 0.9, 1.0])]
            new = [
                (rnd.choice([None, 1, 2, 3]), rnd.choice([None, "a", "b"])) for _ in range(rnd.choice([0, 1, 5, 30]))
            ]
            table.change(
                np.array(kept, np.int64) if len(kept) < len(rows) else None,
                columns_of(rows := [rows[i] for i in kept] + new),
            )
            for column, value in ((0, 1), (0, 4), (1, "a")):
                if rnd.random() < 0.7:  # so that indexes lag behind by different numbers of rows
                    assert matching(table, column, value) == [i for i, r in enumerate(rows) if r[column] == value]
                    found += len(rows)
            segments = table.segments()
            assert [s.start for s in segments] == [0, *(s.stop for s in segments[:-1])][: len(segments)]
            assert sum(len(s) for s in segments) == len(rows)
            assert all(len(a) >= 2 * len(b) for a, b in pairwise(segments))
    assert found > 1000


def test_a_view_of_some_rows_is_not_changed_by_a_later_change() -> None:
    table = StoredTable(columns_of([(1, "a"), (2, "b")]))
    before = table.rows(0, 2)
    table.change(np.array([1]), columns_of([(2, "b"), (3, "c")]))
    assert before.columns[0].to_pylist() == [1, 2]
    assert table.rows(0, 2).columns[0].to_pylist() == [2, 3]


def test_a_saved_table_and_a_loaded_one_are_divided_alike_afterwards() -> None:
    rnd = Random("divided")
    for _ in range(100 * TIMES):
        rows = [(i, "a") for i in range(rnd.randint(0, 5))]
        saved = StoredTable(columns_of(rows))
        for _ in range(rnd.randint(0, 3)):
            rows += [(len(rows), "b")] * rnd.randint(1, 4)
            saved.change(None, columns_of(rows))
            if rnd.random() < 0.5:
                saved.segments()
        saved.divide_anew()
        loaded = StoredTable(columns_of([]))
        loaded.load(saved.columns)
        for _ in range(3):
            kept = None if rnd.random() < 0.7 or not rows else np.arange(len(rows) - 1)
            rows = rows[: None if kept is None else -1] + [(len(rows), "c")] * rnd.randint(0, 4)
            ends = []
            read = rnd.random() < 0.5
            for table in (saved, loaded):
                table.change(kept, columns_of(rows))
                ends.append([s.stop for s in table.segments()] if read else [])
            assert ends[0] == ends[1]
