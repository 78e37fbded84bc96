"""Evaluates a bound query once, over given contents of its sources.

A relation is a list of items: a row, and the arrival number of the newest stream tuple in it, which determines the
version of a non-retroactive table that the row is joined with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

from eddyline.aggregates import AGGREGATES
from eddyline.reference.scalar import Udfs, value
from eddyline.reference.values import Row, canonical, comparable, fit
from eddyline.sql import bound
from eddyline.sql.bound import Expr, Query, SelectBlock, Source, StreamSource, TableSource

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
        items = [(row, newest) for row, newest in self._joined(block) if self._holds(block.where, row)]
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

    def _joined(self, block: SelectBlock) -> Iterator[Item]:
        """The cross product; non-retroactive tables are read last, because their version depends on the other rows."""
        empty: list[Item] = [((), None)]
        for first in product(*(empty if _is_historic(s) else self._source(s, None) for s in block.sources)):
            newest = max((seq for _, seq in first if seq is not None), default=None)
            parts = zip(block.sources, first, strict=True)
            for items in product(*(self._source(s, newest) if _is_historic(s) else [item] for s, item in parts)):
                yield tuple(v for row, _ in items for v in row), newest

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

    def _value(self, expr: Expr, row: Row) -> Any:
        return value(expr, row, self.params, self.udfs)


def _is_historic(source: Source) -> bool:
    return isinstance(source, TableSource) and not source.retroactive
