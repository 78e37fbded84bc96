"""455 three-way joins over 15 streams on a common key, each with its own selection: throughput and memory.

Every query joins another triple of streams, so each is a family of its own. Windows hold `WINDOW` rows of each stream
and keys have as many values: a row has one partner in each other stream on average, as in document 1 (section 3.3).
A query selects 10% or 1% of the values of one of its streams. Rows are pushed to the streams in turn, 1, 100 and 10,000
at a time, after the orders of probes have settled (1,050,000 rows). The results of all runs are compared by a hash that
does not depend on their order. Memory is the resident set of a process per configuration, read by its parent.

15 SteMs alone are measured as 5 of the joins, over disjoint triples: every stream is stored once, by its key, and no
smaller set of three-way joins does that. Document 1 compares SteMs with intermediate indexes, which store every joined
pair of streams (`yardsticks/intermediate_indexes.py`).

`python -m benchmarks.shared_joins --other CHECKOUT` also runs another version of the engine, in alternation;
`--tree CHECKOUT` runs another version instead of this one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks._report import Figure, report
from benchmarks._shared_join_runs import Settings

ROOT = Path(__file__).resolve().parent.parent
WINDOW = 10_000
SHARES = (0.1, 0.01)
PUSHES = [[1, 30], [100, 30], [10_000, 15]]
SETTLE = 90  # pushes of 10,000 rows: all orders of probes have been searched, at most 1,024 arrivals for each
MEGABYTE = 1024.0  # kB


@dataclass
class Measured:
    """What one process reported, and its memory in MB whenever it waited."""

    version: str
    settings: Settings
    seconds: dict[int, list[list[float]]] = field(default_factory=dict)  # by rows a push: until counted, until read
    memory: dict[str, dict[str, float]] = field(default_factory=dict)
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    load: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def throughput(self, rows: int, *, read: bool = False) -> float:
        """Tuples per second, by the median push."""
        return rows / median(s[1 if read else 0] for s in self.seconds[rows])

    @property
    def answers(self) -> tuple[str, int]:
        return self.events["answers"]["hash"], self.events["answers"]["results"]

    def rss(self, moment: str) -> float:
        return self.memory[moment]["Rss"]


def run(name: str, tree: Path, settings: Settings) -> Measured:
    """Runs one configuration in a process that imports the engine from a tree."""
    child = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("_shared_join_runs.py")), json.dumps(asdict(settings))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tree)},
    )
    assert child.stdin is not None and child.stdout is not None
    measured = Measured(name, settings)
    print(f"{name}: {settings.joins} joins, {settings.share:.0%} selected", file=sys.stderr)
    for line in child.stdout:
        said = json.loads(line)
        if "waits" in said:
            measured.memory[said["waits"]] = _memory(child.pid)
            measured.events.setdefault(said.pop("waits"), {}).update(said)
            child.stdin.write("\n")
            child.stdin.flush()
        elif said["event"] == "pushed":
            measured.seconds[said["rows"]] = said["seconds"]
        else:
            measured.events.setdefault(said.pop("event"), {}).update(said)
    if child.wait():
        raise RuntimeError(f"the run of {settings.joins} joins failed with status {child.returncode}")
    measured.load = os.getloadavg()
    return measured


def _memory(process: int) -> dict[str, float]:
    """Resident, proportional and anonymous memory of a process, in MB."""
    sizes = {}
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]:
        name, kilobytes, *_ = line.split()
        sizes[name.rstrip(":")] = float(kilobytes) / MEGABYTE
    return {name: sizes[name] for name in ("Rss", "Pss", "Anonymous")}


def figures_of(all_joins: Measured, alone: Measured, name: str, share: float) -> list[Figure]:
    """What one version is measured by."""
    claims = [
        Figure(f"{name}: {share:.0%} selected, pushes of {n:,} rows", all_joins.throughput(n), "tuples/s")
        for n, _ in PUSHES
    ]
    claims += [
        Figure(f"{name}: the same, all results read, pushes of {n:,}", all_joins.throughput(n, read=True), "tuples/s")
        for n, _ in PUSHES
    ]
    full, stems, empty = all_joins.rss("full"), alone.rss("full"), all_joins.rss("empty")
    own = name == "this version"
    return [
        *claims,
        Figure(f"{name}: memory of 455 joins", full, "MB"),
        Figure(f"{name}: memory of 15 SteMs alone", stems, "MB"),
        Figure(f"{name}: memory of 455 joins against 15 SteMs alone", full / stems, "times", 1.2 if own else None),
        Figure(
            f"{name}: the same without the {empty:.0f} MB of an empty process",
            (full - empty) / (stems - empty),
            "times",
        ),
    ]


def added(with_queries: Measured, control: Measured, name: str) -> list[Figure]:
    """What a further query costs. Its memory is that beyond a control that makes the same pushes without it: at once,
    and after a whole window of every stream, when its own state has grown. The second query follows the first."""
    claims, own = list[Figure](), name == "this version"
    for kind, words in (
        ("selection", "a second selection over a triple"),
        ("shape", "also a condition of another shape"),
    ):
        at_once, later = (
            100 * (with_queries.rss(moment) / control.rss(moment) - 1.0)
            for moment in (f"{kind} added", f"{kind} steady")
        )
        seconds = with_queries.events[f"{kind} added"]["seconds"]
        claims += [
            Figure(f"{name}: {words}, time", 1000 * seconds, "ms", 5.0 if own else None),
            Figure(f"{name}: {words}, memory at once", at_once, "%", 1.0 if own else None),
            Figure(f"{name}: {words}, memory a window later", later, "%", 1.0 if own else None),
        ]
    before = with_queries.rss("steady") / control.rss("steady") - 1.0
    return [*claims, Figure(f"{name}: memory before, against the control", 100 * before, "%")]


def state_table(all_joins: Measured, alone: Measured, yardstick: Measured) -> list[Figure]:
    """Document 1's comparison: what is stored for 455 queries, beyond an empty process."""
    state, empty = yardstick.events["full"], yardstick.rss("empty")
    megabyte = 2.0**20
    return [
        Figure("document 1, computed there: 15 SteMs", 6.9, "MB"),
        Figure("document 1, computed there: intermediate indexes", 101, "MB"),
        Figure("15 SteMs alone, beyond an empty process", alone.rss("full") - alone.rss("empty"), "MB"),
        Figure(
            "455 joins over shared SteMs, beyond an empty process", all_joins.rss("full") - all_joins.rss("empty"), "MB"
        ),
        Figure("455 joins with intermediate indexes, beyond an empty process", yardstick.rss("full") - empty, "MB"),
        Figure("of these, rows of 15 streams", state["stream bytes"] / megabyte, "MB"),
        Figure("of these, rows of 105 joined pairs", state["pair bytes"] / megabyte, "MB"),
        Figure(
            "455 joins with intermediate indexes, pushes of 10,000 rows, numpy without an engine",
            yardstick.throughput(10_000),
            "tuples/s",
        ),
    ]


