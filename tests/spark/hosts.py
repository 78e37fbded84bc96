"""Two hosts for one test: a pipeline on Spark, and the same parts without Spark. Both can be broken off at any time.

What they are given waits until they process it; which of it was in which micro-batch they tell afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Protocol

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from eddyline.spark.output.delivery import Delivery
from tests.spark.bare import Bare, BrokenOff
from tests.spark.inputs import Batch, Event, Row, carry_out, script
from tests.spark.live import Live
from tests.spark.micro_batches import whole
from tests.spark.processes import jvm, kill, residents

BREAKS = ("delivered", "consumer", "stop", "residents")


class Host(Protocol):
    def do(self, *events: Event) -> None:
        """Changes of the catalog."""

    def put(self, batch: Batch) -> None:
        """Rows of streams and changes of tables."""

    def start(self) -> None:
        """From now on all that comes is processed."""

    def stop(self) -> None: ...

    def settle(self) -> None:
        """Until all has been processed, if it was started."""

    def process(self, rnd: Random) -> None:
        """Takes up what was broken off, and all that has come since."""

    def break_off(self, rnd: Random) -> None:
        """Begins to process, and stops where nobody expects it."""

    def restart(self, rnd: Random) -> None:
        """The program ends and begins again."""

    def lose(self, rnd: Random) -> None:
        """What is held in memory only is gone."""

    def be_quiet(self, ms: int) -> None:
        """Time passes."""

    def done(self) -> list[Batch] | None:
        """The micro-batches that have ended; None if one was broken off and not yet taken up again."""

    @property
    def folder(self) -> Path: ...


class OnSpark:
    """A run that is started goes on through what follows, except where the passing of time makes micro-batches."""

    def __init__(
        self, spark: SparkSession, folder: Path, rnd: Random, delays: dict[str, int], idle: int | None
    ) -> None:
        self.folder, self.idle = folder, idle
        most = rnd.choice(["", ", maxFilesPerTrigger '1'", ", maxFilesPerTrigger '2'"])
        sinks = ["CREATE SINK seen USING foreach_batch FOR fa, fj"]
        self.live = Live(spark, folder, delays, sinks=sinks, streams=most, idle=idle, buckets=rnd.choice([1, 2, 3]))
        self.live.consumers["seen"] = self._seen
        self._running = self._breaks = False

    def do(self, *events: Event) -> None:
        self.live.do(*events)

    def put(self, batch: Batch) -> None:
        self.live.put(batch)

    def start(self) -> None:
        if self.idle is None and not self._running:
            self.live.start()
            self._running = True

    def stop(self) -> None:
        self.live.stop()
        self._running = False

    def settle(self) -> None:
        if self._running:
            self.live.settle()

    def process(self, rnd: Random) -> None:
        if self._running:
            self.live.settle()
        elif self.idle is None and rnd.random() < 0.5:
            self.live.process()
        else:
            self._process_now()

    def _process_now(self) -> None:
        try:
            self.live.start(available_now=True).awaitTermination()
        finally:
            self.live.stop()

    def break_off(self, rnd: Random) -> None:
        how = rnd.choice(BREAKS)
        if rnd.random() < 0.7:
            self.stop()
        self._breaks = how == "consumer"
        if how == "delivered":
            self.live.pipe.delivery.commit = self._delivered  # type: ignore[method-assign]
        try:
            run = None if self._running else self.live.start()
            if how in ("stop", "residents"):
                time.sleep(rnd.uniform(0, 3 if run else 0.6))
            if how == "residents":
                self._kill_residents()
            if how != "stop" and self.idle is None:
                self.live.settle()
            elif how != "stop":
                time.sleep(rnd.uniform(0, 3))
        except StreamingQueryException as e:
            assert how == "residents" or "broken off" in str(e), str(e)
        finally:
            self.stop()
            self._breaks = False
            if how == "delivered":
                del self.live.pipe.delivery.commit

    def _delivered(self, batch: int, reports: Sequence[dict[str, Any]]) -> None:
        Delivery.commit(self.live.pipe.delivery, batch, reports)
        raise RuntimeError("broken off after delivery")

    def _seen(self, rows: DataFrame, _: int) -> None:
        if self._breaks:
            raise RuntimeError("broken off in delivery")
        rows.count()

    def restart(self, rnd: Random) -> None:
        self.stop()
        self.live.open()

    def lose(self, rnd: Random) -> None:
        self._kill_residents()

    def _kill_residents(self) -> None:
        for resident in residents(jvm()):
            with suppress(ProcessLookupError):
                kill(resident)

    def be_quiet(self, ms: int) -> None:
        """Runs until a micro-batch has ended that began after this time."""
        if self.idle is None:
            return
        until = time.time_ns() // 1_000_000 + ms
        run = self.live.start()
        while run.isActive and not any(batch.now >= until for batch in self.live.micro_batches()):
            time.sleep(0.2)
        self.live.stop()
        self._process_now()

    def done(self) -> list[Batch] | None:
        if not whole(self.folder / "ck"):
            return None
        if not self._running:
            self.live.pipe.delivery.sweep()  # a resident may have gone on after it was asked
        return self.live.micro_batches()


class OnBare:
    """A micro-batch takes some of what is there. Once begun it is what it is, as Spark's offset log has it."""

    def __init__(self, folder: Path, rnd: Random, delays: dict[str, int], idle: int | None) -> None:
        self.folder = folder
        self.text = script(folder, delays, idle=idle)
        self.bare = Bare(folder, self.text, rnd.choice([1, 2, 3]))
        self.rnd = Random(rnd.random())
        self.now = 1000
        self._started = False
        self._events: list[Event] = []
        self._changes: list[Event] = []
        self._rows: dict[str, list[list[Row]]] = {s: [] for s in delays}
        self._begun: tuple[Batch, int] | None = None
        self._done: list[Batch] = []

    def do(self, *events: Event) -> None:
        for event in events:
            carry_out(self.bare.catalog, event)
            self._events.append(event)

    def put(self, batch: Batch) -> None:
        self._changes += batch.changes
        for stream, parts in batch.rows.items():
            self._rows[stream] += parts

    def start(self) -> None:
        self._started = True

    def stop(self) -> None:
        self._started = False

    def settle(self) -> None:
        if self._started:
            self.process(self.rnd)

    def process(self, rnd: Random) -> None:
        while self._begun or self._events or self._changes or any(self._rows.values()):
            self._take(rnd)

    def _take(self, rnd: Random) -> None:
        if self._begun is None:
            self._begun = self._next(rnd), self.bare.catalog.log.latest()
        batch, version = self._begun
        self.bare.take(batch.tables(), version, batch.now)
        self._done.append(batch)
        self._begun = None

    def _next(self, rnd: Random) -> Batch:
        batch = Batch(now=self.now)
        batch.events, self._events = self._events, []
        count = rnd.randint(0, len(self._changes))
        batch.changes, self._changes = self._changes[:count], self._changes[count:]
        for stream, files in self._rows.items():
            count = rnd.randint(0, len(files))
            if count:
                batch.rows[stream], self._rows[stream] = files[:count], files[count:]
        self.now += rnd.choice([0, 10, 500])
        return batch

    def break_off(self, rnd: Random) -> None:
        self.bare.lives = rnd.randrange(rnd.choice([10, 40]))
        with suppress(BrokenOff):
            self.process(rnd)
        self.restart(rnd)

    def restart(self, rnd: Random) -> None:
        self.stop()
        self.bare.start(self.text, rnd.choice(["new", "the same"]))

    def lose(self, rnd: Random) -> None:
        self.bare.start(self.text, "new")

    def be_quiet(self, ms: int) -> None:
        """Also when nothing comes, the passing of time makes a micro-batch."""
        self.now += ms
        self.process(self.rnd)
        self._take(self.rnd)

    def done(self) -> list[Batch] | None:
        if self._begun is not None:
            return None
        self.bare.delivery.sweep()
        return self._done
