"""Document 3, section 6, Figures 9 to 17: Queries 1 to 5 over a trace of TCP connections, in each execution.

A time unit is a millisecond. Each link gets one connection in a unit on average. Windows are filled in batches of a
twentieth of the window, and then batches of `BATCH` units are measured: the CPU time until the changes are counted.
All executions get a batch in turn, before the next one. Times are means, because state that is maintained lazily costs
time in few batches only; medians are in the series. At the end, the answers are compared.

Query 5 is (L1 − L2) ⋈ L3 or, with the same answer, (L1 ⋈ L3) − (L2 ⋈ L3). The plan on the left of the document's
Figure 6, (L1 ⋈ L3) − L2, has another answer where a source is repeated.

`python -m benchmarks.upa_queries --other CHECKOUT` compares with another version of the engine, in its own process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).resolve().parent.parent
BATCH, BATCHES, WARM = 500, 40, 2  # units; measured batches; batches of this size before them
UNIT = 1_000  # microseconds
SCHEMA = "ts TIMESTAMP, duration DOUBLE, protocol VARCHAR, payload BIGINT, source BIGINT, destination BIGINT"
EXECUTIONS = ("upa", "nt", "direct")
MANY = (2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000)

BELOW, ABOVE = "negation below the join", "negation above the join"
CHOSEN = "chosen by the engine"
OTHER = "other version"

JOIN = (
    "SELECT x.source, x.payload AS first, y.payload AS second FROM link1 {w} AS x, link2 {w} AS y "
    "WHERE x.source = y.source AND x.protocol = '{p}' AND y.protocol = '{p}'"
)
JOINED = "SELECT x.source FROM {link} {w} AS x, link3 {w} AS z WHERE x.source = z.source AND z.protocol = 'ftp'"


@dataclass(frozen=True)
class Query:
    """`texts`: forms with the same answer, by name, where {w} is the window."""

    name: str
    figure: int
    links: int
    windows: tuple[int, ...]
    texts: Mapping[str, str]

    def ways(self) -> Iterator[tuple[str, str, str, bool]]:
        """Of this version: the name of a way to run it, its text, its execution, and whether it is run as written."""
        for execution in EXECUTIONS:
            for form, text in self.texts.items():
                yield ", ".join([execution, *([form] if form else [])]), text, execution, bool(form)
        if len(self.texts) > 1:
            for form, text in self.texts.items():
                yield f"upa, {CHOSEN}, written with {form}", text, "upa", False


QUERIES = [
    Query("Query 1, ftp", 9, 2, MANY[:6], {"": JOIN.replace("{p}", "ftp")}),
    Query("Query 1, telnet", 10, 2, MANY[:5], {"": JOIN.replace("{p}", "telnet")}),
    Query("Query 2, sources", 11, 1, MANY, {"": "SELECT DISTINCT source FROM link1 {w}"}),
    Query("Query 2, pairs", 12, 1, MANY, {"": "SELECT DISTINCT source, destination FROM link1 {w}"}),
    Query(
        "Query 3",
        15,
        2,
        (1_000, *MANY),
        {"": "SELECT source FROM link1 {w} EXCEPT ALL SELECT source FROM link2 {w}"},
    ),
    Query(
        "Query 4",
        16,
        2,
        MANY,
        {
            "": "SELECT x.source FROM (SELECT DISTINCT source FROM link1 {w}) AS x, "
            "(SELECT DISTINCT source FROM link2 {w}) AS y WHERE x.source = y.source"
        },
    ),
    Query(
        "Query 5",
        17,
        3,
        MANY[:5],
        {
            BELOW: "SELECT d.source FROM (SELECT source FROM link1 {w} EXCEPT ALL SELECT source FROM link2 {w}) AS d, "
            "link3 {w} AS z WHERE d.source = z.source AND z.protocol = 'ftp'",
            ABOVE: f"{JOINED.replace('{link}', 'link1')} EXCEPT ALL {JOINED.replace('{link}', 'link2')}",
        },
    ),
]
UNITS = max(MANY) + (BATCHES + WARM) * BATCH


# --- one version of the engine, in a process of its own -----------------------------------------------------------


class Running:
    """A query that runs in one way."""

    def __init__(self, text: str, execution: str, *, as_written: bool) -> None:
        import eddyline

        self.db = eddyline.connect()
        for i in (1, 2, 3):
            self.db.execute(f"CREATE STREAM link{i} ({SCHEMA}) WATERMARK ts")
        option = "" if execution == "upa" else f" WITH (execution = '{execution}')"
        with _as_written() if as_written else nullcontext():
            self.db.execute(f"CREATE CONTINUOUS QUERY q{option} AS {text}")
        self.plus = self.minus = 0

    def push(self, batch: Mapping[str, pa.Table]) -> float:
        began = time.process_time()
        changes = self.db.push(batch)
        changes.count()
        seconds = time.process_time() - began
        ops = changes.rows("q").column("op").to_numpy(zero_copy_only=False) if changes.count() else np.array([])
        self.plus += int((ops == "+").sum())
        self.minus += int((ops == "-").sum())
        return seconds

    def end(self) -> dict[str, Any]:
        answer = self.db.snapshot("q")
        answer = answer.sort_by([(name, "ascending") for name in answer.column_names])
        hashed = hashlib.sha256()
        for column in answer.columns:
            hashed.update(np.ascontiguousarray(column.to_numpy()).tobytes())
        stats = self.db.stats()
        (family,) = stats["families"].values()
        explained = str(self.db.explain("q"))
        return {
            "plus": self.plus,
            "minus": self.minus,
            "rows": answer.num_rows,
            "answer": hashed.hexdigest()[:16],
            "state_rows": family["state_rows"],
            "bytes": stats.get("state_bytes", 0) + stats.get("shared_bytes", 0),
            "rewritten": [line for line in explained.splitlines() if line.startswith("rewritten")],
        }


def _as_written() -> AbstractContextManager[None]:
    from benchmarks.rewrites import planned

    return planned(())


class Child:
    """Reads a command a line, writes an answer a line, both JSON."""

    def __init__(self, trace: Path) -> None:
        self.tables = {f.stem: pa.ipc.open_file(pa.memory_map(str(f))).read_all() for f in trace.glob("*.arrow")}
        self.times = {name: t.column("ts").to_numpy().astype(np.int64) for name, t in self.tables.items()}
        self.running: dict[str, Running] = {}
        self.links: list[str] = []

    def batch(self, start: int, stop: int) -> dict[str, pa.Table]:
        cut = {}
        for link in self.links:
            first, last = np.searchsorted(self.times[link], [start * UNIT, stop * UNIT]).tolist()
            cut[link] = self.tables[link].slice(first, last - first).combine_chunks()
        return cut

    def begin(self, links: int, ways: list[tuple[str, str, str, bool]]) -> dict[str, str]:
        """Registers the query in each way; returns those that are refused because they change nothing."""
        import eddyline

        self.links, self.running, refused = [f"link{i + 1}" for i in range(links)], {}, {}
        for name, text, execution, as_written in ways:
            try:
                self.running[name] = Running(text, execution, as_written=as_written)
            except eddyline.BindError as error:
                if "has no effect" not in str(error):
                    raise
                refused[name] = str(error)
        return refused

    def push(self, start: int, stop: int) -> dict[str, Any]:
        """Pushes the units from `start` to `stop` in each way; CPU seconds by way. The order is rotated."""
        batch = self.batch(start, stop)
        names = list(self.running)
        turn = start // BATCH % len(names)
        seconds = {name: self.running[name].push(batch) for name in names[turn:] + names[:turn]}
        return {"seconds": seconds, "tuples": sum(t.num_rows for t in batch.values())}

    def start_counting(self) -> None:
        for running in self.running.values():
            running.plus = running.minus = 0

    def end(self) -> dict[str, Any]:
        return {name: running.end() for name, running in self.running.items()}

    def run(self) -> None:
        for line in sys.stdin:
            command, arguments = json.loads(line)
            print(json.dumps(getattr(self, command)(*arguments)), flush=True)


# --- the runs of both versions ------------------------------------------------------------------------------------


class Version:
    """The engine of a checkout."""

    def __init__(self, tree: Path, trace: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--child", str(trace)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(tree)},
        )

    def call(self, command: str, *arguments: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([command, arguments]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a run failed with status {self.process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@dataclass
class Point:
    """A query with one window: by way, milliseconds per 1,000 tuples of each batch, and what was counted at the end."""

    query: Query
    window: int
    times: dict[str, list[float]] = field(default_factory=dict)
    counted: dict[str, dict[str, Any]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    tuples: int = 0

    def mean(self, way: str) -> float:
        """Of the default execution, where the one that is asked for would change nothing."""
        return mean(self.times[way if way in self.times else way.replace("nt", "upa").replace("direct", "upa")])

    def changes(self, way: str) -> float:
        """Per 1,000 tuples."""
        return 1_000 * (self.counted[way]["plus"] + self.counted[way]["minus"]) / self.tuples

    @property
    def premature(self) -> float:
        """The share of results that are retracted before their window ends."""
        counted = next(c for way, c in self.counted.items() if way.startswith("upa"))
        return counted["minus"] / max(counted["plus"], 1)

    @property
    def differ(self) -> int:
        """Ways whose answer is not that of the first."""
        answers = [c["answer"] for c in self.counted.values()]
        return sum(a != answers[0] for a in answers)

    def data(self) -> dict[str, Any]:
        """As JSON: times are the mean and the median."""
        ways = {
            way: {"mean ms": mean(t), "median ms": median(t), "changes": self.changes(way)} | self.counted[way]
            for way, t in self.times.items()
        }
        return {"window": self.window, "tuples": self.tuples, "ways": ways, "refused": self.refused}


def measured(query: Query, window: int, versions: Sequence[Version], executions: Sequence[str]) -> Point:
    point = Point(query, window)
    windowed = f"[RANGE {window} MILLISECONDS]"
    own = [(n, t.replace("{w}", windowed), e, w) for n, t, e, w in query.ways() if e in executions]
    that = [
        (", ".join([OTHER, *([form] if form else [])]), t.replace("{w}", windowed), "upa", False)
        for form, t in query.texts.items()
    ]
    for version, ways in zip(versions, (own, that), strict=False):
        point.refused |= version.call("begin", query.links, ways)
    step, measure_from = max(BATCH, window // 20), window + WARM * BATCH
    end = measure_from + BATCHES * BATCH
    cuts = [*range(0, window, step), *range(window, end + 1, BATCH)]
    for start, stop in pairwise(cuts):
        if start == measure_from:
            for version in versions:
                version.call("start_counting")
        for version in versions:
            pushed = version.call("push", start, stop)
            if start >= measure_from:
                for way, seconds in pushed["seconds"].items():
                    point.times.setdefault(way, []).append(1e6 * seconds / pushed["tuples"])
        if start >= measure_from:
            point.tuples += pushed["tuples"]
    for version in versions:
        point.counted |= version.call("end")
    return point


# --- figures ------------------------------------------------------------------------------------------------------


def main(
    other: Path | None = None, only: Sequence[str] = (), executions: Sequence[str] = EXECUTIONS, largest: int = UNITS
) -> bool:
    from benchmarks._tcp_trace import Trace

    points = []
    with tempfile.TemporaryDirectory() as folder:
        for name, table in Trace(UNITS).tables().items():
            with pa.ipc.new_file(str(Path(folder) / f"{name}.arrow"), table.schema) as file:
                file.write_table(table)
        trees = [ROOT, *([other.resolve()] if other else [])]
        versions = [Version(tree, Path(folder)) for tree in trees]
        try:
            for query in QUERIES:
                for window in (w for w in query.windows if w <= largest and (not only or query.name in only)):
                    points.append(measured(query, window, versions, executions))
                    told = ", ".join(f"{way}: {mean(t):.3g}" for way, t in points[-1].times.items())
                    print(f"{query.name}, window {window:,}: ms per 1,000 tuples: {told}", flush=True)
        finally:
            for version in versions:
                version.close()
    _draw(points)
    return _report(points)


def _report(points: Sequence[Point]) -> bool:
    from benchmarks._report import Figure, report

    figures = [Figure("ways with another answer than the first", float(sum(p.differ for p in points)), "", 0)]
    by_query = {q.name: [p for p in points if p.query is q] for q in QUERIES}
    by_query = {name: of for name, of in by_query.items() if of}
    gains = {}
    for name, of in by_query.items():
        if name != "Query 5":
            if all("nt" in p.times for p in of):
                ratio = median(p.mean("nt") / p.mean("upa") for p in of)
                least = None if name == "Query 3" else 1.5
                figures.append(Figure(f"{name}: UPA against NT, median of windows", ratio, "times", least=least))
                per = median(p.mean("nt") / p.changes("nt") / (p.mean("upa") / p.changes("upa")) for p in of)
                figures.append(Figure(f"{name}: CPU time a change, NT against UPA, median of windows", per, "x", 1.3))
            if all(OTHER in p.times for p in of):
                gains[name] = median(p.mean(OTHER) / p.mean("upa") for p in of)
                figures.append(
                    Figure(f"{name}: UPA against the other version, median of windows", gains[name], "times")
                )
        else:
            figures += _of_query_5(of)
    wanted = [gain for name, gain in gains.items() if name.startswith(("Query 2", "Query 4"))]
    if wanted:
        figures.append(
            Figure("Query 2 or 4: UPA against the other version, best of them", max(wanted), "times", least=5)
        )
    for p in points:
        what = f"Figure {p.query.figure}: {p.query.name}, window {p.window:,}"
        figures += [Figure(f"{what}: {way}", mean(t), "ms per 1,000 tuples") for way, t in p.times.items()]
        if p.query.figure in (11, 12):
            what_state = f"Figure {p.query.figure + 2}: {p.query.name}, window {p.window:,}"
            own = {way: c["bytes"] / 1024 for way, c in p.counted.items() if way != OTHER}
            figures += [Figure(f"{what_state}: {way}", kilobytes, "kB") for way, kilobytes in own.items()]
        if p.query.figure in (15, 17):
            figures.append(Figure(f"{what}: premature expirations", 100 * p.premature, "%"))
    for note in sorted({f"{p.query.name}: {way}: {why}" for p in points for way, why in p.refused.items()}):
        print(note)
    return report("upa-queries", figures, {name: [p.data() for p in of] for name, of in by_query.items()})


def _of_query_5(of: Sequence[Point]) -> list[Any]:
    from benchmarks._report import Figure

    figures = []
    for p in of:
        better = min(p.mean(f"upa, {form}") for form in (BELOW, ABOVE))
        for form in (BELOW, ABOVE):
            way = f"upa, {CHOSEN}, written with {form}"
            plan = "; ".join(p.counted[way]["rewritten"]) or "as written"
            print(f"Query 5, window {p.window:,}, written with {form}: {plan}")
            claim = f"Query 5, window {p.window:,}, written with {form}: chosen against the better plan"
            figures.append(Figure(claim, p.mean(way) / better, "x", 1.1))
    return figures


def _draw(points: Sequence[Point]) -> None:
    from benchmarks._chart import Panel, draw

    panels = dict[str, list[Panel]]()
    for query in QUERIES:
        of = [p for p in points if p.query is query]
        if not of:
            continue
        windows, ways = [float(p.window) for p in of], list(of[0].times)
        picture = panels.setdefault(f"upa-{query.name.partition(',')[0].lower().replace(' ', '-')}", [])
        lines = {way: (windows, [p.mean(way) for p in of]) for way in ways}
        title, x = f"Figure {query.figure}: {query.name}", "window, time units"
        picture.append(Panel(title, x, "CPU ms per 1,000 tuples", lines, "log"))
        if query.figure in (11, 12):
            space = {way: (windows, [p.counted[way]["bytes"] / 1024 for p in of]) for way in ways if way != OTHER}
            picture.append(Panel(f"Figure {query.figure + 2}: {query.name}", x, "kB of state", space, "log"))
        if query.figure == 15:
            share = {"share of all results": (windows, [100 * p.premature for p in of])}
            picture.append(Panel(f"{query.name}: premature expirations", x, "%", share, "log x"))
    for name, of in panels.items():
        draw(name, of)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--other", type=Path, help="a checkout of another version")
    parser.add_argument("--only", nargs="*", default=[], help="names of queries")
    parser.add_argument("--executions", nargs="*", default=EXECUTIONS, choices=EXECUTIONS)
    parser.add_argument("--largest", type=int, default=UNITS, help="the largest window")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        Child(given.child).run()
    else:
        sys.exit(0 if main(given.other, given.only, given.executions, given.largest) else 1)
