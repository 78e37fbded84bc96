"""Families that are split by queries: who answers for a query, when a family is split so, and what stays as it was."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.engine.actions import FixCells, SplitQueries
from eddyline.engine.engine import Engine
from eddyline.errors import BindError
from eddyline.spark.catalog import logged
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.input.seen import Seen, read_seen, seen_file
from eddyline.spark.run.settings import Settings
from eddyline.spark.worker.bucket import Bucket
from eddyline.state.query_table import QueryRows
from tests.spark.bare import Bare
from tests.spark.expected import delivered
from tests.spark.inline import Inline

BUCKETS = 4
STREAMS = "".join(f"CREATE STREAM {s} (k INT, v DOUBLE, ts TIMESTAMP) WATERMARK ts; " for s in "rs")
JOIN = "SELECT r.k, s.k AS other FROM r [RANGE 1 HOURS], s [RANGE 1 HOURS] WHERE "
BAND = "s.v - r.v BETWEEN :lo AND :hi"


def family(condition: str = BAND, split: str = "queries", select: str = JOIN) -> str:
    return f"{STREAMS} CREATE QUERY FAMILY f (lo DOUBLE, hi DOUBLE) WITH (split = '{split}') AS {select}{condition}"


def bands(names: range, low: Any, high: Any) -> pa.Table:
    n = len(names)
    ends = {"lo": np.broadcast_to(low, n), "hi": np.broadcast_to(high, n)}
    return pa.table({"query": [f"q{i}" for i in names]} | {c: pa.array(e, pa.float64()) for c, e in ends.items()})


def rows(rnd: Random, start: int, n: int = 20) -> pa.Table:
    ts = pa.array([(start + i) * 1_000_000 for i in range(n)], pa.int64()).cast(pa.timestamp("us"))
    return pa.table({"k": pa.array(range(n), pa.int32()), "v": [rnd.uniform(0, 100) for _ in range(n)], "ts": ts})


def settings(folder: Path) -> Settings:
    return Settings(str(folder / "ck"), BUCKETS, "min", str(folder), "set apart", "null")


def tables(folder: Path, version: int | None = None) -> list[QueryRows]:
    """The queries of the first family in every bucket, by processes that have just started."""
    found = []
    for b in range(BUCKETS):
        bucket = Bucket(b, settings(folder))
        bucket.follower.define(version or bucket.follower.log.latest())
        found.append(bucket.definitions.families[1].queries.rows())
    return found


def ids(table: QueryRows) -> list[int]:
    return table.ids_at(table.live()).tolist()


def test_every_query_is_in_one_bucket_and_each_has_its_share(tmp_path: Path) -> None:
    catalog = PipelineCatalog(settings(tmp_path).log())
    catalog.execute(family())
    catalog.register("f", bands(range(4000), np.nan, 5.0))
    found = tables(tmp_path)
    assert sorted(i for t in found for i in ids(t)) == list(range(4000))
    assert [len(t) for t in found] == [1000] * BUCKETS


@pytest.mark.parametrize("seed", range(4))
def test_a_query_stays_where_it_is_whatever_comes_and_goes(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a process reads commits or a snapshot that stands for them."""
    rnd, rng = Random(seed), np.random.default_rng(seed)
    catalog = PipelineCatalog(settings(tmp_path).log())
    catalog.execute(family())
    home: dict[int, int] = {}
    standing: list[int] = []
    made = 0
    for _ in range(12):
        new = range(made, made + rnd.choice([1, 3, 40, 200]))
        low = rng.normal(made, 10, len(new))
        catalog.register("f", bands(new, np.where(rng.random(len(new)) < 0.1, np.inf, low), low + 1))
        standing, made = [*standing, *new], new.stop
        gone = rnd.sample(standing, min(len(standing), rnd.choice([0, 1, 20])))
        catalog.drop("f", [f"q{i}" for i in gone])
        standing = [i for i in standing if i not in gone]
        if gone:
            kept = rnd.choice(standing) if standing else None
            catalog.quarantine(1, [*gone[:1], *([] if kept is None else [kept])], "it went wrong")
            standing = [i for i in standing if i != kept]
        found = {i: b for b, t in enumerate(tables(tmp_path)) for i in ids(t)}
        assert sorted(found) == sorted(standing)
        assert all(home.setdefault(i, b) == b for i, b in found.items()), f"seed {seed}"
    monkeypatch.setattr(logged, "COMMITS", 1)
    catalog.execute("CREATE CONTINUOUS QUERY other AS SELECT k FROM r")
    assert catalog.log.snapshot_before(catalog.version) == catalog.version
    assert {i: b for b, t in enumerate(tables(tmp_path)) for i in ids(t)} == {i: home[i] for i in standing}


