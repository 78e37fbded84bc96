"""Sets of queries by row against the same told as a table, and against plain evaluation for what is a filter."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from eddyline.delivery.changes import Changes
from eddyline.index.filters import grouped_filter
from eddyline.index.runtime import garbage, parallel
from eddyline.local.connection import Connection
from tests.local.common import at, row, world
from tests.nightly import TIMES

FAMILIES = {
    "filter_r": "SELECT a, b FROM r WHERE a > :p AND (b < :q OR n = :k)",
    "filter_s": "SELECT n FROM s WHERE a + b > :p OR n LIKE :k",
    "every": "SELECT a FROM s",
    "window": "SELECT a FROM s [RANGE 2 SECONDS] WHERE a >= :p",
    "called": "SELECT a FROM s WHERE near(a, :p)",
    "join": "SELECT r.b, s.b FROM r [RANGE 3 SECONDS], s [RANGE 2 SECONDS] WHERE r.a = s.a AND r.b > :p",
    "twice": "SELECT x.b, y.b FROM s [RANGE 1 SECOND] x, s [RANGE 2 SECONDS] y WHERE x.a = y.a AND y.b < :q",
    "group": "SELECT a, COUNT(*) AS k FROM s [RANGE 3 SECONDS] WHERE a < :q GROUP BY a",
    "union": "SELECT a FROM s WHERE a > :p UNION ALL SELECT a FROM r WHERE b > :q",
}
Triples = list[tuple[str, int, str]]


class World:
    """All families over two streams, and a random stream of what may happen to them."""

    def __init__(self, seed: str, **options: Any) -> None:
        self.rnd, self.seed = Random(seed), f"seed {seed}"
        self.db: Connection = world(**options)
        self.db.function("near", lambda x, y: abs(x - y) <= 1, ["INT", "INT"], "BOOLEAN")
        for name, text in FAMILIES.items():
            self.db.execute(f"CREATE QUERY FAMILY {name} (p INT, q INT, k STRING) AS {text}")
        self.standing: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in FAMILIES}
        self.made = 0
        self.clock = 0.0

    def register(self, family: str, many: int) -> None:
        rnd = self.rnd
        values = [
            {
                "p": rnd.choice([None, 0, 2, 4]),
                "q": rnd.choice([None, 1, 3, 5]),
                "k": rnd.choice([None, "x", "y%", "_"]),
            }
            for _ in range(many)
        ]
        new = {f"q{self.made + i}": v for i, v in enumerate(values)}
        self.made += many
        self.db.register(family, [{"query": n} | v for n, v in new.items()])
        self.standing[family] |= new

    def drop(self, family: str, share: float) -> None:
        gone = [n for n in self.standing[family] if self.rnd.random() < share]
        self.db.drop(family, gone)
        for n in gone:
            del self.standing[family][n]

    def rows(self, many: int, late: float) -> list[dict[str, Any]]:
        rnd = self.rnd
        return [
            row(
                self.clock - (30 if rnd.random() < late else rnd.choice([0.0, 0.2])),
                rnd.choice([None, *range(6)]),
                rnd.choice([None, *range(6)]),
                n=rnd.choice(["x", "y", "yy", ""]),
            )
            for _ in range(many)
        ]

    def push(self, *streams: str, many: tuple[int, ...] = (0, 1, 12), late: float = 0.2) -> Changes:
        self.clock += 0.5
        return self.db.push({s: self.rows(self.rnd.choice(many), late) for s in streams})


def from_sets(changes: Changes, family: str) -> Triples:
    """(stream, row, query) by the sets, which must be sound in themselves."""
    found: Triples = []
    for sets in changes.sets(family):
        assert len(sets) == len(sets.rows) == len(sets.counts)
        places = []
        for (place, members), count in zip(sets, sets.counts.tolist(), strict=True):
            assert members.tolist() == sorted(set(members.tolist())) and len(members) == count
            places.append(place)
            found += [(sets.stream, place, name) for name in sets.names(members)]
        assert places == sets.rows.tolist()
        assert sets.nbytes >= 0 and all(n >= 0 for n in sets.kinds().values())
        assert repr(sets).startswith(f"<QuerySets: {sum(sets.counts.tolist())} queries of {len(places)} rows, ")
    assert len(set(found)) == len(found), "a query is there twice"
    return found


def from_table(changes: Changes, family: str) -> Triples:
    return [(x["stream"], x["row"], q) for x in changes.affected(family).to_pylist() for q in x["queries"]]


def agree(changes: Changes, note: str) -> None:
    for family in FAMILIES:
        by_sets = from_sets(changes, family)
        assert sorted(by_sets) == sorted(from_table(changes, family)), f"{note}, {family}"
        assert changes.count_affected(family) == len(by_sets), f"{note}, {family}"


def small(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """A few rows as several portions, a few queries as trees, and tables cleared away at once."""
    monkeypatch.setattr(parallel, "SMALLEST", 2)
    monkeypatch.setattr(parallel, "LARGEST", 5)
    monkeypatch.setattr(garbage, "SPARE", 0 if seed % 3 else 1000)
    if seed % 2:
        monkeypatch.setattr(grouped_filter, "BLOCK_STEP", 1e9)
        monkeypatch.setattr(grouped_filter, "SMALLEST_TREE", 1)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("seed", range(6 * TIMES))
def test_sets_have_the_queries_that_the_table_of_affected_rows_has(
    monkeypatch: pytest.MonkeyPatch, seed: int, threads: int
) -> None:
    """Of one stream at a time; queries come and go, and some results are asked for only then."""
    small(monkeypatch, seed)
    w, kept = World(f"{seed}", threads=threads), []
    for turn in range(12):
        for family in FAMILIES:
            w.register(family, w.rnd.choice([1, 6]) if turn == 0 else w.rnd.choice([0, 0, 5]))
        changes = w.push(w.rnd.choice("rs"))
        if w.rnd.random() < 0.5:
            agree(changes, f"{w.seed}, turn {turn}")
        else:
            kept.append((changes, turn))
        w.drop(w.rnd.choice(list(FAMILIES)), w.rnd.choice([0.2, 0.6]))
    for changes, turn in kept:
        agree(changes, f"{w.seed}, turn {turn}, asked later")


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("seed", range(6 * TIMES))
def test_sets_of_several_streams_in_one_push_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, seed: int, threads: int
) -> None:
    small(monkeypatch, seed)
    w = World(f"several {seed}", threads=threads)
    for family in FAMILIES:
        w.register(family, 6)
    for turn in range(8):
        changes = w.push(*w.rnd.choice([("r", "s"), ("s", "r")]), many=(1, 12))
        agree(changes, f"{w.seed}, turn {turn}")
        w.drop(w.rnd.choice(list(FAMILIES)), 0.1)


@pytest.mark.parametrize("order", [("r", "s"), ("s", "r")])
def test_a_stream_without_rows_in_a_push_has_no_sets_of_another(order: tuple[str, str]) -> None:
    """Or with none but late ones."""
    w = World("without")
    for family in FAMILIES:
        w.register(family, 3)
    w.push("r", "s", many=(5,), late=0.0)
    for rows in ([], [row(-60)]):
        given = {"r": rows, "s": [row(1), row(1, a=5)]}
        agree(w.db.push({s: given[s] for s in order}), f"{len(rows)} rows")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_without_queries_has_no_members_in_any_row(family: str) -> None:
    w = World("no queries")
    for name in FAMILIES:
        w.register(name, 2 if name != family else 0)
    agree(w.push("r", "s", many=(4,)), "before any came")
    w.register(family, 2)
    w.drop(family, 1.0)
    agree(w.push("r", "s", many=(4,)), "after all have gone")


@pytest.mark.parametrize("threads", [1, 3])
def test_sets_of_a_filter_are_those_of_plain_evaluation(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Rows are known by their places in the push, also where others before them came too late."""
    small(monkeypatch, 1)
    w = World(f"plainly {threads}", threads=threads, delay=5)
    w.register("filter_r", 60)
    for turn in range(6):
        w.drop("filter_r", 0.1)
        w.clock += 10
        rows = w.rows(30, late=0.3 if turn else 0.0)
        changes = w.db.push("r", rows)
        wanted = [
            ("r", i, n)
            for i, x in enumerate(rows)
            if x["ts"] > at(w.clock - 5)
            for n, v in w.standing["filter_r"].items()
            if above(x["a"], v["p"]) and (above(v["q"], x["b"]) or x["n"] == v["k"])
        ]
        assert sorted(from_sets(changes, "filter_r")) == sorted(wanted), f"{w.seed}, turn {turn}"


def above(x: int | None, y: int | None) -> bool:
    return x is not None and y is not None and x > y


def test_rows_of_very_many_queries_take_little_room() -> None:
    """10,000 queries accept every row: runs, not lists."""
    w = World("room")
    w.db.register("filter_r", [{"query": f"w{i}", "p": -1, "q": 100, "k": "x"} for i in range(10_000)])
    changes = w.db.push("r", [row(1, a=i % 5) for i in range(100)])
    (sets,) = changes.sets("filter_r")
    assert sets.counts.tolist() == [10_000] * 100
    assert sets.nbytes < 100_000 and sets.kinds()["runs"] == 300
    place, members = next(iter(sets))
    assert place == 0 and sets.names(members) == [f"w{i}" for i in range(10_000)]
