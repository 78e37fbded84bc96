"""Two connections live the same random life; one of them is saved and restored again and again. They stay equal."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import eddyline
from eddyline.local.connection import Connection
from tests.local.common import at, log_of, tuples
from tests.oracle import queries
from tests.oracle.scenario import stream_row

SEEDS = st.integers(0, 2**32)
COLUMNS = ["a", "b", "c", "n", "f", "ts"]


def odd(x: int | None) -> bool:
    return bool(x % 2)  # type: ignore[operator]  # fails on NULL, which is counted


class Twins(RuleBasedStateMachine):
    @initialize(delay=st.sampled_from([0, 2]), clock=st.sampled_from(["min", "min", "max"]))
    def begin(self, delay: int, clock: Any) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.twins: list[Connection] = [eddyline.connect(clock=clock) for _ in range(2)]
        self.now = 0.0
        self.count = 0
        self.standing: list[str] = []
        self.members: dict[str, str] = {}
        self.views = 0
        for db in self.twins:
            db.function("odd", odd, ["INT"], "BOOLEAN")
            for name, columns in queries.STREAMS.items():
                db.execute(
                    f"CREATE STREAM {name} ({columns}, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL {delay} SECONDS"
                )
            for name, (columns, kind) in queries.TABLES.items():
                db.execute(f"CREATE TABLE {name} ({columns}) {kind}")
            for name, (params, text) in queries.FAMILIES.items():
                emit = "WITH (emit = 'all')" if name in ("fw", "fd") else ""
                db.execute(f"CREATE QUERY FAMILY {name} ({params}) {emit} AS {text}")
            db.execute("CREATE QUERY FAMILY fo (x INT) AS SELECT s.a FROM s WHERE odd(s.a) AND s.b > :x")

    def both(self, act: Any) -> None:
        a, b = (act(db) for db in self.twins)
        if a is None:
            return
        assert a.count() == b.count()
        assert a.queries() == b.queries()
        for name in a.queries():
            assert sorted(map(repr, log_of(a, name))) == sorted(map(repr, log_of(b, name))), name

    @rule(seed=SEEDS, emit=st.sampled_from(["", "", "WITH (emit = 'all')"]))
    def register(self, seed: int, emit: str) -> None:
        name, text = f"q{self.count}", queries.query(Random(seed))
        self.count += 1
        self.both(lambda db: db.execute(f"CREATE CONTINUOUS QUERY {name} {emit} AS {text}"))
        self.standing.append(name)

    @rule(seed=SEEDS)
    def view(self, seed: int) -> None:
        if self.views < 2:
            self.views += 1
            text = queries.group_query(Random(seed))
            self.both(lambda db: db.execute(f"CREATE MATERIALIZED VIEW v{self.views} AS {text}"))
            self.both(lambda db: db.execute(f"CREATE CONTINUOUS QUERY over{self.views} AS SELECT * FROM v{self.views}"))
            self.standing += [f"over{self.views}"]

    @rule(seed=SEEDS, family=st.sampled_from(sorted(queries.FAMILIES)), many=st.integers(1, 4))
    def register_many(self, seed: int, family: str, many: int) -> None:
        rnd = Random(seed)
        params = [p.split() for p in queries.FAMILIES[family][0].split(", ")]
        table = [
            {"query": f"{family}_{self.count + i}"}
            | {n: (2 if n in "wmk" else 0 if t != "STRING" else "%") if v is None else v
               for n, t in params for v in [queries.parameter(rnd, n, t)]}
            for i in range(many)
        ]  # fmt: skip
        self.count += many
        self.both(lambda db: db.register(family, table))
        self.members |= {r["query"]: family for r in table}

    @rule(seed=SEEDS)
    def register_function_users(self, seed: int) -> None:
        name = f"fo_{self.count}"
        self.count += 1
        self.both(lambda db: db.register("fo", [{"query": name, "x": seed % 4}]))
        self.members[name] = "fo"

    @precondition(lambda self: self.standing or self.members)
    @rule(seed=SEEDS)
    def drop(self, seed: int) -> None:
        rnd = Random(seed)
        if self.standing and rnd.random() < 0.5:
            name = self.standing.pop(rnd.randrange(len(self.standing)))
            self.both(lambda db: db.execute(f"DROP CONTINUOUS QUERY {name}"))
        elif self.members:
            name = rnd.choice(sorted(self.members))
            family = self.members.pop(name)
            self.both(lambda db: db.drop(family, [name]))

    @rule(seed=SEEDS, size=st.integers(0, 8))
    def push(self, seed: int, size: int) -> None:
        rnd = Random(seed)
        batch: dict[str, list[dict[str, Any]]] = {"r": [], "s": []}
        for _ in range(size):
            self.now += rnd.choice([0, 0, 0.5, 1])
            ts = at(max(0.0, self.now - rnd.choice([0, 0, 0, 1, 5])))
            batch[rnd.choice("rs")].append(dict(zip(COLUMNS, stream_row(rnd, ts), strict=True)))
        self.both(lambda db: db.push(batch))

    @rule(step=st.sampled_from([-3, 0, 1, 6]))
    def advance(self, step: int) -> None:
        self.now = max(0.0, self.now + step)
        self.both(lambda db: db.advance(at(self.now)))

    @rule(seed=SEEDS)
    def change_table(self, seed: int) -> None:
        rnd = Random(seed)
        a, n = rnd.randint(0, 4), rnd.choice(["'a'", "'b'", "NULL"])
        sql = rnd.choice(
            [
                f"INSERT INTO t VALUES ({rnd.randint(0, 6)}, {a}, {n})",
                f"INSERT INTO u VALUES ({a}, {n}, 1.5), ({a}, {n}, NULL)",
                f"DELETE FROM {rnd.choice('tu')} WHERE a = {a}",
                f"UPDATE {rnd.choice('tu')} SET n = {n} WHERE a <> {a}",
            ]
        )
        self.both(lambda db: db.execute(sql))

    @rule()
    def save_and_restore(self) -> None:
        self.twins[1].save(self.folder / "state")
        self.twins[1] = eddyline.connect(self.folder / "state", functions={"odd": odd})

    @invariant()
    def snapshots_are_equal(self) -> None:
        if not hasattr(self, "twins"):
            return
        a, b = self.twins
        for name in [*self.standing, *self.members]:
            left, right = (sorted(map(repr, tuples(db.snapshot(name)))) for db in (a, b))
            assert left == right, name
        for x in "rs":
            assert list(map(repr, tuples(a.late(x)))) == list(map(repr, tuples(b.late(x))))
        left, right = (
            (
                {k: v for k, v in s.items() if k in ("queries", "rows", "late", "changes", "tables")},
                s["families"].keys(),
            )
            for s in (a.stats(), b.stats())
        )
        assert left[0] == right[0] and len(left[1]) == len(right[1])

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


NIGHTLY = os.environ.get("EDDYLINE_NIGHTLY") == "1"
TestTwins = Twins.TestCase
TestTwins.settings = settings(
    max_examples=400 if NIGHTLY else 8,
    stateful_step_count=30 if NIGHTLY else 20,
    deadline=None,
    database=None,
    print_blob=True,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
