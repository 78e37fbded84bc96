"""The conditions of a join without parameters: classes of equal expressions, closed transitively, and all others.

From them follow the keys by which an input can be looked up, once others are bound. (Document 2, section 5.4: a join
graph.)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from eddyline.plan.equality_classes import EqualityClasses, is_equality
from eddyline.plan.expressions import calls_functions, conjuncts, may_overflow, move_columns, text
from eddyline.plan.range_probes import inputs_of
from eddyline.sql.bound import Expr


class _Member(NamedTuple):
    """An expression of a class, and the inputs that it reads."""

    expr: Expr
    inputs: frozenset[int]


class Theta(NamedTuple):
    """A condition that is no equality of two inputs, and the inputs that it reads."""

    condition: Expr
    inputs: frozenset[int]


class JoinShape:
    def __init__(self, condition: Expr | None, starts: Sequence[int]) -> None:
        """`starts`: the first column of each input in the joined rows."""
        self.starts = tuple(starts)
        self.conditions = conjuncts(condition)
        equal = EqualityClasses()
        for part in self.conditions:
            if is_equality(part):
                equal.add(*part.args)
        self._classes = [[_Member(e, self.inputs_of(e)) for e in members] for members in equal.classes()]

    @property
    def movable(self) -> bool:
        """Whether its conditions may be evaluated in any order: none calls a function or can overflow."""
        return not any(calls_functions(c) or may_overflow(c) for c in self.conditions)

    def equalities(self) -> list[dict[int, Expr]]:
        """By class of equal keys, those inputs that have a key in it, each with its key over its own columns."""
        classes = []
        for members in self._classes:
            keys = dict[int, Expr]()
            for m in members:
                if len(m.inputs) == 1:
                    (i,) = m.inputs
                    keys.setdefault(i, self.own(m.expr, i))
            if len(keys) > 1:
                classes.append(keys)
        return classes

    def thetas(self) -> list[Theta]:
        """Conditions over columns, other than equalities of two inputs."""
        return [Theta(c, read) for c in self.conditions if (read := self.inputs_of(c)) and not self._is_key(c)]

    def _is_key(self, condition: Expr) -> bool:
        if not is_equality(condition):
            return False
        a, b = (self.inputs_of(e) for e in condition.args)
        return len(a) == len(b) == 1 and a != b

    def pairs(self, start: int, bound: Collection[int], new: int) -> list[tuple[Expr, Expr]]:
        """(expression over bound inputs, equal expression over the new input), by the equalities and what follows from
        them; preferably over the input where the route starts, so that routes through other inputs look alike."""
        bound, pairs = frozenset(bound), []
        for members in self._classes:
            known = [m for m in members if m.inputs and m.inputs <= bound]
            known.sort(key=lambda m: m.inputs != {start})
            pairs += [(known[0].expr, m.expr) for m in members if m.inputs == {new}] if known else []
        return sorted(pairs, key=lambda pair: text(self.own(pair[1], new)))

    def own(self, expr: Expr, i: int) -> Expr:
        """An expression over an input's own columns."""
        return move_columns(expr, lambda c: c - self.starts[i])

    def inputs_of(self, expr: Expr) -> frozenset[int]:
        return frozenset(inputs_of(expr, self.starts))
