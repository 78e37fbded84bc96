"""Figure 11 of document 4: upkeep of 100,000 band joins under 100,000 updates, half of them inserts (eps = 3).

BJ-SSI keeps a stabbing partition and both orders of every group; the merge join keeps one list of all ranges, sorted
by low end. Both are sorted columns in which places are found by search and made by moving what follows. Updates come
one to a call, as in the document, or many, which a single list takes in at one go.

The engine itself keeps *runs* of groups that never change, so that whoever reads an earlier version is not disturbed:
new queries make a run, alike runs are joined, dropped queries are passed over. They stand beside, with their bits and
prefix sets, and the table of queries that they index.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from benchmarks._chart import Panel, draw
from benchmarks._join_workloads import band_joins
from benchmarks._report import Figure, report
from benchmarks.yardsticks.band_lists import BandLists, SortedRanges
from benchmarks.yardsticks.stabbing_sets import StabbingSets
from eddyline import types as t
from eddyline.arrays import Ints
from eddyline.index.ranges.range_groups import RangeGroups, range_groups
from eddyline.index.ranges.stabbing import canonical
from eddyline.operators.evaluate import Functions
from eddyline.operators.query_runs import QueryRuns
from eddyline.sql.bound import Field
from eddyline.state.query_table import QueryRows, QueryTable

QUERIES = UPDATES = 100_000
EPS = 3.0
A_CALL = (1, 10, 100, 1_000)


def updates(rng: np.random.Generator) -> tuple[np.ndarray, Ints]:
    """Whether each update inserts, and which range: new ones in turn, or one of those that are there."""
    insert = rng.random(UPDATES) < 0.5
    there = list(range(QUERIES))
    ids, fresh = np.empty(UPDATES, np.int64), QUERIES
    for i, new in enumerate(insert):
        if new:
            ids[i] = fresh
            there.append(fresh)
            fresh += 1
        else:
            place = int(rng.integers(0, len(there)))
            there[place], there[-1] = there[-1], there[place]
            ids[i] = there.pop()
    return insert, ids


class Ssi:
    def __init__(self, low: Ints, high: Ints) -> None:
        self.low, self.high = low, high
        self.index = StabbingSets(BandLists, eps=EPS)
        self.index.insert(np.arange(QUERIES), low[:QUERIES], high[:QUERIES])

    def update(self, insert: np.ndarray, ids: Ints) -> None:
        self.index.update(insert, ids, self.low[ids], self.high[ids])


class List:
    def __init__(self, low: Ints, high: Ints) -> None:
        self.low, self.high = low, high
        self.ranges = SortedRanges(np.arange(QUERIES), low[:QUERIES], high[:QUERIES])

    def update(self, insert: np.ndarray, ids: Ints) -> None:
        new, gone = ids[insert], ids[~insert]
        if len(new) and len(gone):  # what comes and goes within a call need not be known
            new, gone = new[~np.isin(new, gone)], gone[gone < new.min()]
        if len(new):
            self.ranges.insert(new, self.low[new], self.high[new])
        if len(gone):
            self.ranges.remove(gone, self.low[gone])


class Runs:
    def __init__(self, low: Ints, high: Ints) -> None:
        self.low, self.high = low, high
        self.table = QueryTable([Field("low", t.BIGINT), Field("high", t.BIGINT)])
        self.runs = QueryRuns(self._groups)
        self.range_at = np.empty(0, np.int64)  # by position, which is the query's id as long as nothing is cleared away
        self.place_of = np.full(len(low), -1, np.int64)
        self.update(np.ones(QUERIES, np.bool_), np.arange(QUERIES))

    def update(self, insert: np.ndarray, ids: Ints) -> None:
        new, gone = ids[insert], ids[~insert]
        self.place_of[new] = len(self.range_at) + np.arange(len(new))
        self.range_at = np.append(self.range_at, new)
        params = [pa.array(self.low[new]), pa.array(self.high[new])]
        self.table.add(pa.array(new).cast(pa.string()), params, np.zeros(len(new), np.int64))
        self.table.drop(self.place_of[gone])
        self.runs(self.table.rows(), Functions({}, {}))

    def _groups(self, _: QueryRows, positions: Ints, __: Functions) -> RangeGroups:
        which = self.range_at[positions]
        return range_groups(positions, self.low[which][None, :], self.high[which][None, :], [])


KEPT = {"BJ-SSI": Ssi, "sorted list": List, "runs": Runs}


def taken(kept: Ssi | List | Runs, insert: np.ndarray, ids: Ints, a_call: int) -> float:
    """Microseconds an update."""
    begun = time.perf_counter()
    for i in range(0, len(ids), a_call):
        kept.update(insert[i : i + a_call], ids[i : i + a_call])
    return (time.perf_counter() - begun) / len(ids) * 1e6


def main() -> bool:
    rng = np.random.default_rng(11)
    q = band_joins(rng, QUERIES + UPDATES, length=700, spread=80)
    insert, ids = updates(rng)
    for kind in KEPT.values():
        taken(kind(q.low, q.high), insert[:500], ids[:500], 10)  # everything is compiled then
    found: dict[str, list[float]] = {name: [] for name in KEPT}
    for a_call in A_CALL:
        count = min(UPDATES, max(4_000, 500 * a_call))
        kept = {name: kind(q.low, q.high) for name, kind in KEPT.items()}
        for name, k in kept.items():
            found[name].append(taken(k, insert[:count], ids[:count], a_call))
        left = kept["sorted list"].ranges.columns()[2]
        groups, fewest = len(kept["BJ-SSI"].index), len(canonical(q.low[left], q.high[left]))
    ratios = [a / b for a, b in zip(found["BJ-SSI"], found["sorted list"], strict=True)]
    lines = {name: (A_CALL, us) for name, us in found.items()}
    draw("ssi-upkeep", [Panel("11: upkeep", "updates a call", "µs an update", lines, "log")])
    figures = [
        Figure("stabbing groups after the updates", groups, ""),
        Figure("the fewest possible", fewest, ""),
        Figure("groups, times the fewest", groups / fewest, "", limit=1 + EPS),
        *(Figure(f"{n:,} updates a call: {name}", us, "µs")
          for name, all_us in found.items() for n, us in zip(A_CALL, all_us, strict=True)),
        *(Figure(f"{n:,} updates a call: BJ-SSI, times the sorted list", r, "", limit=1.3 if n == 1 else None)
          for n, r in zip(A_CALL, ratios, strict=True)),
    ]  # fmt: skip
    return report("ssi-upkeep", figures)


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
