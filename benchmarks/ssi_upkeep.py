"""Figure 11 of document 4: upkeep of 100,000 band joins under 100,000 updates, half of them inserts (eps = 3).

BJ-SSI keeps a stabbing partition and both orders of every group; the merge join keeps one list of all ranges, sorted
by low end. Both are sorted columns in which places are found by search and made by moving what follows. Updates come
one to a call, as in the document, or many, which a single list takes in at one go.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks._chart import Panel, draw
from benchmarks._join_workloads import Ints, band_joins
from benchmarks._report import Figure, report
from eddyline.index.band_lists import BandLists, SortedRanges
from eddyline.index.stabbing import canonical
from eddyline.index.stabbing_sets import StabbingSets

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


def main() -> bool:
    rng = np.random.default_rng(11)
    q = band_joins(rng, QUERIES + UPDATES, length=700, spread=80)
    low, high = q.low, q.high
    insert, ids = updates(rng)
    ssi_taken, list_taken, groups, tau = [], [], 0, 0
    for a_call in A_CALL:
        count = min(UPDATES, max(4_000, 500 * a_call))
        first = np.arange(QUERIES)
        index = StabbingSets(BandLists, eps=EPS)
        index.insert(first, low[:QUERIES], high[:QUERIES])
        plain = SortedRanges(first, low[:QUERIES], high[:QUERIES])
        begun = time.perf_counter()
        for i in range(0, count, a_call):
            some = slice(i, i + a_call)
            index.update(insert[some], ids[some], low[ids[some]], high[ids[some]])
        ssi_taken.append((time.perf_counter() - begun) / count * 1e6)
        begun = time.perf_counter()
        for i in range(0, count, a_call):
            new, gone = ids[i : i + a_call][insert[i : i + a_call]], ids[i : i + a_call][~insert[i : i + a_call]]
            if len(new) and len(gone):  # what comes and goes within a call need not be known
                gone, stays = gone[gone < new.min()], new[~np.isin(new, gone)]
                new = stays
            if len(new):
                plain.insert(new, low[new], high[new])
            if len(gone):
                plain.remove(gone, low[gone])
        list_taken.append((time.perf_counter() - begun) / count * 1e6)
        kept = plain.columns()[2]
        groups, tau = len(index), len(canonical(low[kept], high[kept]))
    ratios = [a / b for a, b in zip(ssi_taken, list_taken, strict=True)]
    lines = {"BJ-SSI": (A_CALL, ssi_taken), "sorted list": (A_CALL, list_taken)}
    draw("ssi-upkeep", [Panel("11: upkeep", "updates a call", "µs an update", lines, "log")])
    figures = [
        Figure("stabbing groups after the updates", groups, ""),
        Figure("the fewest possible", tau, ""),
        Figure("groups, times the fewest", groups / tau, "", limit=1 + EPS),
        *(Figure(f"{n:,} updates a call: BJ-SSI", t, "µs") for n, t in zip(A_CALL, ssi_taken, strict=True)),
        *(Figure(f"{n:,} updates a call: sorted list", t, "µs") for n, t in zip(A_CALL, list_taken, strict=True)),
        *(Figure(f"{n:,} updates a call: BJ-SSI, times the sorted list", r, "", limit=1.3 if n == 1 else None)
          for n, r in zip(A_CALL, ratios, strict=True)),
    ]  # fmt: skip
    return report("ssi-upkeep", figures)


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
