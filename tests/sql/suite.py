"""One SQL suite over every engine: the few calls that a host needs to run the cases, and how outcomes are compared.

Worlds and cases are read by `cases/reading.py`; `cases/README.md` has the format. All cases of a world run at once over
the same steps. Expectations are in event time, never in batches, so they are the same on every host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import ndiff
from typing import Any, Protocol

import pyarrow as pa

import eddyline
from eddyline.reference import MAX, Change, canonical, fold_by_signs, micros, normalise, unmatched
from tests.sql.cases.model import Case, Step, World
from tests.sql.cases.reading import load, worlds
from tests.sql.cases.text import Grid, aligned

__all__ = ["Case", "Host", "InProcess", "Outcome", "Step", "World", "check", "check_late", "load", "worlds"]

FUNCTIONS: Mapping[str, tuple[Callable[..., Any], list[str], str]] = {
    "digits": (lambda n: None if n is None else len(str(abs(n))), ["BIGINT"], "INT"),
    "reciprocal": (lambda x: 1 / x, ["DOUBLE"], "DOUBLE"),
}


# Hosts.


@dataclass(frozen=True)
class Outcome:
    """Of every query all its changes: op, ts, exp, then its columns; of every stream the late rows."""

    changes: Mapping[str, pa.Table]
    late: Mapping[str, pa.Table]
    families: Mapping[str, str] = field(default_factory=dict)  # by query, where the host can tell


class Host(Protocol):
    def run(self, world: World, cases: Sequence[Case]) -> Outcome:
        """Runs all cases at once. For each step queries are dropped, queries are added, tables change, rows come."""
        ...


@dataclass(frozen=True)
class InProcess:
    """`eddyline.connect()`. `cut` says how the rows of a step are cut into pushes."""

    cut: Callable[[Step], Iterable[Mapping[str, pa.Table]]] = lambda step: [step.rows]

    def run(self, world: World, cases: Sequence[Case]) -> Outcome:
        db = connect(world)
        logs: dict[str, list[pa.Table]] = {}
        families: dict[str, str] = {}

        def take(changes: Any) -> None:
            for query in changes.queries():
                if query in logs:
                    logs[query].append(changes.rows(query))

        for step in world.steps:
            for case in cases:
                for query in case.going(step.number):
                    db.execute(f"DROP CONTINUOUS QUERY {query}")
            for case in cases:
                shown: Any = db.execute(case.declare) if case.first == step.number else None
                table = case.coming(step.number)
                shown = shown if table is None else db.register(case.name, table)
                logs |= {query: [shown.rows(query)] for query in case.queries if case.added[query] == step.number}
            families |= {row["query"]: row["family"] for row in db.execute("SHOW QUERIES").to_pylist()}
            for statement in step.changes:
                take(db.execute(statement))
            for rows in self.cut(step) if step.rows else ():
                take(db.push(rows))
            if step.advance is not None:
                take(db.advance(step.advance))
        changes = {query: pa.concat_tables(log) for query, log in logs.items()}
        return Outcome(changes, {s: db.late(s) for s in world.streams}, families)


def connect(world: World) -> Any:
    """A connection on which the world is declared and nothing has happened yet."""
    db = eddyline.connect()
    for name in world.functions:
        db.function(name, *FUNCTIONS[name])
    for statement in world.statements:
        db.execute(statement)
    return db


# What is compared.

Row = tuple[Any, ...]
Fold = Mapping[tuple[Row, int], int]  # how often each row enters (or, below zero, leaves) the answer at each instant


def check(world: World, case: Case, outcome: Outcome) -> None:
    """Raises if the changes of a case are not as expected."""
    folds = folded(world, case, outcome)
    schema = schema_of(case, outcome)
    assert case.expected is not None, f"{case.place}: {case.name} expects nothing; EDDYLINE_UPDATE=1 writes it"
    _same(case, case.name, case.expected, told(world, case, schema, folds))
    for at, expected in case.answers.items():
        _same(case, f"{case.name} at {world.values.seconds(at)}", expected, answer(world, case, schema, folds, at))
    check_logs(world, case, outcome)
    if case.together is not None and outcome.families:
        families = {outcome.families[q] for q in (*case.queries, case.together)}
        assert len(families) == 1, f"{case.place}: {case.name} and {case.together} are of the families {families}"


def check_late(world: World, stream: str, outcome: Outcome) -> None:
    """Raises if other rows of a stream were late than expected."""
    expected = tuples(world.late[stream]) if stream in world.late else []
    found = tuples(outcome.late[stream])
    assert late_rows(world, stream, found) == late_rows(world, stream, expected), f"late rows of {stream}"


def _same(case: Case, what: str, expected: Grid, found: Grid) -> None:
    if expected != found:
        shown = "\n".join(ndiff(aligned(expected), aligned(found)))
        raise AssertionError(f"{case.place}: {what}, - expected, + found:\n{shown}")


def check_logs(world: World, case: Case, outcome: Outcome) -> None:
    """Raises if a log breaks what it promises beside its fold."""
    for query, fold in folded(world, case, outcome).items():
        changes, dropped = outcome.changes[query], case.dropped.get(query)
        if case.emits_all:
            by_signs = fold_by_signs(log_of(changes), world.sure(case, query))
            assert by_signs == fold, f"{case.place}: the signs of {query} tell another answer than its intervals"
        wrong = unmatched(log_of(changes))
        assert not wrong, f"{case.place}: {query}: these name no `+` that stands: {wrong}"
        for op, ts, exp, *row in tuples(changes):
            change = f"{case.place}: {query}: {op} {ts} {exp} {row}"
            ends = case.emits_all and op == "-"  # told at an expiration
            assert ends or ts is None or exp is None or ts <= exp, f"{change} takes back what has ended"
            if dropped is not None and ts is not None:
                assert micros(ts) <= world.latest(dropped), f"{change} was sent after the query was dropped"


def folded(world: World, case: Case, outcome: Outcome) -> dict[str, Fold]:
    return {query: fold(outcome.changes[query], world.sure(case, query)) for query in case.queries}


def schema_of(case: Case, outcome: Outcome) -> pa.Schema:
    """The columns of a case's queries."""
    return pa.schema(list(outcome.changes[case.queries[0]].schema)[3:])


