"""The eddy (document 1, sections 2.1 and 4): in which order rows visit the operators that may reject them.

An operator is given a ticket for every predicate it applies to a row, and gives one back for every predicate that the
row satisfied: tickets measure how much it rejects, and favour operators that serve many queries. They are weighed
against what the operator costs a row. A row visits operators by descending tickets.

Tickets are told for samples of rows that need not have visited the operator, so no row is sent astray to explore; old
tickets fade, so that the order follows the data: what was learnt a half-life ago (in rows) counts half.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

HALF_LIFE = 2048  # rows


@dataclass
class Account:
    """What is known of one operator; all but the cost fades with the rows seen."""

    rows: float = 0.0
    applied: float = 0.0  # predicates
    satisfied: float = 0.0
    cost: float = 1.0  # of a row, relative to others
    entered: int = 0  # rows that visited it, ever

    @property
    def tickets(self) -> float:
        """Predicates rejected per row and cost; at least a little, so that no operator is out of the game."""
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
        self, operator: Hashable, rows: int, applied: int, satisfied: int, standing_for: int | None = None
    ) -> None:
        """Rows met `applied` predicates together and satisfied so many; they may stand for more rows than they are."""
        account = self.account(operator)
        fading = 0.5 ** ((standing_for or rows) / self.half_life)
        account.rows = account.rows * fading + rows
        account.applied = account.applied * fading + applied
        account.satisfied = account.satisfied * fading + satisfied

    def learn_cost(self, operator: Hashable, cost: float) -> None:
        """What a row costs there, told once more: an average that follows."""
        account, cost = self.account(operator), max(cost, 1e-9)
        account.cost = cost if account.cost == 1.0 else 0.8 * account.cost + 0.2 * cost

    def entered(self, operator: Hashable, rows: int) -> None:
        self.account(operator).entered += rows

    def order(self, operators: Sequence[Hashable]) -> list[int]:
        """The places of some operators in the order in which rows are to visit them; equals stay as they are given."""
        return sorted(range(len(operators)), key=lambda i: -self.account(operators[i]).tickets)

    def shares(self, operators: Sequence[Hashable]) -> list[float]:
        """The share of all tickets that each of some operators has."""
        tickets = [self.account(o).tickets for o in operators]
        return [x / sum(tickets) for x in tickets]