SEEN = Seen(BUCKETS, {"r": {"v": (0.0, 100.0)}, "s": {"v": (0.0, 100.0)}})
FEW, MANY = 10, 200


@pytest.mark.parametrize(
    ("condition", "split", "queries", "width", "seen", "kind"),
    [
        (BAND, "auto", MANY, 25.0, SEEN, "by queries"),
        (BAND, "auto", MANY, 0.5, SEEN, "by range"),
        (BAND, "auto", MANY, 25.0, None, "by range"),
        (BAND, "auto", FEW, 25.0, SEEN, "by range"),
        (BAND, "auto", MANY, np.inf, None, "by queries"),
        (BAND, "data", MANY, np.inf, SEEN, "by range"),
        (BAND, "queries", FEW, 0.5, None, "by queries"),
        ("s.v - r.v >= :lo AND :hi > 0", "auto", MANY, 1.0, None, "by queries"),
        ("s.v - r.v >= :lo AND :hi > 0", "auto", FEW, 1.0, None, "one place"),
        ("s.v - r.v >= :lo AND :hi > 0", "data", MANY, 1.0, None, "one place"),
        (f"{BAND} AND r.k = s.k", "auto", MANY, 25.0, SEEN, "by key"),
        (f"{BAND} AND r.k = s.k", "queries", MANY, 25.0, SEEN, "by queries"),
        ("r.v * s.v BETWEEN :lo AND :hi", "auto", MANY, 25.0, SEEN, "one place"),
    ],
)
def test_wide_bands_are_split_by_queries_and_narrow_ones_by_range(
    condition: str, split: str, queries: int, width: float, seen: Seen | None, kind: str, tmp_path: Path
) -> None:
    catalog = PipelineCatalog(settings(tmp_path).log())
    catalog.execute(family(condition, split))
    if seen is not None:
        packed = [{"relation": name.upper(), "spans": spans} for name, spans in seen.streams.items()]
        Seen(seen.buckets).take(packed, seen_file(settings(tmp_path).own))
        assert read_seen(seen_file(settings(tmp_path).own)) == seen
    catalog.register("f", bands(range(queries), np.arange(queries) / queries, np.arange(queries) / queries + width))
    assert catalog.explain("f").splitlines()[-1].startswith(f"split over buckets: {kind} (")
    assert catalog.execute("EXPLAIN q1")["plan"].to_pylist()[-1] == catalog.explain("f").splitlines()[-1]
    made = [a for a in catalog.log.read(2) if isinstance(a, FixCells | SplitQueries)]
    catalog.register("f", bands(range(queries, queries + 9), 0.0, 1000.0))
    assert catalog.explain("f").splitlines()[-1].startswith(f"split over buckets: {kind} (")  # for good
    assert [type(a) for a in made] == {"by range": [FixCells], "by queries": [SplitQueries]}.get(kind, [])


def test_a_family_without_parameters_is_split_by_data_whatever_it_says(tmp_path: Path) -> None:
    catalog = PipelineCatalog(settings(tmp_path).log())
    catalog.execute(
        f"{STREAMS} CREATE CONTINUOUS QUERY q WITH (split = 'queries') AS SELECT r.v FROM r, s WHERE r.k = s.k"
    )
    assert catalog.explain("q").endswith("by key (r by k, s by k)")


def test_there_is_no_other_way_to_split(tmp_path: Path) -> None:
    catalog = PipelineCatalog(settings(tmp_path).log())
    with pytest.raises(BindError, match="split cannot be 'query'") as found:
        catalog.execute(family(split="query"))
    assert "'queries'" in (found.value.hint or "")


SELECTS = {
    "rows": JOIN,
    "counts": JOIN.replace("r.k, s.k AS other", "count(*) AS n"),
    "groups": JOIN.replace("r.k, s.k AS other", "r.k % 3 AS g, max(s.v) AS m"),
}


