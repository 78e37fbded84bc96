"""Runs of numbers, columns in chunks and views of the query table, against plain lists."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline.sql.bound import Field
from eddyline.state.query_table import GROWTH, QueryRows, QueryTable, Steps, gathered

PARAMS = (Field("lo", pa.int64()), Field("name", pa.string()))


def grown(rnd: Random, table: QueryTable, many: int, since: int) -> None:
    values = [rnd.choice([None, table.next_id + i]) for i in range(many)]
    names = pa.array([f"q{table.next_id + i}" for i in range(many)], pa.string())
    table.add(
        names,
        [pa.array(values, pa.int64()), pa.array([None if v is None else str(v) for v in values], pa.string())],
        since,
    )


@pytest.mark.parametrize("slope", [0, 1])
@pytest.mark.parametrize("seed", range(8))
def test_steps_have_the_numbers_of_a_list(slope: int, seed: int) -> None:
    rnd = Random(f"{slope} {seed}")
    steps, plain = Steps(np.empty(0, np.int64), np.empty(0, np.int64), slope), list[int]()
    for _ in range(30):
        first = plain[-1] + slope if plain and rnd.random() < 0.5 else (plain[-1] if plain else 0) + rnd.randint(1, 5)
        new = [first]
        for _ in range(rnd.choice([0, 0, 3, 10])):
            new.append(new[-1] + (slope if rnd.random() < 0.8 else rnd.randint(1, 4)))
        steps = steps.extended(len(plain), np.array(new, np.int64))
        steps = steps.extended(len(plain) + len(new), np.empty(0, np.int64))
        plain += new
        some = np.array([rnd.randrange(len(plain)) for _ in range(20)])
        assert steps.at(np.arange(len(plain))).tolist() == plain, f"seed {seed}"
        assert steps.at(some).tolist() == [plain[i] for i in some.tolist()], f"seed {seed}"
        runs = 1 + sum(b - a != slope for a, b in pairwise(plain))
        assert len(steps.start) == runs, f"seed {seed}: numbers that go on make no new run"


@pytest.mark.parametrize("seed", range(10))
def test_values_gathered_from_chunks_are_those_of_one_column(seed: int) -> None:
    rnd = Random(seed)
    lengths = [rnd.choice([0, 1, 2, 9]) for _ in range(rnd.randint(1, 5))]
    chunks = tuple(pa.array([rnd.choice([None, "", "a", "é"]) for _ in range(n)], pa.string()) for n in lengths)
    whole = [x for c in chunks for x in c.to_pylist()]
    for many in (0, 1, 30):
        positions = [rnd.randrange(len(whole)) for _ in range(many)] if whole else []
        found = gathered(chunks, np.array(positions, np.int64))
        assert found.to_pylist() == [whole[p] for p in positions] and found.type == pa.string(), f"seed {seed}"


def test_a_query_that_comes_copies_few_others() -> None:
    rnd, table = Random(0), QueryTable(PARAMS)
    grown(rnd, table, 10_000, 0)
    first = table.rows().columns[0][0]
    for _ in range(100):
        grown(rnd, table, 1, 0)
        chunks = table.rows().columns[0]
        assert chunks[0] is first and sum(map(len, chunks)) == len(table)
        assert all(len(a) >= GROWTH * len(b) for a, b in pairwise(chunks))


def plain_place(rows: QueryRows, wanted: int) -> int:
    """How many ids are below: where it stands, or would."""
    return sum(i < wanted for i in rows.ids.tolist())


@pytest.mark.parametrize("seed", range(12))
def test_a_position_is_how_many_ids_are_below(seed: int) -> None:
    """Also for an id that is not there any more, or not yet."""
    rnd, table = Random(seed), QueryTable(PARAMS)
    for turn in range(6):
        grown(rnd, table, rnd.choice([1, 5]), turn)
        live = table.rows().ids_at(table.rows().live()).tolist()
        table.drop(np.array(rnd.sample(live, rnd.randint(0, len(live) - 1)), np.int64))
        table.compact()
        rows = table.rows()
        ids = np.arange(table.next_id + 3)
        assert rows.positions(ids).tolist() == [plain_place(rows, i) for i in ids.tolist()], f"seed {seed}, turn {turn}"


def test_the_position_of_an_id_below_all_others_is_the_first() -> None:
    table = QueryTable(PARAMS)
    grown(Random(0), table, 3, 0)
    table.drop(np.array([0]))
    table.compact()
    assert table.rows().ids.tolist() == [1, 2]
    assert table.rows().positions(np.array([0, 1, 2, 3, 9])).tolist() == [0, 0, 1, 2, 2]


def test_an_id_that_is_gone_is_not_found_where_it_would_stand() -> None:
    """So that whoever looks at the id there can tell; the Spark host's quarantine does."""
    table = QueryTable(PARAMS)
    grown(Random(0), table, 6, 0)
    for gone in ([0], [4], [1]):
        table.drop(np.array(gone))
        table.compact()
        rows = table.rows()
        place = np.minimum(rows.positions(np.array(gone)), len(rows) - 1)
        assert rows.ids_at(place).tolist() != gone


def test_an_empty_table_has_all_its_positions_at_zero() -> None:
    rows = QueryTable(PARAMS).rows()
    assert rows.positions(np.array([0, 5])).tolist() == [0, 0]
    assert (len(rows), rows.ids.tolist(), rows.latest, rows.names.to_pylist()) == (0, [], 0, [])
    assert rows.ids_at(np.empty(0, np.int64)).tolist() == []


@pytest.mark.parametrize("seed", range(8))
def test_no_view_ever_changes(seed: int) -> None:
    rnd, table = Random(seed), QueryTable(PARAMS)
    kept: list[tuple[QueryRows, tuple[list[object], ...]]] = []

    def shown(rows: QueryRows) -> tuple[list[object], ...]:
        live = rows.live()
        values = [p.to_pylist() for p in rows.all_params_at(live)]
        return (
            rows.alive.tolist(),
            rows.ids.tolist(),
            rows.names_at(live).to_pylist(),
            rows.since_at(live).tolist(),
            *values,
        )

    for turn in range(60):
        match rnd.choice(["add", "add one", "drop", "drop", "compact", "look"]):
            case "add":
                grown(rnd, table, rnd.choice([0, 1, 20]), turn)
            case "add one":
                table.add_one(f"one{turn}", (turn, None), turn)
            case "drop" if len(table):
                rows = table.rows() if rnd.random() < 0.5 else None
                live = (rows or table.rows()).ids_at((rows or table.rows()).live()).tolist()
                table.drop(np.array(rnd.sample(live, rnd.randint(1, len(live))) if rnd.random() < 0.2 else live[:1]))
            case "compact":
                table.compact()
            case _:
                kept.append((table.rows(), shown(table.rows())))
    for view, was in kept:
        assert shown(view) == was, f"seed {seed}"


def test_the_latest_registration_is_known_without_looking_at_each() -> None:
    table = QueryTable(PARAMS)
    for since in (3, 9, 5):
        grown(Random(0), table, 2, since)
    assert table.rows().latest == 9
