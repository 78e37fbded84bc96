"""A checkpoint written once and kept: every later version reads it, or refuses it in words.

`golden/format-1` holds the catalog's log, the state of two buckets, the clocks, and what the next step must give.
`EDDYLINE_UPDATE=1` writes it anew, for a format that has changed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.errors import StateError
from eddyline.spark.catalog import commits, logged
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.worker import blocks, keeping
from eddyline.spark.worker.keeping import decode_head
from tests.spark.inline import Inline
from tests.spark.suite_host import read

GOLDEN = Path(__file__).parent / "golden" / "format-1"
STATEMENTS = (
    "CREATE STREAM r (k INT, v DOUBLE, s STRING, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 5 SECONDS",
    "CREATE STREAM q (k INT, v DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 5 SECONDS",
    "CREATE TABLE names (k INT PRIMARY KEY, name STRING)",
    "INSERT INTO names VALUES (1, 'one'), (2, 'two')",
    "CREATE QUERY FAMILY over (least DOUBLE) AS SELECT k, v FROM r WHERE v >= :least",
    "CREATE QUERY FAMILY near (w DOUBLE) AS SELECT r.k, q.k AS other FROM r [RANGE 1 MINUTES], q [RANGE 1 MINUTES]"
    " WHERE abs(r.v - q.v) <= :w",
    "CREATE CONTINUOUS QUERY joined AS SELECT r.k, r.v, q.v AS w FROM r [RANGE 30 SECONDS], q [RANGE 30 SECONDS]"
    " WHERE r.k = q.k",
    "CREATE CONTINUOUS QUERY grouped AS SELECT k, count(*) AS n, sum(v) AS total, min(v) AS low, max(s) AS last"
    " FROM r [RANGE 20 SECONDS] GROUP BY k",
    "CREATE CONTINUOUS QUERY seen AS SELECT DISTINCT k FROM r [RANGE 20 SECONDS]",
    "CREATE CONTINUOUS QUERY apart AS SELECT k FROM r [RANGE 20 SECONDS] EXCEPT ALL SELECT k FROM q [RANGE 20 SECONDS]",
    "CREATE CONTINUOUS QUERY latest AS SELECT k, v FROM r [ROWS 3]",
    "CREATE CONTINUOUS QUERY named AS SELECT n.name, r.v FROM r, names n WHERE r.k = n.k",
    "CREATE CONTINUOUS QUERY ends WITH (emit = 'all') AS SELECT k FROM r [RANGE 10 SECONDS]",
)


def step(seed: int) -> dict[str, list[pa.Table]]:
    """Five seconds of both streams, in two partitions each."""
    rng = np.random.default_rng(seed)
    found = {}
    for stream in ("r", "q"):
        parts = []
        for _ in range(2):
            ts = pa.array(np.sort(rng.integers(0, 5_000_000, 8)) + seed * 5_000_000).cast(pa.timestamp("us"))
            columns = {"k": pa.array(rng.integers(0, 4, 8), pa.int32()), "v": np.round(rng.random(8) * 10, 2)}
            columns |= {"s": pa.array([f"s{i}" for i in rng.integers(0, 9, 8)])} if stream == "r" else {}
            parts.append(pa.table(columns | {"ts": ts}))
        found[stream] = parts
    return found


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(keeping, "local_folder", lambda _, bucket: tmp_path / "segments" / str(bucket))
    yield


def opened(folder: Path) -> Inline:
    """The golden checkpoint, copied to a folder, ready for its next step."""
    shutil.copytree(GOLDEN / "eddyline", folder / "ck" / "eddyline")
    inline = Inline(folder, 2)
    inline.catalog.catch_up()
    saved = json.loads((GOLDEN / "clocks.json").read_text())
    inline.batch, inline.clocks = saved["batch"], saved["clocks"]
    for b in range(2):
        segments = GOLDEN / f"bucket-{b}"
        inline.heads[b] = (segments / "head").read_bytes()
        inline.state[b] = {f.name: f.read_bytes() for f in segments.iterdir() if f.name != "head"}
        inline.keepers[b].restore(decode_head(inline.heads[b]), inline.state[b].__getitem__)
    inline.catalog.execute(f"CREATE SINK out USING parquet OPTIONS (path '{inline.out}')")
    return inline


def given(inline: Inline) -> dict[str, list[Any]]:
    """What the sink holds, by family, in order."""
    found = {}
    for folder in (f for f in sorted(inline.out.iterdir()) if f.name != "_staged"):
        table = read(folder)
        assert table is not None
        found[folder.name] = sorted(json.dumps(row, default=str) for row in table.to_pylist())
    return found


def write() -> None:
    import tempfile

    shutil.rmtree(GOLDEN, ignore_errors=True)
    folder = Path(tempfile.mkdtemp())
    keeping.LONGEST_LOG, logged.COMMITS, logged.MOST_COMMITS = 3, 8, 8  # snapshots, and a log after them
    keeping.local_folder = lambda _, bucket: folder / "segments" / str(bucket)
    inline = Inline(folder, 2)
    for statement in STATEMENTS:
        inline.catalog.execute(statement)
    least = [float(i) for i in range(9)]
    inline.catalog.register("over", pa.table({"query": [f"o{i}" for i in range(9)], "least": least}))
    inline.catalog.register("near", pa.table({"query": ["n1", "n2"], "w": [0.1, 0.4]}))
    for seed in range(3):
        inline.step(step(seed))
    inline.catalog.drop("over", ["o1", "o2"])
    inline.catalog.quarantine(inline.catalog.registry.named("over").number, [5], "as an example")
    inline.step(step(3))
    shutil.copytree(folder / "ck" / "eddyline" / "catalog", GOLDEN / "eddyline" / "catalog")
    (GOLDEN / "eddyline" / "catalog" / "lock").unlink()
    (GOLDEN / "clocks.json").write_text(json.dumps({"batch": inline.batch, "clocks": inline.clocks}))
    for b in range(2):
        (GOLDEN / f"bucket-{b}").mkdir()
        (GOLDEN / f"bucket-{b}" / "head").write_bytes(inline.heads[b] or b"")
        for name, content in inline.state[b].items():
            (GOLDEN / f"bucket-{b}" / name).write_bytes(content)
    again = opened(Path(tempfile.mkdtemp()))
    again.step(step(4))
    (GOLDEN / "expected.json").write_text(json.dumps(given(again), indent=1))


def unordered(written: dict[str, list[str]]) -> dict[str, tuple[list[str], list[int]]]:
    """The rows of each family, and their positions. Versions may order the rows of a micro-batch in other ways."""
    rows = {family: [json.loads(text) for text in texts] for family, texts in written.items()}
    return {
        family: (sorted(json.dumps(r | {"position": 0}) for r in given), sorted(r["position"] for r in given))
        for family, given in rows.items()
    }


def test_the_golden_checkpoint_goes_on_as_it_did(tmp_path: Path) -> None:
    inline = opened(tmp_path)
    inline.step(step(4))
    assert unordered(given(inline)) == unordered(json.loads((GOLDEN / "expected.json").read_text()))
    assert len(given(inline)) == 8  # of the other two, one has no changes in this step


def test_its_queries_are_all_there(tmp_path: Path) -> None:
    names = opened(tmp_path).catalog.execute("SHOW QUERIES")["query"].to_pylist()
    assert sorted(names) == sorted(
        ["o0", "o3", "o4", "o5", "o6", "o7", "o8", "n1", "n2", "joined", "grouped", "seen", "apart", "latest", "named",
         "ends"]
    )  # fmt: skip


def test_another_format_of_the_catalog_is_refused_in_words(tmp_path: Path) -> None:
    inline = opened(tmp_path)
    file = sorted((tmp_path / "ck" / "eddyline" / "catalog").glob("*.commit"))[-1]
    _, *actions = blocks.split(file.read_bytes())
    file.write_bytes(blocks.join([json.dumps({"format": commits.FORMAT + 1}).encode(), *actions]))
    with pytest.raises(StateError, match="commit 18 has format 2, this version reads 1"):
        PipelineCatalog(inline.settings.log()).catch_up()


def test_another_format_of_the_state_is_refused_in_words() -> None:
    head = json.loads((GOLDEN / "bucket-0" / "head").read_bytes()) | {"format": keeping.FORMAT + 1}
    with pytest.raises(StateError, match="The state has format 2, this version reads 1"):
        decode_head(json.dumps(head).encode())


if __name__ == "__main__" and os.environ.get("EDDYLINE_UPDATE") == "1":
    write()