@pytest.mark.parametrize("kind", SELECTS)
@pytest.mark.parametrize("condition", [BAND, "r.k = s.k AND r.v BETWEEN :lo AND :hi"], ids=["band", "select"])
def test_what_wide_joins_say_does_not_depend_on_what_is_split(kind: str, condition: str, tmp_path: Path) -> None:
    text = family(condition, "{}", SELECTS[kind]) + (" GROUP BY r.k % 3" if kind == "groups" else "")
    said = []
    for split in ("data", "queries"):
        rnd, rng = Random(1), np.random.default_rng(1)
        lost = Random(split)
        host = Inline(tmp_path / split, BUCKETS, loses=lambda lost=lost: lost.random() < 0.2)  # type: ignore[misc]
        host.catalog.execute(f"CREATE SINK out USING parquet OPTIONS (path '{host.out}')")
        host.catalog.execute(text.format(split))
        for step in range(5):
            low, first = rng.uniform(-50, 100, 60), 60 * step
            host.catalog.register("f", bands(range(first, first + 60), low, low + 25))
            host.catalog.drop("f", [f"q{i}" for i in range(first + 20, first + 30)])
            host.step({s: [rows(rnd, 8 * step, 8), rows(rnd, 8 * step, 8)] for s in "rs"})
        said.append(delivered(host.out).rows)
    sizes = [len(ids(k.bucket.definitions.families[1].queries.rows())) for k in host.keepers]
    assert all(sizes) and sum(sizes) == 250  # none is answered for by two
    assert said[0] == said[1] and len(said[0]) > 1000


def test_a_query_that_goes_wrong_is_taken_out_and_can_be_resumed(tmp_path: Path) -> None:
    text = STREAMS + (
        "CREATE QUERY FAMILY f (lo DOUBLE, by BIGINT) WITH (split = 'queries') AS"
        " SELECT r.k + :by AS w FROM r [RANGE 1 HOURS], s [RANGE 1 HOURS] WHERE abs(r.v - s.v) <= :lo"
        f"; CREATE SINK out USING parquet OPTIONS (path '{tmp_path}/out')"
    )
    bare, rnd = Bare(tmp_path, text, BUCKETS, "quarantine"), Random(3)
    by = [2**63 - 1 if i % 10 == 3 else i for i in range(40)]
    new = pa.table({"query": [f"q{i}" for i in range(40)], "lo": [200.0] * 40, "by": pa.array(by, pa.int64())})
    bare.catalog.register("f", new)

    def step(at: int) -> None:
        bare.take({s: [rows(rnd, at)] for s in "rs"}, bare.catalog.log.latest(), 1000)

    step(0)
    wrong = [i for i in range(40) if i % 10 == 3]
    assert sorted(bare.catalog.quarantined[1]) == wrong
    step(20)
    good = delivered(tmp_path / "out").changes
    assert sorted(good) == sorted(f"q{i}" for i in range(40) if i not in wrong)
    assert {len(changes) for changes in good.values()} == {40 * 40}
    bare.start(text)
    assert bare.catalog.resume("f") == 4
    step(40)
    assert len(bare.catalog.quarantined[1]) == 4
    assert {len(changes) for changes in delivered(tmp_path / "out").changes.values()} == {60 * 60}


def test_operators_that_fail_in_a_bucket_take_out_its_queries_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"{family()}; CREATE SINK out USING parquet OPTIONS (path '{tmp_path}/out')"
    bare, rnd = Bare(tmp_path, text, BUCKETS, "quarantine"), Random(4)
    bare.catalog.register("f", bands(range(40), -200.0, 200.0))

    def step(at: int) -> None:
        bare.take({s: [rows(rnd, at)] for s in "rs"}, bare.catalog.log.latest(), 1000)

    step(0)
    attempt = Engine.attempt

    def failing(self: Engine, running: Any, work: Any) -> Any:
        in_bucket_2 = getattr(self.definitions.share, "place", None) == 2
        return attempt(self, running, (lambda: 1 / 0) if in_bucket_2 else work)

    monkeypatch.setattr(Engine, "attempt", failing)
    step(20)
    monkeypatch.undo()
    gone = [i for i in range(40) if i % BUCKETS == 2]
    assert sorted(bare.catalog.quarantined[1]) == gone
    step(40)
    assert bare.catalog.resume("f") == len(gone)
    step(60)
    found = {name: len(changes) for name, changes in delivered(tmp_path / "out").changes.items()}
    assert found == {f"q{i}": 20 * 20 + 20 * 20 if i in gone else 80 * 80 for i in range(40)}
