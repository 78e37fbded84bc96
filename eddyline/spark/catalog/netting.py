"""The net effect of several commits, without families and queries that the same commits remove again.

An amended micro-batch applies the commits that made it fail and those that removed the cause. Applied one by one, they
would start the cause before removing it; netted, it is never started. (`amendments.py`)
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from eddyline.engine.actions import (
    Action,
    AddQueries,
    AddQuery,
    DropQueries,
    DropQuery,
    FixCells,
    LoadQueries,
    NewFamily,
    Quarantine,
    RemoveFamily,
    SplitQueries,
)


@dataclass(frozen=True)
class Net:
    actions: list[Action]
    removed: dict[int, set[int]]  # by family: queries that are dropped or put into quarantine by these actions


def net(actions: Sequence[Action], families: Container[int]) -> Net:
    """`families` exist before the actions; those that the actions remove are removed first."""
    removed_families = {a.number for a in actions if isinstance(a, RemoveFamily)}
    first: list[Action] = [RemoveFamily(n) for n in sorted(removed_families) if n in families]
    kept = [a for a in actions if family_of(a) not in removed_families]
    removed: dict[int, set[int]] = {}
    for a in kept:
        if isinstance(a, DropQueries | Quarantine):
            removed.setdefault(a.family, set()).update(int(i) for i in a.ids)
    return Net([*first, *kept], removed)


def family_of(action: Action) -> int | None:
    """The number of the family that an action changes; None if it changes none."""
    match action:
        case NewFamily() | RemoveFamily():
            return action.number
        case AddQuery() | AddQueries() | LoadQueries() | DropQuery() | DropQueries():
            return action.family
        case Quarantine() | FixCells() | SplitQueries():
            return action.family
        case _:
            return None
