"""What is left of several commits when things that do not outlast them are left out.

An amended micro-batch moves over the commits that made it fail and over those that removed the cause. Taken one after
the other, the cause would still be started before it is removed; netted, it is never started. (`amendments.py`)
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
    """`families` are there before the actions; those of them that are removed are removed first."""
    gone = {a.number for a in actions if isinstance(a, RemoveFamily)}
    first: list[Action] = [RemoveFamily(n) for n in sorted(gone) if n in families]
    kept = [a for a in actions if family_of(a) not in gone]
    removed: dict[int, set[int]] = {}
    for a in kept:
        if isinstance(a, DropQueries | Quarantine):
            removed.setdefault(a.family, set()).update(int(i) for i in a.ids)
    return Net([*first, *kept], removed)


def family_of(action: Action) -> int | None:
    """The number of the family that an action is about; None if it is about none."""
    match action:
        case NewFamily() | RemoveFamily():
            return action.number
        case AddQuery() | AddQueries() | LoadQueries() | DropQuery() | DropQueries():
            return action.family
        case Quarantine() | FixCells() | SplitQueries():
            return action.family
        case _:
            return None
