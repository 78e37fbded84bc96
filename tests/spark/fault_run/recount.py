"""What the sink must hold, recounted with NumPy from the raw input, and held against it row by row."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eddyline.engine.clocks import StreamClock
from eddyline.spark.input.offsets import offset_in
from tests.spark.fault_run.world import BUSY, DELAY, PAIR, STREAMS, Operation

SECOND = 1_000_000


class Wrong(AssertionError):
    """The sink does not hold what the input makes."""


@dataclass(frozen=True)
class Rows:
    """The rows of a stream that were processed, and in which micro-batch each was."""

    id: np.ndarray
    k: np.ndarray
    x: np.ndarray
    ts: np.ndarray
    batch: np.ndarray


def read_sink(out: Path) -> dict[str, pa.Table]:
    """All changes by query; raises if a (batch, position) is there twice in a family."""
    found: dict[str, list[pa.Table]] = {}
    for folder in sorted(f for f in out.iterdir() if f.is_dir() and not f.name.startswith((".", "_"))):
        files = sorted(folder.glob("*.parquet"))
        if not files:
            continue
        rows = pa.concat_tables([pq.read_table(f, partitioning=None) for f in files])
        places = np.stack([rows.column("batch").to_numpy(), rows.column("position").to_numpy()])
        if np.unique(places, axis=1).shape[1] != rows.num_rows:
            raise Wrong(f"{folder.name}: some (batch, position) is there twice")
        order = pc.sort_indices(rows, [("query", "ascending"), ("batch", "ascending"), ("position", "ascending")])
        rows = rows.take(order)
        names = rows.column("query").combine_chunks().dictionary_encode()
        codes = names.indices.to_numpy()
        starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
        for start, end in zip(starts, [*starts[1:], len(codes)], strict=True):
            name = names.dictionary[int(codes[start])].as_py()
            found.setdefault(name, []).append(rows.slice(int(start), int(end - start)))
    return {name: pa.concat_tables(parts) for name, parts in found.items()}


def processed(raw: pa.Table, census: pa.Table) -> Rows:
    """The rows that `all_r` or `all_s` has selected; raises if one of them is there twice or was never given."""
    if not set(census.column("op").to_pylist()) <= {"+"}:
        raise Wrong("a row of a plain selection was retracted")
    ids, batch = census.column("id").to_numpy(), census.column("batch").to_numpy()
    order = np.argsort(ids)
    ids, batch = ids[order], batch[order]
    if len(np.unique(ids)) != len(ids):
        twice = ids[:-1][ids[1:] == ids[:-1]]
        raise Wrong(f"{len(twice)} rows were processed twice, for instance {twice[0]}")
    all_ids = raw.column("id").to_numpy()
    where = np.searchsorted(all_ids, ids)
    if np.any(where == len(all_ids)) or np.any(all_ids[np.minimum(where, len(all_ids) - 1)] != ids):
        raise Wrong("the sink has rows that were never given")
    ts = raw.column("ts").cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    return Rows(ids, raw.column("k").to_numpy()[where], raw.column("x").to_numpy()[where], ts[where], batch)


def missing(raw: pa.Table, rows: Rows, late: Sequence[int]) -> np.ndarray:
    """The ids that were neither processed nor late; raises if one was both."""
    both = np.intersect1d(rows.id, late)
    if len(both):
        raise Wrong(f"{len(both)} rows were processed and are late, for instance {both[0]}")
    return np.setdiff1d(raw.column("id").to_numpy(), np.concatenate([rows.id, np.asarray(late, np.int64)]))


def check_filters(
    rows: Rows, sink: Mapping[str, pa.Table], history: Sequence[Operation], version_of: Mapping[int, int]
) -> int:
    """The family `above`: each query has the rows in its range, of the micro-batches in which it stood."""
    lives: dict[str, tuple[tuple[float, float], int, float]] = {}
    for operation in history:
        for query, bounds in operation.added.items():
            lives[query] = bounds, operation.version, math.inf
        for query in operation.dropped:
            bounds, since, _ = lives[query]
            lives[query] = bounds, since, operation.version
    version = np.array([version_of[int(b)] for b in rows.batch])
    order = np.argsort(rows.x)
    sorted_x = rows.x[order]
    compared = 0
    for query, ((lo, hi), since, until) in lives.items():
        inside = order[np.searchsorted(sorted_x, lo, "left") : np.searchsorted(sorted_x, hi, "right")]
        inside = inside[(version[inside] >= since) & (version[inside] < until)]
        want = sorted(zip(rows.id[inside].tolist(), rows.batch[inside].tolist(), strict=True))
        compared += len(want)
        _same(query, want, sink.get(query), lambda t: zip(t["id"].to_pylist(), t["batch"].to_pylist(), strict=True))
    strangers = [q for q in sink if q.startswith(("permanent_", "churn")) and q not in lives]
    if strangers:
        raise Wrong(f"the sink has changes of {strangers[0]!r}, which was never registered")
    return compared


def check_pairs(r: Rows, s: Rows, sink: Mapping[str, pa.Table]) -> int:
    """The join: every pair with the same key at most `PAIR` seconds apart, once, and never retracted."""
    want: list[tuple[int, int]] = []
    for key in np.unique(r.k):
        left, right = np.flatnonzero(r.k == key), np.flatnonzero(s.k == key)
        right = right[np.argsort(s.ts[right], kind="stable")]
        first = np.searchsorted(s.ts[right], r.ts[left] - PAIR * SECOND, "left")
        last = np.searchsorted(s.ts[right], r.ts[left] + PAIR * SECOND, "right")
        for i, a, b in zip(left, first, last, strict=True):
            want += [(int(r.id[i]), int(j)) for j in s.id[right[a:b]]]
    _same("pairs", sorted(want), sink.get("pairs"), lambda t: zip(t["r"].to_pylist(), t["s"].to_pylist(), strict=True))
    return len(want)


def check_busy(r: Rows, sink: Mapping[str, pa.Table], clock: int) -> int:
    """The aggregate: its changes, folded at many instants up to the clock, give count and exact sum by key."""
    changes = sink["busy"]
    sign = np.where(np.array(changes["op"].to_pylist()) == "+", 1, -1)
    begin, end = (
        changes[c].cast(pa.timestamp("us")).cast(pa.int64()).fill_null(2**62).to_numpy() for c in ("ts", "exp")
    )
    answers = list(zip(changes["k"].to_pylist(), changes["n"].to_pylist(), changes["total"].to_pylist(), strict=True))
    instants = np.arange(int(r.ts.min()), clock + 1, SECOND // 2)
    for t in instants:
        folded: dict[tuple[int, int, float], int] = {}
        for i in np.flatnonzero((begin <= t) & (t <= end)):
            folded[answers[i]] = folded.get(answers[i], 0) + int(sign[i])
        got = {answer: count for answer, count in folded.items() if count}
        inside = np.flatnonzero((r.ts <= t) & (r.ts >= t - BUSY * SECOND))
        want = {}
        for key in np.unique(r.k[inside]):
            x = r.x[inside[r.k[inside] == key]]
            want[int(key), len(x), math.fsum(x)] = 1
        if got != want:
            odd = sorted(set(got.items()) ^ set(want.items()), key=str)[:4]
            raise Wrong(f"busy at {t}: {len(got)} rows instead of {len(want)}; for instance {odd}")
    return len(instants)


def _same(query: str, want: list[tuple[int, int]], table: pa.Table | None, tuples: object) -> None:
    got = [] if table is None else sorted(tuples(table))  # type: ignore[operator]
    if table is not None and not set(table["op"].to_pylist()) <= {"+"}:
        raise Wrong(f"{query}: a row was retracted that never is")
    if got != want:
        lost, more = sorted(set(want) - set(got)), sorted(set(got) - set(want))
        odd = f"{len(lost)} lost {lost[:3]}, {len(more)} too many {more[:3]}"
        raise Wrong(f"{query}: {len(got)} rows instead of {len(want)}; {odd}")


def late_and_reported(dead_letter: Path) -> tuple[dict[str, list[int]], set[str]]:
    """The ids of late rows by stream, and the input files reported as not read."""
    late: dict[str, list[int]] = {s: [] for s in STREAMS}
    files: set[str] = set()
    for stream in STREAMS:
        for file in sorted((dead_letter / stream).glob("*.parquet")) if (dead_letter / stream).is_dir() else ():
            for row in pq.read_table(file, partitioning=None).to_pylist():
                if row["id"] is None:
                    files.add(f"{stream}/{Path(row['place']).name}")
                else:
                    late[stream].append(row["id"])
    return late, files


def ids_of(raw: Path, names: Sequence[str]) -> set[int]:
    return {i for name in names for i in pq.read_table(raw / name, columns=["id"]).column("id").to_pylist()}


def read(raw: Path, names: Sequence[str], rows: Rows) -> set[str]:
    """The files of which some row was processed."""
    processed_ids = set(rows.id.tolist())
    return {name for name in names if ids_of(raw, [name]) & processed_ids}


def listed(checkpoint: Path, names: Sequence[str]) -> set[str]:
    """The files that the sources' own logs in the checkpoint name."""
    logs = [f for f in (checkpoint / "sources").rglob("*") if f.is_file()]
    logs += [f for f in (checkpoint / "offsets").glob("*") if f.is_file()]
    text = "".join(f.read_text(errors="replace") for f in logs)
    return {name for name in names if f"in/{name}" in text}


def versions(checkpoint: Path, last: int, amended: Mapping[int, int]) -> dict[int, int]:
    """Which version of the catalog was in force in which micro-batch. `amended` has those of amended micro-batches."""
    found: dict[int, int] = {}
    least = 0
    for b in range(last + 1):
        least = max(least, amended.get(b, 0))
        found[b] = max(least, offset_in((checkpoint / "offsets" / str(b)).read_text())["commit"])
    return found


def clock(checkpoint: Path, last: int, stream: str) -> int:
    """The watermark of a stream after the last micro-batch."""
    said = json.loads((checkpoint / "eddyline" / "clocks" / f"{last:09}.json").read_text())[stream]
    return StreamClock(DELAY * SECOND, said["high"], said["floor"]).watermark
