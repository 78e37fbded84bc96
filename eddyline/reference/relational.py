"""Evaluates a bound query once, over given contents of its sources.

A relation is a list of items: a row, and the arrival number of the newest stream tuple in it, which determines the
version of a non-retroactive table that the row is joined with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, product
from typing import Any, TypeAlias

from eddyline.aggregates import AGGREGATES
from eddyline.reference.scalar import Udfs, value
from eddyline.reference.values import Row, canonical, comparable, fit
from eddyline.sql import bound
from eddyline.sql.bound import Call, Column, Expr, Query, SelectBlock, Source, StreamSource, TableSource, walk

Item: TypeAlias = tuple[Row, int | None]
Contents: TypeAlias = Callable[[StreamSource | TableSource, int | None], Iterable[Item]]
"""The contents of a source; of a non-retroactive table, the version that the stream tuple with this number sees."""


def evaluate(query: Query, contents: Contents, params: Row = (), udfs: Udfs | None = None) -> Counter[Row]:
    """The answer as a bag of canonical rows."""
    return Counter(canonical(row) for row, _ in _Evaluation(contents, params, udfs or {}).items(query))


@dataclass(frozen=True, slots=True)
class _Evaluation:
    contents: Contents
    params: Row
    udfs: Udfs

    def items(self, query: Query) -> list[Item]:
        return self._set(query) if isinstance(query, bound.SetQuery) else self._block(query)

    def _set(self, query: bound.SetQuery) -> list[Item]:
        left, right = self.items(query.left), self.items(query.right)
        if query.kind == "union":
            return left + right
        ours, theirs = (Counter(comparable(row) for row, _ in side) for side in (left, right))
        kept = ours & theirs if query.kind == "intersect" else ours - theirs
        return [(row, None) for row in kept.elements()]

    def _block(self, block: SelectBlock) -> list[Item]:
        items = self._joined(block)
        if block.keys is not None:
            items = [(row, None) for row in self._groups(block, [row for row, _ in items])]
        items = [
            (tuple(self._value(output.expr, row) for output in block.outputs), newest)
            for row, newest in items
            if self._holds(block.having, row)
        ]
        if block.distinct:
            items = [(row, None) for row in dict.fromkeys(comparable(row) for row, _ in items)]
        return items

    def _joined(self, block: SelectBlock) -> list[Item]:
        """The rows of the cross product for which the condition holds.

        Sources are joined one by one, non-retroactive tables last, because their version depends on the other rows.
        Each part of the condition is applied as soon as all its columns have values; columns to come are NULL.
        """
        first = list(accumulate((len(s.fields) for s in block.sources), initial=0))  # column of each source
        waiting, known = conjuncts(block.where), set[int]()
        items: list[Item] = [((None,) * first[-1], None)]
        for number in sorted(range(len(block.sources)), key=lambda i: _is_historic(block.sources[i])):
            start, stop = first[number], first[number + 1]
            known.update(range(start, stop))
            ready = [c for c in waiting if {e.index for e in walk(c) if isinstance(e, Column)} <= known]
            waiting = [c for c in waiting if c not in ready]
            items = [
                (joined, _newer(newest, seq))
                for (row, newest), (part, seq) in self._pairs(items, block.sources[number])
                if self._all_hold(ready, joined := (*row[:start], *part, *row[stop:]))
            ]
        return items

    def _pairs(self, items: list[Item], source: Source) -> Iterator[tuple[Item, Item]]:
        if not _is_historic(source):
            yield from product(items, self._source(source, None))
            return
        versions = {newest: list(self._source(source, newest)) for newest in {newest for _, newest in items}}
        for item in items:
            for version in versions[item[1]]:
                yield item, version

    def _source(self, source: Source, newest: int | None) -> Iterable[Item]:
        return self.items(source.query) if isinstance(source, bound.DerivedSource) else self.contents(source, newest)

    def _groups(self, block: SelectBlock, rows: list[Row]) -> Iterator[Row]:
        assert block.keys is not None
        groups: dict[Row, list[Row]] = {} if block.keys else {(): []}
        for row in rows:
            groups.setdefault(comparable(tuple(self._value(k, row) for k in block.keys)), []).append(row)
        for key, members in groups.items():
            yield key + tuple(self._aggregate(a, members) for a in block.aggregates)

    def _aggregate(self, aggregate: bound.Aggregate, rows: list[Row]) -> Any:
        values: list[Any] = rows
        if aggregate.argument is not None:
            given = [self._value(aggregate.argument, row) for row in rows]
            values = [v for v in given if v is not None]
        return fit(AGGREGATES[aggregate.function].reference(values), aggregate.type)

    def _holds(self, condition: Expr | None, row: Row) -> bool:
        return condition is None or self._value(condition, row) is True

    def _all_hold(self, conditions: list[Expr], row: Row) -> bool:
        return all(self._value(c, row) is True for c in conditions)

    def _value(self, expr: Expr, row: Row) -> Any:
        return value(expr, row, self.params, self.udfs)


def conjuncts(condition: Expr | None) -> list[Expr]:
    """The parts of a condition that must all hold."""
    if isinstance(condition, Call) and condition.function == "and":
        return [c for arg in condition.args for c in conjuncts(arg)]
    return [] if condition is None else [condition]


def _newer(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def _is_historic(source: Source) -> bool:
    return isinstance(source, TableSource) and not source.retroactive
