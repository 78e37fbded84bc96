"""Classes of expressions that conditions make equal: of r.k = s.k and s.k = t.k, also r.k = t.k follows.

A class has its expressions in the order in which they were added. Small plans: every operation is linear in the number
of expressions.
"""

from __future__ import annotations

from typing import TypeGuard

from eddyline.sql.bound import Call, Expr


class EqualityClasses:
    def __init__(self) -> None:
        self._classes: list[list[Expr]] = []

    def add(self, a: Expr, b: Expr) -> None:
        """Makes two expressions equal."""
        merged = [c for c in self._classes if a in c or b in c]
        members = [e for c in merged for e in c]
        members += [e for e in dict.fromkeys((a, b)) if e not in members]
        self._classes = [*(c for c in self._classes if not any(c is m for m in merged)), members]

    def equal(self, a: Expr, b: Expr) -> bool:
        return a == b or any(a in c and b in c for c in self._classes)

    def classes(self) -> list[list[Expr]]:
        return self._classes


def is_equality(condition: Expr) -> TypeGuard[Call]:
    """Whether a condition says that two expressions are equal."""
    return isinstance(condition, Call) and condition.function == "eq"
