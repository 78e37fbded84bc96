"""Plans that can be rewritten: the CPU time of both forms, and the ratio that the cost model estimates.

    below: (A − B) ⋈ C              above: (A ⋈ C) − (B ⋈ C)
    above: δ(π(A ⋈ C))              below: δ(π(A)) ⋈ δ(π(C))

Windows have 10 seconds, batches one second. Both forms get each batch in turn, and their answers are compared.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks._report import Figure, report
from eddyline.plan import rules
from eddyline.plan.build import build
from eddyline.plan.costs import estimate
from eddyline.plan.rules import Rule, apply
from eddyline.plan.rules.pull_up_negation import pull_up_negation
from eddyline.plan.rules.push_down_duplicate_elimination import push_down_duplicate_elimination
from eddyline.plan.statistics import Statistics

SECONDS, BATCHES, WARM = 10, 18, 11
WINDOW = f"[RANGE {SECONDS} SECONDS]"
NEGATION = (
    f"SELECT d.a FROM (SELECT a FROM link1 {WINDOW} EXCEPT ALL SELECT a FROM link2 {WINDOW}) AS d, link3 {WINDOW} AS z "
    "WHERE d.a = z.a AND z.n = 0"
)
SHARED = NEGATION.replace("d.a FROM", "d.a, :tag AS tag FROM", 1)  # by queries that differ above the join alone
DISTINCT = f"SELECT DISTINCT x.a, z.n FROM link1 {WINDOW} AS x, link3 {WINDOW} AS z WHERE x.a = z.a"


@contextmanager
def planned(chosen: tuple[Rule, ...]) -> Iterator[None]:
    before = rules.CHOSEN, rules.MARGIN
    try:
        rules.CHOSEN, rules.MARGIN = chosen, 0.0
        yield
    finally:
        rules.CHOSEN, rules.MARGIN = before


def connection() -> eddyline.Connection:
    db = eddyline.connect()
    for i in (1, 2, 3):
        db.execute(f"CREATE STREAM link{i} (a INT, n INT, ts TIMESTAMP) WATERMARK ts")
    return db


@dataclass(frozen=True)
class Point:
    name: str
    sql: str
    rule: Rule
    rate: int  # tuples of each stream in a second
    values: int  # of the join key
    kinds: int  # of the selected column
    queries: int = 1

    def __str__(self) -> str:
        selected = f", 1 of {self.kinds:,} selected" if self.rule is pull_up_negation else ""
        return f"{self.name}, {self.rate:,} tuples, {self.values:,} values{selected}, {self.queries} queries"

    def registered(self, chosen: tuple[Rule, ...]) -> eddyline.Connection:
        db = connection()
        with planned(chosen):
            if self.queries == 1:
                db.execute(f"CREATE CONTINUOUS QUERY q0 AS {self.sql}")
            else:
                db.execute(f"CREATE QUERY FAMILY f (tag INT) AS {self.sql}")
                tags = pa.array(range(self.queries), pa.int32())
                db.register("f", pa.table({"query": [f"q{i}" for i in range(self.queries)], "tag": tags}))
        return db

    def batch(self, rng: np.random.Generator, second: int) -> dict[str, pa.Table]:
        given = {}
        for i in (1, 2, 3):
            ts = second * 1_000_000 + np.sort(rng.integers(0, 1_000_000, self.rate))
            columns = {"a": rng.integers(0, self.values, self.rate), "n": rng.integers(0, self.kinds, self.rate)}
            of = {name: pa.array(column, pa.int32()) for name, column in columns.items()}
            given[f"link{i}"] = pa.table(of | {"ts": pa.array(ts, pa.timestamp("us"))})
        return given

    def measured(self) -> tuple[float, float]:
        """CPU seconds a batch of the first and the second form, once windows are full."""
        rng = np.random.default_rng(7)
        forms = [self.registered(chosen) for chosen in ((), (self.rule,))]
        took = [0.0, 0.0]
        for second in range(BATCHES):
            given = self.batch(rng, second)
            for n, db in enumerate(forms):
                began = time.process_time()
                db.push(given).count()
                took[n] += (time.process_time() - began) * (second >= WARM)
        answers = [Counter(tuple(row.values()) for row in db.snapshot("q0").to_pylist()) for db in forms]
        assert answers[0] == answers[1], "both forms have the same answer"
        return took[0] / (BATCHES - WARM), took[1] / (BATCHES - WARM)

    def estimated(self) -> float:
        """How many times the cost of the first form the second is estimated to have."""
        links = ("link1", "link2", "link3")
        distinct = {(link, "a"): float(self.values) for link in links}
        distinct |= {(link, "n"): float(self.kinds) for link in links}
        known = Statistics(dict.fromkeys(links, float(self.rate)), {}, distinct, float(self.queries))
        db = connection()
        with planned(()):
            db.execute(f"CREATE QUERY FAMILY f (tag INT) AS {self.sql}")
        first = build(db.registry.named("f").bound.query)
        return estimate(apply(self.rule, first), known).cost / estimate(first, known).cost


NEGATIONS = [
    (1_000, 10_000, 100),
    (1_000, 1_000, 1),
    (20_000, 200_000, 100),
    (20_000, 200_000, 10),
    (20_000, 200_000, 1),
]
POINTS = [
    *(Point("negation above / below the join", NEGATION, pull_up_negation, *given) for given in NEGATIONS),
    Point("negation above / below the join", SHARED, pull_up_negation, 1_000, 10_000, 10, 64),
    *(
        Point("DISTINCT below / above the join", DISTINCT, push_down_duplicate_elimination, 1_000, values, 10)
        for values in (300, 1_000, 10_000, 100_000)
    ),
]


def main() -> bool:
    figures = []
    for point in POINTS:
        first, second = point.measured()
        figures.append(Figure(f"{point}: CPU time", second / first, "x"))
        figures.append(Figure(f"{point}: estimated cost", point.estimated(), "x"))
        print(f"{point}: {first * 1e3:.1f} and {second * 1e3:.1f} ms a batch", flush=True)
    return report("rewrites", figures)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
