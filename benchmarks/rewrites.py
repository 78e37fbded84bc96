"""Both forms of a join with a negation, and of DISTINCT over a join: their times, and how the cost model compares them.

    below: (A − B) ⋈ C              above: (A ⋈ C) − (B ⋈ C)
    after: δ(π(A ⋈ C))              before: δ(π(A)) ⋈ δ(π(C))

Streams have 1,000 tuples a second, windows 10 seconds, batches one second. The answers of both forms are compared.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

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

RATE, SECONDS, BATCHES, WARM = 1_000, 10, 24, 10
WINDOW = f"[RANGE {SECONDS} SECONDS]"
NEGATION = (
    f"SELECT d.a FROM (SELECT a FROM link1 {WINDOW} EXCEPT ALL SELECT a FROM link2 {WINDOW}) AS d, link3 {WINDOW} AS z "
    "WHERE d.a = z.a AND z.n = 0"
)
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


def run(sql: str, chosen: tuple[Rule, ...], values: int, kinds: int) -> tuple[float, Counter[tuple[object, ...]]]:
    """Seconds a batch once windows are full, and the answer at the end."""
    rng = np.random.default_rng(7)
    db = connection()
    with planned(chosen):
        db.execute(f"CREATE CONTINUOUS QUERY q AS {sql}")
    took = 0.0
    for batch in range(BATCHES):
        given = {}
        for i in (1, 2, 3):
            ts = batch * 1_000_000 + np.sort(rng.integers(0, 1_000_000, RATE))
            columns = {"a": rng.integers(0, values, RATE), "n": rng.integers(0, kinds, RATE)}
            of = {name: pa.array(column, pa.int32()) for name, column in columns.items()}
            given[f"link{i}"] = pa.table(of | {"ts": pa.array(ts, pa.timestamp("us"))})
        began = time.perf_counter()
        db.push(given).count()
        took += (time.perf_counter() - began) * (batch >= WARM)
    answer = db.snapshot("q").to_pylist()
    return took / (BATCHES - WARM), Counter(tuple(row.values()) for row in answer)


def estimated(sql: str, rule: Rule, values: int, kinds: int) -> float:
    """How many times the cost of the first form the second is estimated to have."""
    links = ("link1", "link2", "link3")
    distinct = {(link, "a"): float(values) for link in links} | {(link, "n"): float(kinds) for link in links}
    known = Statistics(rates=dict.fromkeys(links, float(RATE)), distinct=distinct)
    db = connection()
    with planned(()):
        db.execute(f"CREATE QUERY FAMILY f AS {sql}")
    first = build(db.registry.named("f").bound.query)
    return estimate(apply(rule, first), known).cost / estimate(first, known).cost


def main() -> bool:
    figures = []
    for name, sql, rule, points in (
        ("negation above / below the join", NEGATION, pull_up_negation, ((1_000, 100), (1_000, 10), (1_000, 1))),
        ("negation above / below the join", NEGATION, pull_up_negation, ((10_000, 100), (10_000, 10), (10_000, 1))),
        ("DISTINCT below / above the join", DISTINCT, push_down_duplicate_elimination, ((300, 10), (1_000, 10))),
        ("DISTINCT below / above the join", DISTINCT, push_down_duplicate_elimination, ((10_000, 10), (100_000, 10))),
    ):
        for values, kinds in points:
            forms = [run(sql, chosen, values, kinds) for chosen in ((), (rule,))]
            assert forms[0][1] == forms[1][1], "both forms have the same answer"
            what = (
                f"{name}, {values} values, 1 of {kinds} selected"
                if rule is pull_up_negation
                else f"{name}, {values} values"
            )
            figures.append(Figure(f"{what}: time", forms[1][0] / forms[0][0], "x"))
            figures.append(Figure(f"{what}: estimated cost", estimated(sql, rule, values, kinds), "x"))
            print(f"{what}: {forms[0][0] * 1e3:.1f} and {forms[1][0] * 1e3:.1f} ms a batch", flush=True)
    return report("rewrites", figures)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
