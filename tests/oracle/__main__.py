"""`python -m tests.oracle`: random cases of every class, engine against reference, and a count of them by class.

A case is a query and an input under some cut into batches. Seeds that differ are printed with their scenarios, and the
exit status tells whether there were any.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import count, islice

from eddyline.index.ranges.range_search import STRATEGIES
from tests.oracle import functions, join_scenarios, lazy, test_oracle, test_range_joins, twins
from tests.oracle.range_joins import KINDS as RANGE_KINDS

AT_ONCE = 20  # scenarios a process plays for one class before it reports


KINDS = [
    *test_oracle.KINDS,
    "range join",
    "multi-way join",
    "functions",
    "twins",
    *(f"lazy {kind}" for kind in lazy.KINDS),
]


def tasks(seed: int, kinds: Sequence[str]) -> Iterator[tuple[str, int]]:
    """(class, first seed) without end, the classes in turn."""
    for first in count(seed, AT_ONCE):
        for kind in kinds:
            yield kind, first


def play(task: tuple[str, int]) -> tuple[str, int, list[str]]:
    """The class, how many cases were compared, and what differed."""
    kind, first = task
    compared, differences = 0, []
    for seed in range(first, first + AT_ONCE):
        try:
            if kind == "range join":
                strategies = ["auto", "by row", *STRATEGIES]
                compared += test_range_joins.play(
                    RANGE_KINDS[seed % len(RANGE_KINDS)], strategies[seed // len(RANGE_KINDS) % len(strategies)], seed
                )
            elif kind == "multi-way join":
                compared += join_scenarios.play(seed)
            elif kind == "functions":
                compared += functions.play(seed)
            elif kind == "twins":
                compared += twins.play(seed)
            elif kind.startswith("lazy "):
                compared += lazy.play(kind.removeprefix("lazy "), seed)
            else:
                compared += test_oracle.play(kind, seed)
        except Exception as e:
            differences.append("\n".join([f"{type(e).__name__}: {e}", *getattr(e, "__notes__", [])]))
    return kind, compared, differences


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000, help="play at least so many")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--kind", choices=KINDS, nargs="*", default=KINDS, help="play only cases of these classes")
    given = parser.parse_args()
    compared: Counter[str] = Counter()
    differences: list[str] = []
    waiting = tasks(given.seed, given.kind)
    with ProcessPoolExecutor(given.processes) as pool:
        while compared.total() < given.cases:
            for kind, cases, differ in pool.map(play, islice(waiting, 2 * max(len(given.kind), given.processes))):
                compared[kind] += cases
                differences += differ
            print(f"{compared.total()} cases, {len(differences)} differences", file=sys.stderr, flush=True)
    for kind, cases in sorted(compared.items()):
        print(f"{kind}: {cases} cases")
    print(f"together: {compared.total()} (query, input) cases, {len(differences)} differences")
    print("\n\n".join(differences[:10]))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
