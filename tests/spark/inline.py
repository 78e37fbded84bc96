"""The Spark host without Spark: the same packers, keepers and delivery, with a dict for Spark's state.

It takes the steps that a pipeline would take, in one process, so that many more of them can be tested: every so often a
bucket is forgotten and brought back from what it gave to be kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.output.outputs import Staged, Stager, commit_files
from eddyline.spark.run.settings import Moment, Settings
from eddyline.spark.worker.keeping import Head, Keeper, decode_head
from eddyline.spark.worker.packing import Packer
from tests.spark.suite_host import none_of, plain, read
from tests.sql.suite import FUNCTIONS, Case, Outcome, World


class Inline:
    def __init__(
        self,
        folder: Path,
        buckets: int = 3,
        loses: Callable[[], bool] = lambda: False,
        clock: Literal["min", "max"] = "min",
    ) -> None:
        """`loses` says whether a bucket, or a packer, is forgotten before its next step."""
        self.settings = Settings(str(folder / "ck"), buckets, clock, str(folder), "set apart", "null")
        self.catalog = PipelineCatalog(self.settings.log())
        self.packers = [Packer(self.settings) for _ in range(2)]
        self.keepers = [Keeper(b, self.settings) for b in range(buckets)]
        self.heads: list[bytes | None] = [None] * buckets
        self.state: list[dict[str, bytes]] = [{} for _ in range(buckets)]
        self.clocks: dict[str, Any] = {}
        self.batch = 0
        self.now = 0
        self.out = folder / "out"
        self.loses = loses

    def step(
        self,
        streams: Mapping[str, Sequence[pa.Table]],
        tables: Mapping[str, pa.Table] | None = None,
        amended: int = 0,
    ) -> None:
        """A micro-batch: source partitions of streams, and changes of tables."""
        moment = Moment(self.batch, self.catalog.log.latest(), self.now, self.clocks, amended)
        given: list[list[Any]] = [[] for _ in self.keepers]
        staged: list[Staged] = []
        sources = [("", [None]), *((n, [r]) for n, r in (tables or {}).items()), *streams.items()]
        number = 0
        for source, (relation, parts) in enumerate(sources):
            for rows in parts:
                packer = self._packer(number)
                partition = packer.open(moment, relation, number)
                sent = [] if rows is None else packer.pack(partition, _with_places(rows))
                *notes, _ = packer.close(partition)
                staged += partition.stager.staged
                for i, (bucket, block) in enumerate([*sent, *notes]):
                    given[bucket].append(((source, number, i), block))
                number += 1
        for b, blocks in enumerate(given):
            staged += self._bucket(b, sorted(blocks))
        commit_files(self.out, [s for s in staged if s.sink], self.batch, "parquet")
        commit_files(self.settings.own / "dead_letter", [s for s in staged if not s.sink], self.batch, "parquet")
        clocks = self.keepers[0].bucket.engine.clocks.streams
        self.clocks = {s: {"high": c.high, "floor": c.floor} for s, c in clocks.items()}
        self.batch += 1

    def _packer(self, number: int) -> Packer:
        i = number % len(self.packers)
        if self.loses():
            self.packers[i] = Packer(self.settings)
        return self.packers[i]

    def _bucket(self, b: int, given: list[Any]) -> list[Staged]:
        if self.loses():
            self.keepers[b] = Keeper(b, self.settings)
            head = decode_head(self.heads[b])
            self.keepers[b].restore(head, self.state[b].__getitem__)
        keeper = self.keepers[b]
        parts, kept = keeper.step(given)
        self.state[b] |= kept.put
        for name in kept.removed:
            del self.state[b][name]
        self.heads[b] = kept.head
        assert Head(**json.loads(kept.head)).segments() == self.state[b].keys()
        stager = Stager(keeper.bucket.definitions.catalog, self.settings, self.batch, b, keeper.bucket.amended)
        for p in parts:
            stager.stage_part(p)
        return stager.staged


def _with_places(rows: pa.Table) -> pa.Table:
    nothing = pa.nulls(rows.num_rows, pa.string())
    return rows.append_column("_malformed", nothing).append_column("_place", nothing)


class InlineHost:
    """The SQL suite's host without Spark."""

    def __init__(self, folder: Path, buckets: int, loses: Callable[[], bool]) -> None:
        self.folder = folder
        self.inline = Inline(folder, buckets, loses)

    def run(self, world: World, cases: Sequence[Case]) -> Outcome:
        catalog = self.inline.catalog
        catalog.execute(f"CREATE SINK out USING parquet OPTIONS (path '{self.inline.out}')")
        for name in world.functions:
            catalog.function(name, *FUNCTIONS[name])
        for statement in world.statements:
            catalog.execute(statement)
        found: dict[str, pa.Table] = {}
        for step in world.steps:
            for query in (q for case in cases for q in case.going(step.number)):
                catalog.execute(f"DROP CONTINUOUS QUERY {query}")
            for case in cases:
                if case.first == step.number:
                    catalog.execute(case.declare)
                table = case.coming(step.number)
                if table is not None:
                    catalog.register(case.name, table)
                for query in (q for q, at in case.added.items() if at == step.number):
                    found[query] = none_of(catalog.query(query)[0])
            for statement in step.changes:
                catalog.execute(statement)
            self.inline.step({s: _halves(r) for s, r in step.rows.items()})
        for folder in (f for f in sorted(self.inline.out.iterdir()) if f.name != "_staged"):
            rows = read(folder)
            for name in [] if rows is None else pc.unique(rows.column("query")).to_pylist():
                mine = plain(rows.filter(pc.equal(rows.column("query"), name)))
                found[name] = mine.rename_columns(found[name].column_names)
        return Outcome(found, {s: self._late(s, world) for s in world.streams})

    def _late(self, stream: str, world: World) -> pa.Table:
        schema = world.streams[stream].schema
        rows = read(self.inline.settings.own / "dead_letter" / stream.lower())
        if rows is None:
            return schema.empty_table()
        late = plain_times(rows.filter(pc.equal(rows.column("reason"), "late")))
        return pa.table(late.columns[: len(schema)], names=schema.names)


def plain_times(rows: pa.Table) -> pa.Table:
    naive = [c.cast(pa.timestamp("us")) if pa.types.is_timestamp(c.type) else c for c in rows.columns]
    return pa.table(naive, names=rows.column_names)


def _halves(rows: pa.Table) -> list[pa.Table]:
    """Two source partitions."""
    middle = rows.num_rows // 2
    return [rows.slice(0, middle), rows.slice(middle)]
