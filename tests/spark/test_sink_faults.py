"""Sinks that fail: what they were not given, or were given and lost, comes again, the same to the position."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from eddyline.errors import StateError
from tests.spark.inputs import World
from tests.spark.live import Live

pytestmark = pytest.mark.xdist_group("spark")
FAMILIES = ("fa", "fj", "fg")


class Consumer:
    """Remembers what it was given, and fails so often at each micro-batch, before it has taken the rows or after."""

    def __init__(self, **fails: int) -> None:
        self.fails = Counter({int(batch[1:]): times for batch, times in fails.items()})
        self.given: list[tuple[int, dict[int, Any]]] = []

    def __call__(self, rows: DataFrame, batch: int) -> None:
        self.fails[batch] -= 1
        if self.fails[batch] % 2 == 0:
            self.given.append((batch, {r.position: tuple(r) for r in rows.collect()}))
        if self.fails[batch] >= 0:
            raise RuntimeError("the consumer fails")
        if self.fails[batch] % 2:
            self.given.append((batch, {r.position: tuple(r) for r in rows.collect()}))

    def places(self, family: str) -> set[tuple[str, int, int]]:
        """What was given, if what was given again was the same."""
        whole: dict[int, dict[int, Any]] = {}
        for batch, rows in self.given:
            assert whole.setdefault(batch, rows) == rows, f"batch {batch} came again, but not the same"
        assert len(self.given) > len(whole), "nothing came again"
        return {(family, batch, position) for batch, rows in whole.items() for position in rows}


def test_consumers_that_fail_are_given_exact_repeats(spark: SparkSession, tmp_path: Path) -> None:
    """One is served before the files of the other sink, one after. With more buckets than source partitions, some
    bucket is asked the same to the byte in the next attempt."""
    world = World(Random("consumers"))
    first_sink = "CREATE SINK first USING foreach_batch FOR fj"
    live = Live(spark, tmp_path, world.delays, FAMILIES, [first_sink], buckets=5)
    live.pipe.execute("CREATE SINK last USING foreach_batch FOR fa")
    first = live.consumers["first"] = Consumer(b0=1, b1=2)
    last = live.consumers["last"] = Consumer(b0=1, b2=1)
    live.do(*world.wide(*FAMILIES))
    failed = 0
    for _ in range(3):
        live.put(world.full_batch())
        done = False
        while not done:
            try:
                live.process()
                done = True
            except StreamingQueryException as e:
                assert "the consumer fails" in str(e)
                failed += 1
                if failed % 2:
                    live.open()
    assert failed == 5
    found = live.check()
    assert first.places("fj") == {place for place in found.places if place[0] == "fj"}
    assert last.places("fa") == {place for place in found.places if place[0] == "fa"}


def test_a_sink_that_could_not_be_written_gets_every_row_once_it_can(spark: SparkSession, tmp_path: Path) -> None:
    """A file is in the way of one folder after the other."""
    world = World(Random("in the way"))
    live = Live(spark, tmp_path, world.delays, FAMILIES, buckets=3)
    live.do(*world.wide(*FAMILIES))
    for way in ("out", "out/_staged", "out/fj", "out/fa"):
        live.put(world.full_batch())
        folder, aside = tmp_path / way, tmp_path / "aside"
        if folder.exists():
            folder.rename(aside)
        folder.write_text("in the way")
        with pytest.raises((StreamingQueryException, StateError), match=r"File exists|Not a directory"):
            live.process()
        folder.unlink()
        if aside.exists():
            aside.rename(folder)
        if way in ("out", "out/fa"):
            live.process()
            assert {family for family, _, _ in live.check().places} == set(FAMILIES)
