"""A pipeline lives a random life: queries come and go, rows come, some late, it is stopped, broken off and started.

After every step, all that it has delivered is held against the reference. The same lives are lived on Spark, a few, and
by the host's parts without Spark, many. `EDDYLINE_NIGHTLY=1` lives many more.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pyspark.sql import SparkSession

from eddyline.engine.family import Family
from eddyline.spark.catalog import logged, splitting
from eddyline.spark.output import delivery
from eddyline.spark.worker import keeping
from tests.oracle import queries
from tests.spark.hosts import Host, OnBare, OnSpark
from tests.spark.inputs import KINDS, WIDE, Batch, World
from tests.spark.judge import Judge

pytestmark = pytest.mark.xdist_group("spark")
NIGHTLY = os.environ.get("EDDYLINE_NIGHTLY") == "1"
SEEDS = st.integers(0, 2**32)
STREAMS = st.sampled_from(sorted(queries.STREAMS))
IDLE = 1500  # milliseconds
Make = Callable[[Random, dict[str, int], int | None], Host]


class Life(RuleBasedStateMachine):
    def __init__(self, make: Make, account: Counter[str]) -> None:
        super().__init__()
        self.make, self.account = make, account

    @initialize(seed=SEEDS, idle=st.sampled_from([None, None, IDLE]), started=st.booleans())
    def begin(self, seed: int, idle: int | None, started: bool) -> None:
        self.world = World(Random(seed))
        self.judge = Judge(self.world.delays, idle)
        self.host = self.make(self.world.rnd, self.world.delays, idle)
        self.host.do(*self.world.wide(*self.world.rnd.sample(sorted(WIDE), 4)))
        self.host.put(self.world.full_batch())
        if started:
            self.host.start()
        self.seed = seed
        self.account["lives"] += 1

    def at_random(self, seed: int) -> Random:
        self.world.rnd = Random(seed)
        return self.world.rnd

    # queries come and go

    @rule(seed=SEEDS, kind=st.sampled_from(KINDS))
    def add_query(self, seed: int, kind: str) -> None:
        self.at_random(seed)
        self.host.do(*self.world.come(kind))

    @rule(seed=SEEDS, family=st.sampled_from(sorted(queries.FAMILIES)), many=st.integers(2, 30))
    def register_many(self, seed: int, family: str, many: int) -> None:
        self.at_random(seed)
        wide = self.world.wide(family) if family in WIDE else []
        self.host.do(self.world.members(family, many), *wide)

    @precondition(lambda self: self.world.standing)
    @rule(seed=SEEDS, many=st.integers(1, 4))
    def drop(self, seed: int, many: int) -> None:
        self.at_random(seed)
        for _ in range(min(many, len(self.world.standing))):
            self.host.do(self.world.go())

    # rows come

    @rule(seed=SEEDS, files=st.integers(1, 4))
    def rows(self, seed: int, files: int) -> None:
        rnd = self.at_random(seed)
        batch = Batch()
        for _ in range(files):
            batch.rows.setdefault(rnd.choice("rs"), []).append(self.world.rows(rnd.choice([1, 5, 20])))
        self.host.put(batch)

    @rule(seed=SEEDS, stream=STREAMS, count=st.integers(1, 5))
    def late_rows(self, seed: int, stream: str, count: int) -> None:
        self.at_random(seed)
        self.host.put(Batch(rows={stream: [self.world.late_rows(count), self.world.rows(1)]}))

    @rule(seed=SEEDS, stream=STREAMS)
    def one_stream_is_quiet(self, seed: int, stream: str) -> None:
        """The other goes on; after the limit, if there is one, without it."""
        self.at_random(seed)
        self.host.put(Batch(rows={stream: [self.world.rows(3)]}))
        self.host.be_quiet(IDLE + 200)
        self.host.put(Batch(rows={stream: [self.world.rows(2)]}))

    @rule(seed=SEEDS, files=st.integers(1, 3))
    def change_tables(self, seed: int, files: int) -> None:
        self.at_random(seed)
        self.host.put(Batch(changes=[self.world.change() for _ in range(files)]))

    # runs begin and end

    @rule()
    def start(self) -> None:
        self.host.start()

    @rule()
    def stop(self) -> None:
        self.host.stop()

    @rule(seed=SEEDS)
    def process(self, seed: int) -> None:
        rnd = self.at_random(seed)
        self.host.put(self.world.full_batch(rnd.choice([3, 12])))
        self.host.process(rnd)

    @rule(seed=SEEDS, started=st.booleans())
    def restart(self, seed: int, started: bool) -> None:
        self.host.restart(Random(seed))
        if started:
            self.host.start()

    @rule(seed=SEEDS, again=st.booleans())
    def break_off(self, seed: int, again: bool) -> None:
        rnd = self.at_random(seed)
        self.host.put(self.world.full_batch(4))
        self.host.break_off(rnd)
        self.account["broken off"] += self.host.done() is None
        if again:
            self.host.process(rnd)

    @rule(seed=SEEDS)
    def lose(self, seed: int) -> None:
        self.host.lose(Random(seed))

    # what must hold

    @invariant()
    def all_that_was_delivered_is_what_the_reference_says(self) -> None:
        self.host.settle()
        self.account["steps"] += 1
        done = self.host.done()
        if done is not None:
            self.judge.check(done, self.host.folder)
            self.world.leap(self.judge.latest())

    def teardown(self) -> None:
        """Every life is broken off at its end, and taken up once more."""
        if hasattr(self, "host"):
            self.break_off(self.seed, again=True)
            self.host.stop()
            done = self.host.done()
            assert done is not None
            self.judge.check(done, self.host.folder)
            self.account["micro-batches"] += len(done)
            self.account["rows in"] += sum(len(p) for b in done for parts in b.rows.values() for p in parts)
            self.account["late"] += sum(map(len, self.judge.late.values()))
            self.account.update(self.judge.compared)


def lived(make: Make, lives: int, steps: int, *phases: Phase) -> Counter[str]:
    account: Counter[str] = Counter()
    chosen = settings(
        max_examples=lives,
        stateful_step_count=steps,
        derandomize=True,
        deadline=None,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(lambda: Life(make, account), settings=chosen)
    print(dict(account))
    return account


def test_lives_on_spark_equal_the_reference(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    def make(rnd: Random, delays: dict[str, int], idle: int | None) -> Host:
        return OnSpark(spark, tmp_path_factory.mktemp("life"), rnd, delays, idle)

    lives, steps = (7, 14) if NIGHTLY else (3, 8)
    account = lived(make, lives, steps, Phase.generate)
    assert account["broken off"] and account["late"] and account["rows"]


@pytest.mark.parametrize("split", ["data", "auto", "queries"])
def test_lives_without_spark_equal_the_reference(
    split: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Here snapshots of state and catalog are made all the time, and a run is broken off between any two parts."""
    monkeypatch.setattr(Family, "split", split)
    monkeypatch.setattr(splitting, "MANY", 2)
    monkeypatch.setattr(keeping, "LONGEST_LOG", 3)
    monkeypatch.setattr(logged, "COMMITS", 4)
    monkeypatch.setattr(delivery, "TRIM_EVERY", 2)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def make(rnd: Random, delays: dict[str, int], idle: int | None) -> Host:
        return OnBare(tmp_path_factory.mktemp("life"), rnd, delays, idle)

    lives, steps = (80, 20) if NIGHTLY else (10, 15)
    account = lived(make, lives, steps, Phase.generate, Phase.shrink)
    assert account["broken off"] and account["late"] and account["rows"]
