"""The eddy: the order in which rows visit the operators that may reject them.

An operator gains a ticket for every predicate it applies to a row, and loses one for every predicate that the row
satisfies. Tickets measure how much an operator rejects, and favour operators that serve many queries. They are divided
by the operator's cost per row. A row visits operators by descending tickets.

Tickets are learnt from samples of rows that need not have visited the operator, so no row is misrouted to explore.
Old tickets decay, so that the order follows the data: what was learnt one half-life ago (in rows) counts half.
(Document 1, sections 2.1 and 4.)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

HALF_LIFE = 2048  # rows


@dataclass
class Account:
    """The statistics of one operator; all but the cost and `entered` decay."""

    rows: float = 0.0
    applied: float = 0.0  # predicates
    satisfied: float = 0.0
    cost: float = 1.0  # of a row, relative to others
    entered: int = 0  # rows that visited it so far

    @property
    def tickets(self) -> float:
        """Predicates rejected per row, divided by the cost; always above zero, so that shares are defined."""
        return max((self.applied - self.satisfied) / self.rows / self.cost, 1e-9) if self.rows else 1e-9

    @property
    def selectivity(self) -> float | None:
        """The share of its predicates that a row satisfies."""
        return self.satisfied / self.applied if self.applied else None


class Eddy:
    def __init__(self, half_life: int = HALF_LIFE) -> None:
        self.half_life = half_life
        self.accounts: dict[Hashable, Account] = {}

    def account(self, operator: Hashable) -> Account:
        if operator not in self.accounts:
            self.accounts[operator] = Account()
        return self.accounts[operator]

    def learn(
        self, operator: Hashable, rows: int, applied: int, satisfied: int, represented: int | None = None
    ) -> None:
        """A sample of `rows` rows met `applied` predicates and satisfied some; it represents at least as many rows."""
        account = self.account(operator)
        decay = 0.5 ** ((represented or rows) / self.half_life)
        account.rows = account.rows * decay + rows
        account.applied = account.applied * decay + applied
        account.satisfied = account.satisfied * decay + satisfied

    def learn_cost(self, operator: Hashable, cost: float) -> None:
        """Moves the known cost per row towards a measured one, half of the way on a logarithmic scale.

        Interruptions and compilation only add, so it at most doubles at once."""
        account, cost = self.account(operator), max(cost, 1e-9)
        if account.cost == 1.0:
            account.cost = cost
        else:
            account.cost = min((account.cost * cost) ** 0.5, 2 * account.cost)

    def entered(self, operator: Hashable, rows: int) -> None:
        self.account(operator).entered += rows

    def order(self, operators: Sequence[Hashable]) -> list[int]:
        """The positions of these operators in the order in which rows visit them; equal ones keep their order."""
        return sorted(range(len(operators)), key=lambda i: -self.account(operators[i]).tickets)

    def shares(self, operators: Sequence[Hashable]) -> list[float]:
        """The share of their tickets that each of these operators has."""
        tickets = [self.account(o).tickets for o in operators]
        return [x / sum(tickets) for x in tickets]
