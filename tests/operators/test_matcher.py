"""Matching against evaluating the condition on every pair of a change and a query that stands and sees it."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline import types as t
from eddyline.arrays import Ints
from eddyline.engine.running_family import arrived
from eddyline.index.filters import domains, grouped_filter
from eddyline.index.runtime import parallel
from eddyline.operators import matcher as module
from eddyline.operators.base import Step
from eddyline.operators.evaluate import Functions, holds
from eddyline.operators.matcher import Matcher, Matching, paired
from eddyline.operators.room import Room
from eddyline.sql.bound import Expr, Field, SelectBlock
from eddyline.state.delta import MIN, Delta
from eddyline.state.query_table import QueryTable
from tests.nightly import TIMES
from tests.plan.running import ROW, bind

PARAMS = (Field("p", t.INT), Field("q", t.DOUBLE), Field("k", t.STRING))
TYPES = (*(f.type for f in ROW), t.TIMESTAMP)
CONDITIONS = {
    "ranges": "a > :p AND c <= :q",
    "alternatives": "(a = :p OR n = :k) AND c <> :q",
    "partly": "n LIKE :k AND c > :q",
    "no range": "a + :p > 2 AND c < :q",
    "none": "TRUE",
}
Pairs = list[tuple[int, int]]


def condition_of(name: str) -> Expr | None:
    query = bind(f"CREATE QUERY FAMILY f (p INT, q DOUBLE, k STRING) AS SELECT a FROM s WHERE {CONDITIONS[name]}").query
    assert isinstance(query, SelectBlock)
    return query.where


def add(rnd: Random, table: QueryTable, many: int, since: int) -> None:
    values = [
        (rnd.choice([None, *range(6)]), rnd.choice([None, 0.0, 0.5, 2.0]), rnd.choice(["x", "y%", "_", None]))
        for _ in range(many)
    ]
    columns = [pa.array([v[i] for v in values], f.type) for i, f in enumerate(PARAMS)]
    table.add(pa.array([f"q{table.next_id + i}" for i in range(many)], pa.string()), columns, since)


def drop(rnd: Random, table: QueryTable, share: float) -> None:
    rows = table.rows()
    ids = rows.ids_at(rows.live())
    table.drop(ids[np.array([rnd.random() < share for _ in ids], np.bool_)])


def changes(rnd: Random, many: int, start: int) -> Delta:
    columns = [
        pa.array([rnd.choice([None, *range(6)]) for _ in range(many)], t.INT),
        pa.array([rnd.randint(0, 3) for _ in range(many)], t.BIGINT),
        pa.array([rnd.choice([None, 0.0, 0.5, 2.0]) for _ in range(many)], t.DOUBLE),
        pa.array([rnd.choice(["x", "y", "yes", "", None]) for _ in range(many)], t.STRING),
        pa.array([0] * many, t.TIMESTAMP),
    ]
    return arrived(columns, np.zeros(many, np.int64), start)


def step_of(table: QueryTable, threads: int = 1) -> Step:
    return Step("arrivals", MIN, MIN, table.rows(), Functions({}, {}), threads=threads)


def plainly(condition: Expr | None, step: Step, delta: Delta) -> Pairs:
    """(change, position) in order."""
    queries = step.queries
    change = np.repeat(np.arange(len(delta)), len(queries))
    position = np.tile(np.arange(len(queries)), len(delta))
    seen = queries.alive[position] & (delta.first[change] >= queries.since_at(position))
    change, position = change[seen], position[seen]
    if condition is not None:
        rows = change if delta.rows is None else delta.rows[change]
        columns = [c.take(pa.array(rows)) for c in delta.columns]
        kept = holds(condition, columns, queries.all_params_at(position), len(change))
        change, position = change[kept], position[kept]
    return as_pairs((change, position))


def as_pairs(found: tuple[Ints, Ints]) -> Pairs:
    return list(zip(found[0].tolist(), found[1].tolist(), strict=True))


def found_by(matching: Matching) -> Pairs:
    """Pairs; the sets they are made of cover all changes, and count the same."""
    sets = matching.sets()
    found = as_pairs(paired(sets, Room()))
    covered = [row for p in sets for row in range(p.start, p.start + p.rows)]
    assert covered == list(range(len(matching.delta))), f"{len(matching.step.queries)} queries"
    counts = [n for p in sets for n in p.counts.tolist()]
    assert counts == np.bincount([c for c, _ in found], minlength=len(matching.delta)).tolist()
    return found


def small(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Few queries and rows as if they were many."""
    if seed % 2:
        for name, value in {"BLOCK_STEP": 1e9, "SMALLEST_TREE": 2}.items():
            monkeypatch.setattr(grouped_filter, name, value)
    monkeypatch.setattr(domains, "MOST_CUTS", 65_533 if seed % 3 else 3)
    monkeypatch.setattr(parallel, "SMALLEST", 4)
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", 5 if seed % 3 == 1 else 1 << 20)


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("seed", range(6 * TIMES))
def test_pairs_and_counts_are_those_of_plain_evaluation(monkeypatch: pytest.MonkeyPatch, name: str, seed: int) -> None:
    small(monkeypatch, seed)
    rnd = Random(f"{name} {seed}")
    condition, table, start = condition_of(name), QueryTable(PARAMS), 0
    matcher = Matcher(condition, (), TYPES)
    for turn in range(6):
        add(rnd, table, rnd.choice([0, 1, 4, 40]), start + rnd.choice([0, 0, 3]))  # some see only later rows
        drop(rnd, table, rnd.choice([0.0, 0.3, 0.9]))
        if rnd.random() < 0.2:
            table.compact()
        delta = changes(rnd, rnd.choice([0, 1, 30]), start)
        if rnd.random() < 0.3 and len(delta):
            delta = delta.take(
                np.array([rnd.randrange(len(delta)) for _ in range(12)])
            )  # rows in another order, or twice
        start += 30
        matching = matcher.prepare(step_of(table, rnd.choice([1, 3])), delta)
        wanted = plainly(condition, matching.step, delta)
        note = f"seed {seed}, turn {turn}"
        assert found_by(matching) == wanted, note
        assert matching.count() == len(wanted), note
        found = matcher.match(matching.step, delta)
        ids = matching.step.queries.ids_at(np.array([p for _, p in wanted], np.int64))
        assert len(found) == len(wanted) and (found.query is None or found.query.tolist() == ids.tolist()), note


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("seed", range(4 * TIMES))
def test_what_was_prepared_shows_the_queries_of_that_moment(
    monkeypatch: pytest.MonkeyPatch, name: str, seed: int
) -> None:
    """Asked for only after queries have gone and come, and dropped rows were cleared away."""
    small(monkeypatch, seed)
    rnd = Random(f"later {name} {seed}")
    condition, table = condition_of(name), QueryTable(PARAMS)
    matcher = Matcher(condition, (), TYPES)
    kept = []
    for turn in range(8):
        add(rnd, table, rnd.choice([1, 30]), 0)
        matching = matcher.prepare(step_of(table), changes(rnd, 5, 10 * turn))
        kept.append((matching, plainly(condition, matching.step, matching.delta)))
        drop(rnd, table, rnd.choice([0.0, 0.5, 1.0]))
        if turn % 3 == 2:
            table.compact()
    for turn, (matching, wanted) in enumerate(kept):
        assert matching.count() == len(wanted), f"seed {seed}, turn {turn}"
        assert found_by(matching) == wanted, f"seed {seed}, turn {turn}"


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("threads", [2, 5])
def test_portions_in_several_threads_find_what_one_does(name: str, threads: int) -> None:
    rnd = Random(f"{name} {threads}")
    table = QueryTable(PARAMS)
    add(rnd, table, 20, 0)
    delta = changes(rnd, 3000, 0)
    matcher = Matcher(condition_of(name), (), TYPES)
    one, several = (matcher.prepare(step_of(table, n), delta) for n in (1, threads))
    wanted = plainly(condition_of(name), one.step, delta)
    assert found_by(one) == found_by(several) == wanted
    assert one.count() == several.count() == len(wanted)


