"""Matching: an arriving batch is a query over the table of queries.

Changes common to a family are joined with its query table under the conditions that hold parameters, giving changes
that belong to single queries. Grouped filters (`query_index.py`) find the pairs; those they are not sure of, and what no
index can answer, are decided by evaluating the condition, clause by clause, in the eddy's order.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.index.bitmaps import listed
from eddyline.index.domains import ValueColumn, value_column
from eddyline.index.grouped_filter import Matches
from eddyline.index.parallel import in_portions
from eddyline.operators.base import PendingWindow, Step, columns_for
from eddyline.operators.condition import Condition
from eddyline.operators.evaluate import evaluate, holds
from eddyline.operators.query_index import QueryIndex, Run
from eddyline.plan.expressions import columns_of, params_of
from eddyline.sql.bound import Expr
from eddyline.state.delta import MAX, Delta, Ints, concat, micros, query_of, take

Mask = npt.NDArray[np.bool_]

PAIRS_AT_ONCE = 1 << 20


class Matcher:
    """Finds the queries that changes belong to, under a condition with parameters and pending windows."""

    def __init__(self, condition: Expr | None, pending: Sequence[PendingWindow], types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self.pending = tuple(pending)
        self.condition = Condition(condition)
        self.index = QueryIndex(self.condition)

    def match(self, step: Step, delta: Delta) -> Delta:
        """Changes common to the family, as changes of the queries they satisfy."""
        if not len(delta) or not step.queries.alive.any():
            return concat([], self.types, attached=True)
        change, position = self.prepare(step, delta).pairs()
        return self.attached(step, delta, change, position)

    def prepare(self, step: Step, delta: Delta) -> Matching:
        """What is needed to match these changes later, whatever happens to the table of queries until then."""
        return Matching(self, step, delta, self.index.runs(step.queries, step.functions))

    def filter(self, step: Step, delta: Delta) -> Delta:
        """Changes already attached, under the same condition."""
        position = step.queries.positions(query_of(delta))
        kept = step.queries.alive[position] & (delta.first >= step.queries.since_at(position))
        change = np.nonzero(kept)[0]
        change, position = self.holding(step, delta, change, position[kept])
        return self.attached(step, delta, change, position)

    def holding(self, step: Step, delta: Delta, change: Ints, position: Ints) -> tuple[Ints, Ints]:
        """Of some pairs those that satisfy the whole condition."""
        for i in self.index.check_order():
            if not len(change):
                break
            check = self.condition.checks[i]
            begun = time.perf_counter()
            kept = _holds(check, step, delta, change, position)
            self.index.learn_check(i, len(change), int(np.count_nonzero(kept)), time.perf_counter() - begun)
            change, position = change[kept], position[kept]
        return change, position

    def attached(self, step: Step, delta: Delta, change: Ints, position: Ints) -> Delta:
        """Pairs as changes of queries: ends rows by the query's windows, and names the query."""
        found = replace(delta.take(change), query=step.queries.ids_at(position))
        for window in self.pending:
            if not len(found):
                break
            params = step.queries.params_at(params_of(window.size), position)
            size = evaluate(window.size, (), params, len(found), step.functions, query_of(found)).cast(pa.int64())
            width = size.fill_null(-1).to_numpy(zero_copy_only=False)
            at = found.columns[window.time]
            begin = micros(at if found.rows is None else take(at, found.rows))
            end = np.where(begin > MAX - np.maximum(width, 0), MAX, begin + width)
            found = replace(found, exp=np.minimum(found.exp, end)).take(width >= 0)
            position = position[width >= 0]
        return found.take(found.ts <= found.exp)


