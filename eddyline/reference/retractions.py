"""Invariants of a log of changes: every `-` retracts exactly one `+`, and with `emit = 'all'` signs give the answer.

A `-` retracts an earlier `+` of the same row and the same `exp`, which begins no later than the `-`, and no other `-`
retracts that `+`. With `emit = 'all'` a row that expires gets a `-` too, with `ts` just after `exp`; then the signs of
all changes up to an instant sum to the number of rows in the answer.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable
from typing import Literal, TypeAlias

from eddyline.reference.values import MIN, Row, canonical

Change: TypeAlias = tuple[Literal["+", "-"], int | None, int | None, Row]
"""Sign, `ts` (None: no beginning), `exp` (None: no end) and row."""


def unmatched(log: Iterable[Change]) -> list[Change]:
    """The `-` of a log without an earlier `+` that is not yet retracted. O(n log n) for n changes."""
    begins: dict[tuple[Row, int | None], list[int]] = {}  # sorted `ts` of each `+` that is not yet retracted
    wrong: list[Change] = []
    for op, ts, exp, row in log:
        sent = begins.setdefault((canonical(row), exp), [])
        at = MIN if ts is None else ts
        if op == "+":
            insort(sent, at)
            continue
        # The latest possible `+` is matched, so that earlier ones remain for a `-` that begins earlier.
        match = bisect_right(sent, at) - 1
        if match < 0:
            wrong.append((op, ts, exp, row))
        else:
            del sent[match]
    return wrong


def fold_by_signs(log: Iterable[Change], upto: int) -> dict[tuple[Row, int], int]:
    """The fold of a log under `emit = 'all'` by signs and `ts` only, in the form that `normalise` returns."""
    total: Counter[tuple[Row, int]] = Counter()
    for op, ts, _, row in log:
        total[canonical(row), MIN if ts is None else ts] += 1 if op == "+" else -1
    return {key: n for key, n in total.items() if n and key[1] <= upto}
