"""Small families matched together against the same families matched one by one: nothing may tell the difference."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

import eddyline
from eddyline.delivery.changes import Changes
from eddyline.engine import pooling
from eddyline.index.filters import domains, grouped_filter
from eddyline.index.runtime import garbage, parallel
from tests.nightly import TIMES

BEGIN = dt.datetime(2026, 1, 1)
STREAM = "CREATE STREAM s (a INT, b BIGINT, c DOUBLE, n STRING, at TIMESTAMP, ts TIMESTAMP) WATERMARK ts"
CONDITIONS = [
    "a > {i}", "a > {i} AND b <= {i}", "b = {i}", "c <> {f}", "n = {t}", "n LIKE {p}", "n NOT LIKE {p}", "a IS NULL",
    "a IS NOT NULL AND b < {i}", "a IS NULL OR b > {i}", "a + b > {i}", "a + {i} > b", "a < b", "c * 2 < {f}",
    "NOT (a > {i} OR c < {f})", "a BETWEEN {i} AND {i}", "a NOT BETWEEN {i} AND {i}", "a IN ({i}, {i}, {i})",
    "b NOT IN ({i}, {i})", "(a = {i} OR n = {t}) AND c <> {f}", "(a = {i} OR b = {i}) AND (a = {i} OR c < {f})",
    "a <=> {i}", "n > {t} AND a + b = {i}", "at > TIMESTAMP '2026-01-01 00:00:0{d}'", "n IS NULL AND n = {t}",
    "(a > {i} AND b > {i}) OR (c > {f} AND n LIKE {p})", "CASE WHEN a > {i} THEN b < {i} ELSE c < {f} END", "TRUE",
]  # fmt: skip
COLUMNS = ["a", "n, b", "c + 1, a"]
DECLARED = {"wide": "a > :p AND b < :q", "odd": "a + :p > :q OR n IS NULL"}


def results_of(db: eddyline.Connection) -> dict[str, Any]:
    """The statistics of a connection without lookups, which count the work of pools and families."""
    found = db.stats()
    for part in (found, *found["streams"].values(), *found["families"].values()):
        part.pop("lookups", None)
        part.pop("pooled_lookups", None)
    return found


class Twins:
    """Two connections of which one has pools; everything that happens, happens to both."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: str, threads: int = 1, most: int = 4096) -> None:
        """`most`: queries of a family in a pool."""
        self.monkeypatch, self.rnd, self.seed, self.most = monkeypatch, Random(seed), f"seed {seed}", most
        monkeypatch.setattr(pooling, "MOST_QUERIES", most)
        self.apart, self.pooled = (eddyline.connect(threads=threads) for _ in range(2))
        self.names: list[str] = []
        self.made = self.clock = 0
        self.execute(STREAM)

    def execute(self, sql: str) -> None:
        for db in (self.apart, self.pooled):
            db.execute(sql)

    def declare(self) -> None:
        for name, condition in DECLARED.items():
            self.execute(f"CREATE QUERY FAMILY {name} (p INT, q INT) AS SELECT a, n FROM s WHERE {condition}")

    def create(self, many: int, conditions: list[str] = CONDITIONS) -> None:
        for _ in range(many):
            text = self.rnd.choice(conditions)
            values: dict[str, Callable[[], Any]] = {
                "{i}": lambda: self.rnd.randint(-1, 6),
                "{f}": lambda: self.rnd.choice([0.0, 0.5, 2.5]),
                "{t}": lambda: self.rnd.choice(["'x'", "'y'", "''"]),
                "{p}": lambda: self.rnd.choice(["'x%'", "'_'", "'%y'", "'x'"]),
                "{d}": lambda: self.rnd.randint(0, 5),
            }
            for place, value in values.items():
                while place in text:
                    text = text.replace(place, str(value()), 1)
            self.made += 1
            columns = self.rnd.choice(COLUMNS)
            self.execute(f"CREATE CONTINUOUS QUERY q{self.made} AS SELECT {columns} FROM s WHERE {text}")
            self.names.append(f"q{self.made}")

    def drop(self, share: float) -> None:
        for name in [n for n in self.names if self.rnd.random() < share]:
            self.execute(f"DROP CONTINUOUS QUERY {name}")
            self.names.remove(name)

    def register(self, family: str, many: int) -> None:
        rows = [
            {"query": f"d{self.made + i}", "p": self.rnd.choice([None, 0, 2]), "q": self.rnd.randint(0, 6)}
            for i in range(many)
        ]
        self.made += many
        for db in (self.apart, self.pooled):
            db.register(family, rows)

    def unregister(self, family: str, share: float) -> None:
        names = self.apart.registry.named(family).queries.some_names(10**6)
        gone = [n for n in names if self.rnd.random() < share]
        for db in (self.apart, self.pooled):
            db.drop(family, gone)

    def push(self, many: int) -> tuple[Changes, Changes]:
        """What the one found apart, and the other in a pool."""
        rnd = self.rnd
        self.clock += 1
        rows = [
            {
                "a": rnd.choice([None, *range(6)]),
                "b": rnd.choice([None, *range(6)]),
                "c": rnd.choice([None, 0.0, 0.5, 2.5]),
                "n": rnd.choice([None, "", "x", "y", "xy"]),
                "at": BEGIN + dt.timedelta(seconds=rnd.randint(0, 5)),
                "ts": BEGIN + dt.timedelta(seconds=self.clock - rnd.choice([0, 0, 0, 5])),  # some are late
            }
            for _ in range(many)
        ]
        found = []
        for db, fewest in ((self.apart, 10**9), (self.pooled, 1)):
            self.monkeypatch.setattr(pooling, "FEWEST_FAMILIES", fewest)
            found.append(db.push("s", rows))
        small = [r for r in self.pooled.engine.running.values() if r.pool_filter and len(r.family.queries) <= self.most]
        assert not self.apart.engine.pools and len(self.pooled.engine.pools) == min(len(small), 1), self.seed
        return found[0], found[1]

    def advance(self) -> None:
        for db in (self.apart, self.pooled):
            db.advance(BEGIN + dt.timedelta(seconds=self.clock))

    def compare(self, both: tuple[Changes, Changes], families: list[str], note: str) -> None:
        """All that can be asked, in any order: what is asked first decides what is computed."""
        ways: list[Callable[[Changes], Any]] = [
            lambda c: c.count(),
            lambda c: c.queries(),
            lambda c: [c.rows(f).to_pylist() for f in families],
            lambda c: [c.affected(f).to_pylist() for f in families],
            lambda c: [c.count_affected(f) for f in families],
            lambda c: [c.compact(f).to_pylist() for f in families],
            lambda c: [list(members(c, f)) for f in families],
        ]
        self.rnd.shuffle(ways)
        for way in ways:
            apart, pooled = (way(c) for c in both)
            assert apart == pooled, f"{self.seed}, {note}"

    def families(self) -> list[str]:
        names = [[f.name for f in db.registry] for db in (self.apart, self.pooled)]
        assert names[0] == names[1]
        return names[0]

    def compare_stats(self, note: str) -> None:
        assert results_of(self.apart) == results_of(self.pooled), f"{self.seed}, {note}"