@dataclass(frozen=True)
class Matching:
    """Changes about to be matched with the queries of one moment."""

    matcher: Matcher
    step: Step
    delta: Delta
    runs: tuple[Run, ...]

    @cached_property
    def _columns(self) -> list[ValueColumn]:
        found = []
        for a in self.matcher.condition.attributes:
            values = evaluate(a, columns_for(self.delta, columns_of(a)), (), len(self.delta), self.step.functions)
            found.append(value_column(values))
        return found

    @cached_property
    def _all_seen(self) -> bool:
        """Whether every query sees all these changes: none was registered after one of them arrived."""
        return not len(self.delta) or int(self.delta.first.min()) >= self.step.queries.latest

    def count(self) -> int:
        """How many pairs (change, query) there are."""
        if not self._all_seen:
            return len(self.pairs()[0])
        total = 0
        for run, start, matches in self._search("counts"):
            total += int(matches.counts.sum()) + len(self._decided(run, start, matches)[0])
        return total

    def pairs(self) -> tuple[Ints, Ints]:
        """All pairs (change, query position), in that order: it must not tell how the queries are indexed."""
        changes, positions = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for run, start, matches in self._search("lists"):
            used = matches.pairs.used
            rows, numbers = matches.pairs.rows[:used], matches.pairs.numbers[:used]
            sure = numbers >= 0
            changes.append(rows[sure].astype(np.int64) + start)
            positions.append(run.position_of(numbers[sure]))
            certain = [m for m, partial in zip(run.filter.maps, run.filter.partial, strict=True) if not partial]
            for maps, sets in zip(certain, matches.sets, strict=True):
                row, bit = listed(sets)
                changes.append(row + start)
                positions.append(run.position_of(maps.numbers[bit]))
            for side, more in zip((changes, positions), self._decided(run, start, matches), strict=True):
                side.append(more)
        change, position = np.concatenate(changes), np.concatenate(positions)
        if not self._all_seen:
            seen = self.delta.first[change] >= self.step.queries.since_at(position)
            change, position = change[seen], position[seen]
        return _in_order(change, position, len(self.step.queries))

    def _search(self, what: str) -> list[tuple[Run, int, Matches]]:
        """Every run for every portion of the changes: the run, where the portion begins, and what was found."""
        columns, n = self._columns, len(self.delta)
        flags = [r.alive(self.step.queries) for r in self.runs]

        def look(start: int, stop: int) -> list[tuple[Run, int, Matches]]:
            part = [c.slice(start, stop) for c in columns]
            found = []
            for run, alive in zip(self.runs, flags, strict=True):
                found.append((run, start, run.search(part, stop - start, alive, what)))
            return found

        return [x for portion in in_portions(n, self.step.threads, look) for x in portion]

    def _decided(self, run: Run, start: int, matches: Matches) -> tuple[Ints, Ints]:
        """The pairs a filter was not sure of, each once, as far as they hold."""
        used = matches.pairs.used
        numbers = matches.pairs.numbers[:used]
        open_ = np.nonzero(numbers < 0)[0]
        if not len(open_):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        change = matches.pairs.rows[open_].astype(np.int64) + start
        position = run.position_of(~numbers[open_])
        change, position = _in_order(change, position, len(self.step.queries), once=True)
        seen = self.delta.first[change] >= self.step.queries.since_at(position)
        change, position = change[seen], position[seen]
        parts = []
        for begin in range(0, len(change), PAIRS_AT_ONCE):
            end = begin + PAIRS_AT_ONCE
            parts.append(self.matcher.holding(self.step, self.delta, change[begin:end], position[begin:end]))
        return tuple(np.concatenate(side) for side in zip(*parts, strict=True)) if parts else (change, position)


def _in_order(change: Ints, position: Ints, queries: int, *, once: bool = False) -> tuple[Ints, Ints]:
    """Pairs by change, then by query position."""
    pairs = change * max(queries, 1) + position
    pairs = np.unique(pairs) if once else np.sort(pairs)
    return pairs // max(queries, 1), pairs % max(queries, 1)


def _holds(condition: Expr, step: Step, delta: Delta, change: Ints, position: Ints) -> Mask:
    rows = change if delta.rows is None else delta.rows[change]
    where, used = pa.array(rows), columns_of(condition)
    columns = [c.take(where) if i in used else None for i, c in enumerate(delta.columns)]
    params = step.queries.params_at(params_of(condition), position)
    return holds(condition, columns, params, len(change), step.functions, step.queries.ids_at(position))
