"""Routings: which buckets the tuples of a stream are sent to.

An `Assignment` names a correct routing for every stream of a plan. Assignments for parts of a plan are merged where
they agree on the streams they share.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice, product

from eddyline.sql.bound import Expr

MOST_ASSIGNMENTS = 64  # of one plan that are tried
MOST_PARTS = 8  # expressions of one key


@dataclass(frozen=True, slots=True)
class Anywhere:
    """A tuple is sent to any one bucket."""


@dataclass(frozen=True, slots=True)
class ByKey:
    """A tuple is sent to the bucket of its key's hash; the key is expressions over the stream's columns."""

    key: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Home:
    """A tuple is sent to the bucket of the cell that contains `value`."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Reach:
    """A tuple is copied to the buckets of all cells between value + low and value + high, one copy each.

    The bounds have parameters only: the minimum of `low` and the maximum of `high` over all registered queries apply.
    """

    value: Expr
    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class OnePlace:
    """All tuples are sent to one bucket, and only that bucket runs the plan."""


@dataclass(frozen=True, slots=True)
class Everywhere:
    """All tuples are sent to all buckets; each runs the plan for a part of the queries."""


Routing = Anywhere | ByKey | Home | Reach | OnePlace | Everywhere
Assignment = dict[str, Routing]  # by stream, in lower case
Assignments = list[Assignment]  # the best is first; empty if the plan must run in one bucket


def merged(inputs: Iterable[Assignments]) -> Assignments:
    """Assignments that are correct for all inputs: one of each, where they agree on the streams they share."""
    assignments: Assignments = [{}]
    for options in inputs:
        pairs = (_agreed(a, b) for a, b in product(assignments, options))
        assignments = list(islice((a for a in pairs if a is not None), MOST_ASSIGNMENTS))
    return assignments


def _agreed(a: Assignment, b: Assignment) -> Assignment | None:
    agreed = dict(a)
    for stream, routing in b.items():
        other = agreed.get(stream, Anywhere())
        copied = stream in a and Reach in (type(routing), type(other))  # a reader routed "anywhere" would see copies
        if routing != other and (copied or Anywhere() not in (routing, other)):
            return None
        agreed[stream] = other if routing == Anywhere() else routing
    reaching = sum(isinstance(r, Reach) for r in agreed.values())
    return agreed if reaching <= 1 else None  # one band per plan, because its bounds determine the width of cells


def with_all_keys(assignments: Assignments) -> Assignment:
    """The first assignment; if it is by keys only, with the keys of the others added, for a finer split."""
    first = assignments[0]
    if any(isinstance(r, Home) for r in first.values()):
        return first
    keys: dict[str, list[Expr]] = {s: [] for s, r in first.items() if isinstance(r, ByKey)}
    for assignment in assignments:
        parts = {s: r.key[0] for s, r in assignment.items() if isinstance(r, ByKey)}
        if all(len(keys[s]) < MOST_PARTS and parts[s] not in keys[s] for s in keys):
            for s in keys:
                keys[s].append(parts[s])
    return {s: ByKey(tuple(keys[s])) if s in keys else r for s, r in first.items()}