def main(tree: Path = ROOT, other: Path | None = None, window: int = WINDOW, shares: Sequence[float] = SHARES) -> bool:
    trees = {"this version": tree.resolve()} | ({} if other is None else {"other version": other.resolve()})
    figures, runs = list[Figure](), list[Measured]()
    for share in shares:
        fill = min(window, 10_000)
        common = {"window": window, "pushes": PUSHES, "share": share, "fill": fill, "settle": SETTLE}
        first = share == shares[0]
        settings = Settings("all", extra="added" if first else "no", **common)  # type: ignore[arg-type]
        by_tree = {name: run(name, tree, settings) for name, tree in trees.items()}
        yardstick = run("yardstick", ROOT, Settings("intermediate", **common))  # type: ignore[arg-type]
        runs += [*by_tree.values(), yardstick]
        agreed = {m.answers for m in (*by_tree.values(), yardstick)}
        figures.append(Figure(f"{share:.0%} selected: different answers among all runs", len(agreed), "", 1.0))
        for name, tree in trees.items():
            alone = run(name, tree, Settings("disjoint", **common))  # type: ignore[arg-type]
            runs.append(alone)
            figures += figures_of(by_tree[name], alone, name, share)
            if first:
                control = run(name, tree, replace(settings, extra="control"))
                runs.append(control)
                figures += added(by_tree[name], control, name)
            if first and name == "this version":
                figures += state_table(by_tree[name], alone, yardstick)
        if other is not None:
            for n, _ in PUSHES:
                this, that = (by_tree[name].throughput(n) for name in ("this version", "other version"))
                figures.append(
                    Figure(f"{share:.0%} selected, pushes of {n:,}: against the other", this / that, "times", least=30)
                )
    return report("shared-joins", figures, {"window": window, "runs": [asdict(m) for m in runs]})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--other", type=Path, help="a checkout of another version, which runs in alternation")
    parser.add_argument("--window", type=int, default=WINDOW, help="rows of a stream in its window")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout to measure")
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES, help="shares of v that queries select")
    given = parser.parse_args()
    sys.exit(0 if main(given.tree, given.other, given.window, given.shares) else 1)
