"""Where the tuples of a stream go, and ways to route all streams of a plan.

A way is right by itself: it names a routing for every stream it concerns. Ways for parts of a plan are put together
where they agree on the streams they share.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice, product

from eddyline.sql.bound import Expr

MOST_WAYS = 64  # of splitting one plan; more are not looked for
MOST_PARTS = 8  # of one key


@dataclass(frozen=True, slots=True)
class Anywhere:
    """A tuple goes to any one bucket."""


@dataclass(frozen=True, slots=True)
class ByKey:
    """A tuple goes to the bucket of the hash of these, expressions over the stream's own columns."""

    key: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Home:
    """A tuple goes to the bucket of the cell that holds this number."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Reach:
    """A tuple is copied to the buckets of all cells between value + low and value + high, one copy each.

    The bounds see parameters only: the least `low` and the greatest `high` of the live queries count.
    """

    value: Expr
    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class OnePlace:
    """All tuples go to one bucket, and only that bucket runs the plan."""


@dataclass(frozen=True, slots=True)
class Everywhere:
    """All tuples go to all buckets: each runs the plan for queries of its own."""


Routing = Anywhere | ByKey | Home | Reach | OnePlace | Everywhere
Way = dict[str, Routing]  # by stream, in lower case
Ways = list[Way]  # the first is the best; none if there is no way but one place


def merged(inputs: Iterable[Ways]) -> Ways:
    """Ways that are right for all of these: one of each, where they agree on the streams they share."""
    ways: Ways = [{}]
    for options in inputs:
        pairs = (_agreed(a, b) for a, b in product(ways, options))
        ways = list(islice((w for w in pairs if w is not None), MOST_WAYS))
    return ways


def _agreed(a: Way, b: Way) -> Way | None:
    agreed = dict(a)
    for stream, routing in b.items():
        other = agreed.get(stream, Anywhere())
        copied = stream in a and Reach in (type(routing), type(other))  # whoever takes any tuple would see it twice
        if routing != other and (copied or Anywhere() not in (routing, other)):
            return None
        agreed[stream] = other if routing == Anywhere() else routing
    reaching = sum(isinstance(r, Reach) for r in agreed.values())
    return agreed if reaching <= 1 else None  # one band a plan: its bounds decide how wide cells should be


def together(ways: Ways) -> Way:
    """The first way; if it is by keys alone, with all other keys that tell tuples of every stream further apart."""
    first = ways[0]
    if any(isinstance(r, Home) for r in first.values()):
        return first
    keys: dict[str, list[Expr]] = {s: [] for s, r in first.items() if isinstance(r, ByKey)}
    for way in ways:
        parts = {s: r.key[0] for s, r in way.items() if isinstance(r, ByKey)}
        if all(len(keys[s]) < MOST_PARTS and parts[s] not in keys[s] for s in keys):
            for s in keys:
                keys[s].append(parts[s])
    return {s: ByKey(tuple(keys[s])) if s in keys else r for s, r in first.items()}
