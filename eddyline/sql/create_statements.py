"""Parsing of CREATE statements: one function per statement, which reads its clauses from left to right.

A stream, table or sink needs no binding, so its statement is parsed into the entry that the catalog will hold.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import TokenType

from eddyline import types as t
from eddyline.errors import CatalogError, did_you_mean
from eddyline.sql.bound import Field
from eddyline.sql.catalog import External, Sink, Stream, Table
from eddyline.sql.cursor import TokenCursor
from eddyline.sql.query_text import query_text
from eddyline.sql.statements import CreateFamily, CreateQuery, CreateView


def stream(c: TokenCursor) -> Stream:
    name = c.name("the stream")
    fields, key = _columns(c)
    if key:
        c.fail(f"Stream {name!r} cannot have a primary key.", "Remove PRIMARY KEY, or create a table.")
    c.expect("WATERMARK")
    time = _event_time(c, fields)
    delay = 0
    if c.accept("DELAY"):
        c.expect("OF")
        delay = c.duration()
    idle = future = None
    while (idle is None and c.is_word("IDLE")) or (future is None and c.is_word("FUTURE")):
        if c.accept("IDLE"):
            c.expect("AFTER")
            idle = c.duration()
        else:
            c.expect("FUTURE", "LIMIT")
            future = c.duration()
    return Stream(name, fields, time, delay, idle, _external(c), c.text, future)


def _event_time(c: TokenCursor, fields: Sequence[Field]) -> int:
    """The position of the event-time column."""
    span = c.span()
    name = c.name("the event-time column")
    for i, f in enumerate(fields):
        if f.name.lower() == name.lower():
            if f.type != t.TIMESTAMP:
                raise CatalogError(f"The watermark column {name!r} must be a TIMESTAMP.", span=span)
            return i
    hint = did_you_mean(name, [f.name for f in fields])
    raise CatalogError(f"There is no column {name!r} for the watermark.", hint=hint, span=span)


def table(c: TokenCursor) -> Table:
    name = c.name("the table")
    fields, key = _columns(c)
    retroactive = not c.accept("NON", "RETROACTIVE")
    names = [f.name.lower() for f in fields]
    positions = tuple(names.index(k.lower()) for k in key)
    return Table(name, fields, positions, retroactive, _external(c), c.text)


def query(c: TokenCursor) -> CreateQuery:
    name = c.name("the query")
    options = _options(c)
    c.expect("AS")
    return CreateQuery(name, options, query_text(c), c.text)


def family(c: TokenCursor) -> CreateFamily:
    name = c.name("the family")
    params, key = _columns(c) if c.is_word("(") else ((), ())
    if key:
        c.fail("A parameter cannot be a primary key.", "Remove PRIMARY KEY.")
    options = _options(c)
    c.expect("AS")
    return CreateFamily(name, params, options, query_text(c), c.text)


def view(c: TokenCursor) -> CreateView:
    name = c.name("the view")
    within = None
    if c.is_word("REFRESH"):
        c.expect("REFRESH", "WITHIN")
        within = c.duration()
    c.expect("AS")
    return CreateView(name, within, query_text(c), c.text)


def sink(c: TokenCursor) -> Sink:
    name = c.name("the sink")
    external = _external(c)
    if external is None:
        hint = "Say what the sink writes: USING parquet OPTIONS (path 'out')."
        c.fail(f"Expected USING, found {c.next_text()}.", hint)
    targets: list[str] = []
    if c.accept("FOR"):
        while not targets or c.accept(","):
            target = c.name("a query or family")
            if target in targets:
                c.fail_last(f"{target!r} is named twice.", "Name every query and family once.")
            targets.append(target)
    return Sink(name, external, tuple(targets), c.text)


def _columns(c: TokenCursor) -> tuple[tuple[Field, ...], tuple[str, ...]]:
    """`(name TYPE [PRIMARY KEY], …)`: the fields and the names of the key columns."""
    c.expect("(")
    fields: list[Field] = []
    key: list[str] = []
    while True:
        if key and c.is_word("PRIMARY", "KEY"):
            c.fail("The table has a primary key already.", f"Write {_key_hint(key)} after the columns.")
        if fields and c.accept("PRIMARY", "KEY"):
            key = _key(c, fields)
        else:
            name = c.name("a column")
            if name.lower() in {f.name.lower() for f in fields}:
                c.fail_last(f"Column {name!r} is declared twice.", "Give every column a name of its own.")
            fields.append(Field(name, c.type()))
            if key and c.is_word("PRIMARY", "KEY"):
                hint = f"For a key of several columns write {_key_hint([*key, name])} after the columns."
                c.fail("The table has a primary key already.", hint)
            if c.accept("PRIMARY", "KEY"):
                key.append(name)
        if not c.accept(","):
            break
    c.expect(")")
    return tuple(fields), tuple(key)


def _key(c: TokenCursor, fields: Sequence[Field]) -> list[str]:
    """`(column, …)` after PRIMARY KEY."""
    c.expect("(")
    key: list[str] = []
    while not key or c.accept(","):
        column = c.name("a key column")
        known = [f.name for f in fields]
        if column.lower() not in {n.lower() for n in known}:
            c.fail_last(f"There is no column {column!r}.", did_you_mean(column, known))
        if column.lower() in {k.lower() for k in key}:
            c.fail_last(f"Column {column!r} is twice in the key.", "Name every column of the key once.")
        key.append(column)
    c.expect(")")
    return key


def _key_hint(columns: Sequence[str]) -> str:
    return f"PRIMARY KEY ({', '.join(columns)})"


def _external(c: TokenCursor) -> External | None:
    if not c.accept("USING"):
        return None
    source = c.name("a format").lower()
    options: dict[str, str] = {}
    if c.accept("OPTIONS"):
        c.expect("(")
        while not c.is_word(")"):
            start = c.at
            key = c.string("an option") if c.is_string() else c.name("an option")
            while c.accept("."):
                key += "." + c.name("an option")
            c.accept("=")
            _add_option(c, options, key, start)
            if not c.accept(","):
                break
        c.expect(")")
    return External(source, options)


def _options(c: TokenCursor) -> dict[str, str]:
    """`WITH (key = value, …)`."""
    options: dict[str, str] = {}
    if c.accept("WITH"):
        c.expect("(")
        while True:
            start = c.at
            key = c.name("an option").lower()
            c.expect("=")
            _add_option(c, options, key, start)
            if not c.accept(","):
                break
        c.expect(")")
    return options


def _add_option(c: TokenCursor, options: dict[str, str], key: str, start: int) -> None:
    if key in options:
        c.at = start
        c.fail(f"Option {key!r} is given twice.", "Give every option once.")
    options[key] = _option_value(c)


def _option_value(c: TokenCursor) -> str:
    token = c.peek()
    if token is None or token.token_type in (TokenType.COMMA, TokenType.R_PAREN, TokenType.EQ, TokenType.L_PAREN):
        c.fail(f"Expected a value, found {c.next_text()}.")
    c.at += 1
    return str(token.text)
