"""The SQL cases on the in-process host: against the text of their files, and against the reference evaluator.

`EDDYLINE_UPDATE=1` writes what the engine gives into the files, of those cases in which the reference agrees.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eddyline.reference import Reference
from eddyline.sql.binder import bind_family, bind_standing
from eddyline.sql.parser import parse
from eddyline.sql.statements import CreateFamily
from tests.sql.cases.reading import CASES
from tests.sql.cases.text import Grid, aligned
from tests.sql.suite import (
    FUNCTIONS,
    Case,
    Fold,
    InProcess,
    Outcome,
    Step,
    World,
    answer,
    check,
    check_late,
    check_logs,
    connect,
    folded,
    late_rows,
    load,
    schema_of,
    told,
    tuples,
    worlds,
)

UPDATE = os.environ.get("EDDYLINE_UPDATE") == "1"
ALL = [pytest.param(folder, case, id=f"{folder.name}-{case.name}") for folder in worlds() for case in load(folder)[1]]


@cache
def outcome(folder: Path) -> Outcome:
    return InProcess().run(*load(folder))


@pytest.mark.parametrize(("folder", "case"), ALL)
def test_case_gives_what_its_file_expects(folder: Path, case: Case) -> None:
    world, _ = load(folder)
    if UPDATE:
        update(world, case, outcome(folder))
    else:
        check(world, case, outcome(folder))


@pytest.mark.parametrize(("folder", "case"), ALL)
def test_case_gives_what_the_reference_gives(folder: Path, case: Case) -> None:
    require_agreement(load(folder)[0], case, outcome(folder))


@pytest.mark.parametrize("folder", worlds(), ids=lambda folder: folder.name)
def test_late_rows_are_those_expected_and_those_of_the_reference(folder: Path) -> None:
    world, _ = load(folder)
    for stream in world.streams:
        check_late(world, stream, outcome(folder))
        by_reference = late_rows(world, stream, reference(folder).ref.late[stream])
        assert late_rows(world, stream, tuples(outcome(folder).late[stream])) == by_reference


# How a step is cut into pushes must not matter.


def row_by_row(step: Step) -> Iterable[Mapping[str, pa.Table]]:
    return [{name: rows.slice(i, 1)} for name, rows in step.rows.items() for i in range(len(rows))]


def backwards(step: Step) -> Iterable[Mapping[str, pa.Table]]:
    return [{name: rows.take(pa.array(range(len(rows)))[::-1])} for name, rows in reversed([*step.rows.items()])]


@pytest.mark.parametrize("cut", [row_by_row, backwards])
@pytest.mark.parametrize("folder", worlds(), ids=lambda folder: folder.name)
def test_results_do_not_depend_on_how_steps_are_cut(folder: Path, cut: Any) -> None:
    world, cases = load(folder)
    found = InProcess(cut).run(world, cases)
    for case in cases:
        check_logs(world, case, found)
        assert folded(world, case, found) == folded(world, case, outcome(folder)), case.place
    for stream in world.streams:
        check_late(world, stream, found)


# The reference, told the same.


@dataclass
class Told:
    """A reference after all steps of a world; the queries that were dropped have been asked before they went."""

    ref: Reference
    gone: dict[str, Fold] = field(default_factory=dict)

    def fold(self, world: World, case: Case, query: str) -> Fold:
        found = self.gone[query] if query in self.gone else self.ref.changes(query)
        return {key: n for key, n in found.items() if key[1] <= world.sure(case, query)}


@cache
def reference(folder: Path) -> Told:
    world, cases = load(folder)
    db = connect(world)
    told = Told(Reference(udfs={name: FUNCTIONS[name][0] for name in world.functions}))
    for name in world.streams:
        declared = db.catalog.streams[name]
        told.ref.create_stream(name, declared.fields, declared.time, declared.delay)
    for name in db.catalog.tables.names():
        told.ref.create_table(name)
    for step in world.steps:
        for query in [q for case in cases for q in case.going(step.number)]:
            told.gone[query] = told.ref.changes(query)
            told.ref.drop(query)
        for case in cases:
            register(told.ref, db.catalog, case, step.number)
        for statement in step.changes:
            change_table(told.ref, db, statement)
        for name, rows in step.rows.items():
            told.ref.push(name, tuples(rows))
        if step.advance is not None:
            told.ref.advance(step.advance)
    return told


def register(ref: Reference, catalog: Any, case: Case, step: int) -> None:
    body = parse(case.declare)[0].body
    rows = case.coming(step)
    if isinstance(body, CreateFamily):
        bound = bind_family(catalog, body.query, body.params).bound
        for query, *values in tuples(rows) if rows is not None else ():
            ref.register(query, bound, tuple(values))
    elif case.first == step:
        ref.register(case.name, bind_standing(catalog, body.query).bound)


def change_table(ref: Reference, db: Any, statement: str) -> None:
    """The reference is told which rows went and which came; the statement itself is understood by the engine."""
    table = parse(statement)[0].body.target
    before = Counter(tuples(db.definitions.tables[table.lower()].to_arrow()))
    db.execute(statement)
    after = Counter(tuples(db.definitions.tables[table.lower()].to_arrow()))
    ref.change_table(table, (after - before).elements(), (before - after).elements())


def require_agreement(world: World, case: Case, found: Outcome) -> None:
    engine, by_reference = folded(world, case, found), reference(world.path.parent)
    for query in case.queries:
        expected = by_reference.fold(world, case, query)
        wrong = {key: (engine[query].get(key), expected.get(key)) for key in engine[query].keys() | expected.keys()}
        lines = [
            f"{world.values.first(t)} {row}: engine {a}, reference {b}" for (row, t), (a, b) in wrong.items() if a != b
        ]
        assert not lines, "\n".join([f"{case.place}: {query}", *sorted(lines)])


# Rewriting.


def update(world: World, case: Case, found: Outcome) -> None:
    assert "PYTEST_XDIST_WORKER" not in os.environ, "files are rewritten by one process: run pytest with -n 0"
    require_agreement(world, case, found)
    folds, schema = folded(world, case, found), schema_of(case, found)
    answers = {f"at {world.values.seconds(at)}": answer(world, case, schema, folds, at) for at in case.answers}
    text = case.path.read_text(encoding="utf-8")
    case.path.write_text(rewritten(text, case.name, told(world, case, schema, folds), answers), encoding="utf-8")


def rewritten(text: str, name: str, table: Grid, answers: Mapping[str, Grid]) -> str:
    """The text of a case file with the expectations of one case replaced."""
    blocks = re.split(r"\n(?:[ \t]*\n)+", text.rstrip("\n"))
    current = ""
    for i, block in enumerate(blocks):
        head = next((line for line in block.split("\n") if not line.startswith("#")), "")
        if head.startswith(("query ", "family ")):
            current = re.split(r"[ ,]", head)[1]
            if current == name:
                blocks[i] = "\n".join([block.split("\n----")[0], "----", *aligned(table)])
        elif current == name and head in answers:
            blocks[i] = "\n".join([head, *aligned(answers[head])])
    return "\n\n".join(blocks) + "\n"


def test_rewriting_what_is_expected_changes_no_file() -> None:
    for folder in worlds():
        world, cases = load(folder)
        for case in cases:
            answers = {f"at {world.values.seconds(at)}": grid for at, grid in case.answers.items()}
            text = case.path.read_text(encoding="utf-8")
            assert case.expected is not None
            assert rewritten(text, case.name, case.expected, answers) == text, case.place


def test_rewriting_is_refused_where_engine_and_reference_differ(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    world, cases = load(CASES / "late")
    case = replace(cases[0], path=tmp_path / cases[0].path.name)
    case.path.write_text(cases[0].path.read_text(encoding="utf-8"), encoding="utf-8")
    right = outcome(CASES / "late")
    wrong = replace(right, changes={**right.changes, case.name: right.changes[case.name].slice(1)})
    with pytest.raises(AssertionError, match="engine 1, reference 2"):
        update(world, case, wrong)
    update(world, case, right)
    assert case.path.read_text(encoding="utf-8") == cases[0].path.read_text(encoding="utf-8")