def members(changes: Changes, family: str) -> Iterator[tuple[str, int, list[str]]]:
    """Of the rows that belong to a query: stream, place, names."""
    for sets in changes.sets(family):
        yield from ((sets.stream, place, sets.names(found)) for place, found in sets if len(found))


def small(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Few queries and rows as if they were many: trees, few codes, several portions, and tables cleared away."""
    if seed % 2:
        monkeypatch.setattr(grouped_filter, "BLOCK_STEP", 1e9)
        monkeypatch.setattr(grouped_filter, "SMALLEST_TREE", 1)
    monkeypatch.setattr(domains, "MOST_CUTS", 3 if seed % 3 == 2 else 65_533)
    monkeypatch.setattr(garbage, "SPARE", 0)
    monkeypatch.setattr(parallel, "SMALLEST", 4)


def run(twins: Twins, turns: int, conditions: list[str] = CONDITIONS) -> None:
    """Queries and families come and go between batches, of which some are looked at at once, some later, some never."""
    rnd, kept = twins.rnd, []
    for turn in range(turns):
        twins.create(rnd.choice([0, 1, 8]), conditions)
        for name in DECLARED:
            twins.register(name, rnd.choice([0, 1, 3, 9]))
        both, families = twins.push(rnd.choice([0, 1, 10])), twins.families()
        if rnd.random() < 0.5:
            twins.compare(both, families, f"turn {turn}")
        elif rnd.random() < 0.7:
            kept.append((both, families, turn))
        twins.drop(rnd.choice([0.0, 0.2, 0.8]))
        for name in DECLARED:
            twins.unregister(name, rnd.choice([0.0, 0.3, 0.6, 1.0]))
        if rnd.random() < 0.2:
            twins.advance()
        if rnd.random() < 0.3:
            twins.compare_stats(f"turn {turn}")
    for both, families, turn in kept:
        twins.compare(both, families, f"turn {turn}, asked later")
    twins.compare_stats("at the end")


@pytest.mark.parametrize("seed", range(12 * TIMES))
def test_a_pool_finds_what_families_find_one_by_one(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    small(monkeypatch, seed)
    twins = Twins(monkeypatch, f"{seed}", threads=1 + 2 * (seed % 2))
    twins.declare()
    run(twins, turns=12)


@pytest.mark.parametrize("seed", range(8 * TIMES))
def test_families_that_outgrow_a_pool_and_come_back_are_found(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    small(monkeypatch, seed)
    monkeypatch.setattr(garbage, "SPARE", 0 if seed % 2 else 1000)  # compacted at once, or never
    twins = Twins(monkeypatch, f"grown {seed}", most=6)
    twins.declare()
    run(twins, turns=20, conditions=CONDITIONS[:4])


def test_a_family_that_was_too_large_for_a_while_has_all_its_queries_in_the_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    twins = Twins(monkeypatch, "for a while", most=20)
    twins.declare()
    for grown, shrunk, other in [(10, 0.0, 1), (20, 0.0, 3), (0, 0.5, 0)]:
        twins.register("wide", grown)
        twins.unregister("wide", shrunk)
        twins.register("odd", other)  # the pool is indexed anew while the first family is not in it
        twins.compare(twins.push(20), twins.families(), f"{grown} came")


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_condition_is_found_among_the_others(monkeypatch: pytest.MonkeyPatch, condition: str) -> None:
    twins = Twins(monkeypatch, condition)
    twins.create(12)
    twins.create(4, [condition])
    twins.compare(twins.push(40), twins.families(), "first")
    twins.drop(0.5)
    twins.compare(twins.push(40), twins.families(), "half of them dropped")
    twins.compare_stats("at the end")


def test_a_pool_is_not_indexed_anew_with_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where most queries have gone, and their tables were not yet worth clearing away."""
    twins = Twins(monkeypatch, "anew")
    twins.declare()
    twins.register("wide", 30)
    twins.register("odd", 30)
    twins.push(1)
    twins.unregister("wide", 0.9)
    twins.unregister("odd", 0.9)
    twins.push(1)
    runs = twins.pooled.engine.pools["s"].runs
    twins.push(1)
    again = twins.pooled.engine.pools["s"].runs
    assert len(runs) == len(again) and all(a is b for a, b in zip(runs, again, strict=True))


@pytest.mark.parametrize("threads", [1, 3])
def test_every_row_has_a_set_also_of_a_family_it_does_not_belong_to(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr(parallel, "SMALLEST", 4)
    monkeypatch.setattr(parallel, "LARGEST", 8)
    twins = Twins(monkeypatch, f"{threads}", threads)
    twins.create(20)
    twins.create(3, ["a > 1000{i}", "a = 5 AND b = 5 AND n = 'x' AND c = 0.5"])
    apart, pooled = twins.push(50)
    for family in twins.families():
        for one, other in zip(apart.sets(family), pooled.sets(family), strict=True):
            assert len(other.counts) == len(other) == len(one), twins.seed
            assert other.counts.tolist() == one.counts.tolist(), twins.seed
            assert [(p, m.tolist()) for p, m in other] == [(p, m.tolist()) for p, m in one], twins.seed
