"""Remembers for which stored tuples a clause held that calls functions and has no parameters, by arrival number.

Tuples that stay in a SteM are joined in many steps; the functions over them are called once, as long as no function is
defined anew. Failed calls are not remembered. At most `MOST` tuples are remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from eddyline.arrays import Ints, Mask
from eddyline.sql.bound import Call, Expr, walk

MOST = 1 << 14

Evaluate = Callable[[Ints], tuple[Mask, Mask]]  # for some positions: where a clause holds, and where it failed


class RememberedCalls:
    def __init__(self, clause: Expr) -> None:
        called = (e.function for e in walk(clause) if isinstance(e, Call))
        self._names = [f.removeprefix("udf:") for f in called if f.startswith("udf:")]
        self._bodies: list[Callable[..., Any]] = []  # of the functions whose results are remembered
        self._known: dict[int, bool] = {}

    def holds(self, arrivals: Ints, bodies: Mapping[str, Callable[..., Any]], evaluate: Evaluate) -> tuple[Mask, Mask]:
        """By distinct tuple, where the clause holds and where it failed; it is evaluated for unknown tuples."""
        now = [bodies[name] for name in self._names]
        if len(now) != len(self._bodies) or any(a is not b for a, b in zip(now, self._bodies, strict=True)):
            self._bodies, self._known = now, {}
        numbers = arrivals.tolist()
        known = [self._known.get(n) for n in numbers]
        held: Mask = np.array([k is True for k in known], np.bool_)
        failed: Mask = np.zeros(len(numbers), np.bool_)
        unknown = np.array([i for i, k in enumerate(known) if k is None], np.int64)
        if len(unknown):
            held[unknown], failed[unknown] = evaluate(unknown)
            if len(self._known) + len(unknown) > MOST:
                self._known = {}
            certain = unknown[~failed[unknown]][:MOST]
            self._known.update((numbers[i], bool(held[i])) for i in certain.tolist())
        return held, failed
