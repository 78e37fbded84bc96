"""Worlds and cases out of their files: `world.slt` of a folder, and the case files beside it.

The format is in `README.md`. Nothing is skipped: a block that is none of the known ones is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

import eddyline
from eddyline.reference import MIN
from eddyline.sql import catalog
from eddyline.sql.parser import parse
from eddyline.sql.statements import CreateFamily
from tests.sql.cases.model import Case, Step, Stream, World
from tests.sql.cases.text import Block, Grid, Values, blocks

CASES = Path(__file__).parent


def worlds() -> list[Path]:
    return sorted(p.parent for p in CASES.glob("*/world.slt"))


@cache
def load(folder: Path) -> tuple[World, tuple[Case, ...]]:
    """A world and all its cases."""
    world = _world(folder / "world.slt")
    cases: list[Case] = []
    taken: set[str] = set()
    for path in sorted(folder.glob("*.slt")):
        for block, case in _cases(path, world) if path != world.path else ():
            names = {case.name, *case.queries}
            if names & taken:
                block.fail(f"The name {min(names & taken)!r} is taken.")
            if case.together is not None and case.together not in taken:
                block.fail(f"There is no query {case.together!r} before this one.")
            cases.append(case)
            taken |= names
    return world, tuple(cases)


def _world(path: Path) -> World:
    first, *rest = [*blocks(path)] or [Block(path, 1, "", ())]
    if first.head.split(",")[0] != "world":
        first.fail("The file begins with the block `world`.")
    world = _declared(first)
    for block in rest:
        kind, _, name = block.head.partition(" ")
        if kind == "step":
            world = replace(world, steps=(*world.steps, _step(world, block, name)))
        elif kind == "rows" and name in world.streams and world.steps:
            world = _with_rows(world, block, world.streams[name])
        elif kind == "late" and name in world.streams and name not in world.late:
            table = _table(world, block, block.grid(), world.streams[name].schema)
            world = replace(world, late={**world.late, name: table})
        else:
            block.fail(f"Expected `step`, `rows` of a stream or `late` rows of a stream, found {block.head!r}.")
    for stream in world.streams.values():
        if world.watermark(stream, len(world.steps) + 1) < world.until:
            first.fail(f"The watermark of {stream.name!r} does not reach the instant that answers are compared to.")
    return world


def _declared(block: Block) -> World:
    given = _options(block, block.head.removeprefix("world"), ("start", "until", "in-process only", "function"))
    try:
        start = datetime.fromisoformat(given["start"])
        until = Values(start).instant(given["until"])
    except (LookupError, ValueError):
        block.fail(
            "A world says when it starts and until when answers are compared: `start 2026-01-01T00:00:00, until 60`."
        )
    streams: dict[str, Stream] = {}
    for line, text in block.statements():
        body = _parsed(block, line, text)
        if isinstance(body, catalog.Stream):
            schema = pa.schema([(f.name, f.type) for f in body.fields])
            streams[body.name] = Stream(body.name, schema, body.fields[body.time].name, body.delay)
    statements = tuple(text for _, text in block.statements())
    functions = tuple(given.get("function", "").split())
    return World(block.path, start, until, "in-process only" in given, functions, statements, streams)


def _step(world: World, block: Block, text: str) -> Step:
    number, comma, options = text.partition(",")
    given = _options(block, comma + options, ("advance to",))
    if number != str(len(world.steps) + 1):
        block.fail(f"Expected step {len(world.steps) + 1}, found step {number}.")
    if given and not world.only_in_process:
        block.fail("Only a world that is `in-process only` can advance.")
    advance = world.values.moment(_instant(world, block, given["advance to"])) if given else None
    for line, statement in block.statements():
        _parsed(block, line, statement)
    return Step(int(number), tuple(statement for _, statement in block.statements()), advance=advance)


def _with_rows(world: World, block: Block, stream: Stream) -> World:
    """The world with rows of a stream in its last step; their order there must not decide which are late."""
    *before, step = world.steps
    order = list(world.streams)
    if any(order.index(name) >= order.index(stream.name) for name in step.rows):
        block.fail("The streams of a step come in the order of their declaration, each once.")
    table = _table(world, block, block.grid(), stream.schema)
    times, mark = stream.times(table), world.watermark(stream, step.number)
    for (line, _), ts in zip(block.body[1:], times, strict=True):
        if mark <= ts < max(times) - stream.delay:
            block.fail("Whether the row is late depends on the order within the step.", line)
    return replace(world, steps=(*before, replace(step, rows={**step.rows, stream.name: table})))


def _cases(path: Path, world: World) -> Iterator[tuple[Block, Case]]:
    """The cases of a file; the answers that follow a case belong to it."""
    last: tuple[Block, Case] | None = None
    for block in blocks(path):
        kind, _, text = block.head.partition(" ")
        if kind in ("query", "family"):
            yield from [last] if last is not None else []
            last = block, _case(world, block, kind, text)
        elif kind == "at" and last is not None:
            at = _instant(world, block, text)
            if at > world.until:
                block.fail("Answers are compared only up to the `until` of the world.")
            last = last[0], replace(last[1], answers={**last[1].answers, at: block.grid()})
        else:
            block.fail(f"Expected `query`, `family` or `at`, found {block.head!r}.")
    yield from [last] if last is not None else []


_PACE = {"evaluate every": "evaluate", "expire every": "expire"}


def _case(world: World, block: Block, kind: str, text: str) -> Case:
    found = re.match(r"(\w+)( \([^)]*\))?", text)
    if found is None or (kind == "query" and found[2]):
        block.fail("Write `query name` or `family name (parameter TYPE, …)`.")
    name = found[1]
    steps = ("added at step", "dropped at step") if kind == "query" else ()
    given = _options(block, text.removeprefix(found[0]), (*steps, "together with", "emit all", *_PACE))
    before, expected = block.split("----")
    sql, rows = before.split("register")
    what = "CREATE CONTINUOUS QUERY" if kind == "query" else "CREATE QUERY FAMILY"
    options = ["emit = 'all'"] if "emit all" in given else []
    options += [f"{key} = '{given[words]}'" for words, key in _PACE.items() if words in given]
    option = f" WITH ({', '.join(options)})" if options else ""
    declare = f"{what} {found[0]}{option} AS\n{sql.text()}"
    body = _parsed(block, block.line, declare)
    register = None
    added = {name: _number(block, given.get("added at step", "1"))}
    dropped = {name: _number(block, given["dropped at step"])} if "dropped at step" in given else {}
    if isinstance(body, CreateFamily) and rows is not None:
        register, added, dropped = _registered(world, rows, body)
    elif isinstance(body, CreateFamily) or rows is not None:
        block.fail("A family has rows to `register`, a query has none.")
    _check_steps(world, block, added, dropped)
    return Case(
        block.path,
        block.line,
        name,
        declare,
        register,
        added,
        dropped,
        emits_all="emit all" in given,
        together=given.get("together with"),
        expected=None if expected is None else expected.grid(),
    )


def _check_steps(world: World, block: Block, added: Mapping[str, int], dropped: Mapping[str, int]) -> None:
    last = len(world.steps)
    for query, come in added.items():
        go = dropped.get(query, last + 1)
        if not 1 <= come <= last or not come < go or (query in dropped and go > last):
            block.fail(f"{query!r} cannot come and go at these steps: the world has {last}.")
    if any(world.watermark(s, go) == MIN for s in world.streams.values() for go in dropped.values()):
        block.fail("Nothing is sure of a query that is dropped while a stream has no watermark.")


def _registered(world: World, block: Block, family: CreateFamily) -> tuple[pa.Table, dict[str, int], dict[str, int]]:
    """The queries of a family; columns `added` and `dropped`, if any, say before which step each comes and goes."""
    grid = block.grid()
    steps: dict[str, dict[str, int]] = {"added": {row[0]: 1 for row in grid[1:]}, "dropped": {}}
    if len(steps["added"]) != len(grid) - 1 or len(grid) == 1:
        block.fail("A family has queries, each with a name of its own.")
    while grid[0][-1] in steps:
        steps[grid[0][-1]] |= {row[0]: _number(block, row[-1]) for row in grid[1:] if row[-1] != "-"}
        grid = tuple(row[:-1] for row in grid)
    schema = pa.schema([("query", pa.string()), *((p.name, p.type) for p in family.params)])
    return _table(world, block, grid, schema), steps["added"], steps["dropped"]


def _table(world: World, block: Block, grid: Grid, schema: pa.Schema) -> pa.Table:
    if grid[0] != tuple(schema.names):
        block.fail(f"Expected the columns {', '.join(schema.names)}, found {', '.join(grid[0])}.", block.body[0][0])
    columns: list[list[Any]] = [[] for _ in schema]
    for (line, _), cells in zip(block.body[1:], grid[1:], strict=True):
        for column, cell, f in zip(columns, cells, schema, strict=True):
            try:
                column.append(cell if f.name == "query" else world.values.read(cell, f.type))
            except (ValueError, LookupError):
                block.fail(f"{cell} is no value for {f.name!r}.", line)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _parsed(block: Block, line: int, text: str) -> Any:
    try:
        (statement,) = parse(text)
    except (eddyline.Error, ValueError) as e:
        block.fail(str(e), line)
    return statement.body


def _options(block: Block, text: str, known: Sequence[str]) -> dict[str, str]:
    """What follows a name, each after a comma: `, dropped at step 3, emit all`."""
    before, *options = text.split(",")
    given: dict[str, str] = {}
    for words in ([before] if before.strip() else []) + options:
        name = next((k for k in known if words.strip() == k or words.strip().startswith(f"{k} ")), None)
        if name is None or name in given or words is before:
            block.fail(f"There is no option {words.strip()!r} here; after a comma there may be {', '.join(known)}.")
        given[name] = words.strip().removeprefix(name).strip()
    return given


def _number(block: Block, text: str) -> int:
    return int(text) if text.isdecimal() else block.fail(f"{text!r} is not the number of a step.")


def _instant(world: World, block: Block, text: str) -> int:
    try:
        return world.values.instant(text)
    except ValueError as e:
        block.fail(f"{e}.")