@pytest.mark.parametrize("name", CONDITIONS)
def test_changes_that_have_a_query_are_kept_where_it_stands_and_its_condition_holds(name: str) -> None:
    rnd = Random(name)
    table = QueryTable(PARAMS)
    add(rnd, table, 30, 4)
    drop(rnd, table, 0.3)
    delta = changes(rnd, 50, 0)
    matcher = Matcher(condition_of(name), (), TYPES)
    step = step_of(table)
    owners = np.array([rnd.randrange(30) for _ in range(50)])
    attached = Delta(delta.columns, None, delta.ts, delta.exp, delta.sign, delta.first, delta.last, owners)
    found = matcher.filter(step, attached)
    wanted = [c for c, p in plainly(condition_of(name), step, delta) if owners[c] == p]
    assert found.last.tolist() == wanted and found.query is not None and found.query.tolist() == owners[wanted].tolist()


@pytest.mark.parametrize("rows", [0, 1, 3, 4, 5, 17, 100])
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_portions_cover_all_rows_in_their_order(monkeypatch: pytest.MonkeyPatch, rows: int, threads: int) -> None:
    monkeypatch.setattr(parallel, "SMALLEST", 4)
    monkeypatch.setattr(parallel, "LARGEST", 16)
    found = parallel.in_portions(rows, threads, lambda start, stop: list(range(start, stop)))
    assert [x for part in found for x in part] == list(range(rows))
    assert all(0 < len(part) <= 16 for part in found)