def tuples(table: pa.Table) -> list[Row]:
    """By position: names may repeat."""
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True))


def fold(changes: pa.Table, upto: int) -> Fold:
    return normalise(log_of(changes), upto)


def log_of(changes: pa.Table) -> list[Change]:
    return [(op, ts and micros(ts), exp and micros(exp), tuple(row)) for op, ts, exp, *row in tuples(changes)]


def told(world: World, case: Case, schema: pa.Schema, folds: Mapping[str, Fold]) -> Grid:
    """The folds of a case as the table it expects: when rows enter the answer and when they leave."""
    write, lines = world.values, []
    for query in case.queries:
        for first, end, row in _intervals(folds[query]):
            cells = (write.first(first), write.last(end), *write.cells(row, schema.types))
            lines.append((first, MAX if end is None else end, _named(case, query, cells)))
    return (_named(case, "query", ("from", "to", *schema.names)), *(cells for *_, cells in sorted(lines)))


def answer(world: World, case: Case, schema: pa.Schema, folds: Mapping[str, Fold], at: int) -> Grid:
    """The answers at an instant as a table."""
    lines: list[tuple[str, ...]] = []
    for query in case.queries:
        standing: Counter[Row] = Counter()
        for (row, instant), n in folds[query].items():
            standing[row] += n if instant <= at else 0
        lines += [_named(case, query, world.values.cells(row, schema.types)) for row in standing.elements()]
    return (_named(case, "query", tuple(schema.names)), *sorted(lines))


def late_rows(world: World, stream: str, rows: Iterable[Row]) -> Grid:
    """Late rows of a stream as a table; the order in which they came does not count."""
    schema = world.streams[stream].schema
    return (tuple(schema.names), *sorted(world.values.cells(canonical(row), schema.types) for row in rows))


def _named(case: Case, query: str, cells: tuple[str, ...]) -> tuple[str, ...]:
    """The line of a query; in the table of a family its name comes first."""
    return cells if case.register is None else (query, *cells)


def _intervals(changed: Fold) -> Iterator[tuple[int, int | None, Row]]:
    """From when to when each row counts; of equal rows, who comes first leaves first."""
    events: dict[Row, list[tuple[int, int]]] = {}
    for (row, instant), n in changed.items():
        events.setdefault(row, []).append((instant, n))
    for row, of_row in events.items():
        standing: list[int] = []
        for instant, n in sorted(of_row):
            assert len(standing) >= -n, f"{row} leaves the answer more often than it enters"
            yield from ((standing.pop(0), instant, row) for _ in range(-n))
            standing += [instant] * n
        yield from ((first, None, row) for first in standing)
