"""Offsets: how far each partition has been read, and how far to read next. Needs no broker.

An offset of the source is `{"topic": {"0": 12, "1": 5}}`, as in Spark's own connector: the next message to read of each
partition. It may also have in `"$from"` (no topic can have this name) the start of its batch, for partitions whose
start the offset before it does not determine: all of them in the first batch, as Spark requests the initial offset of a
restarted query again when the first batch was not committed; new partitions; and those that lost messages. So a batch
is always [`$from` or the offset before, offset), and a replay reads exactly the same messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_FROM = "$from"


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


class Bounds(NamedTuple):
    """The messages that Kafka has of a partition: from `low` on, before `high`."""

    low: int
    high: int


class Range(NamedTuple):
    """The messages of a partition in one batch: from `start` on, before `end`."""

    partition: Partition
    start: int
    end: int


Positions = dict[Partition, int]


@dataclass(frozen=True)
class Offsets:
    """The next message to read of each partition, and the start of the batch that ends here where it is needed."""

    next: Positions
    begin: Positions = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Equal offsets have equal texts, which Spark compares."""
        return _nested(self.next) | ({_FROM: _nested(self.begin)} if self.begin else {})

    @staticmethod
    def from_json(offset: Mapping[str, Any]) -> Offsets:
        return Offsets(_flat({t: ps for t, ps in offset.items() if t != _FROM}), _flat(offset.get(_FROM, {})))


def ranges(start: Offsets, end: Offsets) -> list[Range]:
    """The ranges to read between two offsets, in the order of topics and partitions; depends only on the two."""
    begin = start.next | end.begin
    return [Range(p, begin[p], to) for p, to in sorted(end.next.items()) if begin[p] < to]


def advance(start: Offsets, bounds: Mapping[Partition, Bounds], limit: int | None) -> tuple[Offsets, list[str]]:
    """The end of the next batch, at most `limit` messages on, and a sentence for each loss of messages.

    A partition continues at its first message if earlier ones were deleted, at the new end if the topic was truncated
    or recreated, and at its beginning if it is new and has messages. Without new messages, the result is `start`.
    """
    lost: list[str] = []
    begin: Positions = {}
    for p, (low, high) in bounds.items():
        at = start.next.get(p)
        if at is None:
            begin[p] = low
            if low > 0 and any(p.topic == q.topic for q in start.next):
                lost.append(f"{p} was found late: its messages before {low} are gone")
        elif at < low:
            begin[p] = low
            lost.append(f"{p} has no messages {at} to {low - 1} any more")
        elif at > high:
            begin[p] = high
            lost.append(f"{p} was read up to {at} but now ends at {high}")
        elif start.begin.get(p) == at:
            begin[p] = at  # not read yet
    lost += [f"{p} is gone, or no longer named in option subscribe" for p in sorted(start.next.keys() - bounds.keys())]
    backlog = {p: max(0, b.high - begin.get(p, start.next.get(p, 0))) for p, b in bounds.items()}
    taken = backlog if limit is None else share(backlog, limit, turn=sum(start.next.values()))
    moved = {p: begin.get(p, start.next.get(p, 0)) + n for p, n in taken.items() if n or p in start.next}
    if moved == start.next:
        return start, lost
    return Offsets(moved, {p: b for p, b in begin.items() if p in moved}), lost


def share(backlog: Mapping[Partition, int], limit: int, turn: int = 0) -> Positions:
    """The number of messages to read of each partition: `limit` in total, or all if there are fewer.

    In proportion to the backlog, so that partitions catch up together and event times stay aligned; but at least one of
    each that has any, so that none starves. When even that is too much, they take turns, beginning at `turn`.
    """
    waiting = sorted(p for p, n in backlog.items() if n)
    total = sum(backlog.values())
    if total <= limit:
        return dict(backlog)
    taken = dict.fromkeys(backlog, 0)
    if limit <= len(waiting):
        first = turn % len(waiting)
        return taken | dict.fromkeys((waiting + waiting)[first : first + limit], 1)
    spare, more = limit - len(waiting), total - len(waiting)
    for p in waiting:
        taken[p] = 1 + spare * (backlog[p] - 1) // more
    left = limit - sum(taken.values())  # the remainder of rounding down, less than the number of partitions
    for p in [p for p in waiting if taken[p] < backlog[p]][:left]:
        taken[p] += 1
    return taken


def _nested(positions: Positions) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (topic, number), at in sorted(positions.items()):
        nested.setdefault(topic, {})[str(number)] = at
    return nested


def _flat(nested: Mapping[str, Mapping[str, int]]) -> Positions:
    return {Partition(topic, int(number)): at for topic, numbers in nested.items() for number, at in numbers.items()}
