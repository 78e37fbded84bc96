"""Text to statements: one short function per statement; queries and expressions are left to sqlglot.

Windows (`[RANGE …]`, `[ROWS n]`, `[NOW]`) are lifted out of the token stream before sqlglot sees it and kept by the
place of the token they follow, so that positions in errors stay those of the user's text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.tokens import Token, TokenType

from eddyline.errors import Error, ParseError, did_you_mean
from eddyline.sql.bound import Field
from eddyline.sql.catalog import External
from eddyline.sql.cursor import DIALECT, Cursor, statements
from eddyline.sql.functions import UNITS, unit_of
from eddyline.sql.statements import (
    CreateFamily,
    CreateQuery,
    CreateSink,
    CreateStream,
    CreateTable,
    CreateView,
    Delete,
    Drop,
    Explain,
    Insert,
    QueryText,
    SelectOnce,
    Show,
    Statement,
    Update,
    WindowText,
)

SHOWABLE = ("STREAMS", "TABLES", "QUERIES", "FAMILIES", "VIEWS", "SINKS", "FUNCTIONS")


def parse(sql: str) -> list[Statement]:
    """All statements of a script. A text that cannot be read raises before anything runs."""
    if not isinstance(sql, str):
        raise ParseError(f"SQL must be text, not {type(sql).__name__}.", sql="", span=(0, 0))
    return [_statement(c) for c in statements(sql)]


def _statement(c: Cursor) -> Statement:
    span = c.span()
    try:
        for words, read in _STATEMENTS:
            if c.accept(*words):
                body = read(c)
                c.end()
                return Statement(body, c.sql, span)
    except Error as e:
        raise e.at(c.sql, span) from None
    first = c.peek()
    c.fail(
        f"{c.found()} does not begin a statement.",
        did_you_mean(first.text if first else "", sorted({w[0] for w, _ in _STATEMENTS})),
    )


# CREATE …


def _create_stream(c: Cursor) -> CreateStream:
    name, start = c.name("the stream"), c.span()
    fields, key = _columns(c)
    if key:
        c.fail(f"Stream {name!r} cannot have a primary key.", "Remove PRIMARY KEY, or create a table.")
    c.expect("WATERMARK")
    span = c.span()
    time = c.name("the event-time column")
    delay = 0
    if c.accept("DELAY"):
        c.expect("OF")
        delay = c.duration()
    return CreateStream(name, fields, time, delay, _external(c), c.text, span if span else start)


def _create_table(c: Cursor) -> CreateTable:
    name = c.name("the table")
    fields, key = _columns(c)
    retroactive = not c.accept("NON", "RETROACTIVE")
    return CreateTable(name, fields, key, retroactive, _external(c), c.text)


def _create_query(c: Cursor) -> CreateQuery:
    name = c.name("the query")
    options = _options(c)
    c.expect("AS")
    return CreateQuery(name, options, _query(c), c.text)


def _create_family(c: Cursor) -> CreateFamily:
    name = c.name("the family")
    params, _ = _columns(c) if c.is_word("(") else ((), ())
    options = _options(c)
    c.expect("AS")
    return CreateFamily(name, params, options, _query(c), c.text)


def _create_view(c: Cursor) -> CreateView:
    name = c.name("the view")
    within = c.duration() if c.accept("REFRESH", "WITHIN") else None
    c.expect("AS")
    return CreateView(name, within, _query(c), c.text)


def _create_sink(c: Cursor) -> CreateSink:
    name = c.name("the sink")
    external = _external(c)
    if external is None:
        c.fail(f"Expected USING, found {c.found()}.", "Say what the sink writes: USING parquet OPTIONS (path 'out').")
    targets: list[str] = []
    if c.accept("FOR"):
        targets.append(c.name("a query or family"))
        while c.accept(","):
            targets.append(c.name("a query or family"))
    return CreateSink(name, external, tuple(targets), c.text)


def _columns(c: Cursor) -> tuple[tuple[Field, ...], tuple[str, ...]]:
    """`(name TYPE [PRIMARY KEY], …)`: the fields and the names of the key."""
    c.expect("(")
    fields: list[Field] = []
    key: list[str] = []
    while True:
        if fields and c.accept("PRIMARY", "KEY"):
            c.expect("(")
            while True:
                column = c.name("a key column")
                if column.lower() not in {f.name.lower() for f in fields}:
                    c.at -= 1
                    c.fail(f"There is no column {column!r}.", did_you_mean(column, [f.name for f in fields]))
                key.append(column)
                if not c.accept(","):
                    break
            c.expect(")")
        else:
            name = c.name("a column")
            if name.lower() in {f.name.lower() for f in fields}:
                c.at -= 1
                c.fail(f"Column {name!r} is declared twice.", "Give every column a name of its own.")
            fields.append(Field(name, c.type()))
            if c.accept("PRIMARY", "KEY"):
                key.append(name)
        if not c.accept(","):
            break
    c.expect(")")
    return tuple(fields), tuple(key)


def _external(c: Cursor) -> External | None:
    if not c.accept("USING"):
        return None
    source = c.name("a format").lower()
    options: dict[str, str] = {}
    if c.accept("OPTIONS"):
        c.expect("(")
        while not c.is_word(")"):
            key = c.string("an option") if _is_string(c.peek()) else c.name("an option")
            while c.accept("."):
                key += "." + c.name("an option")
            c.accept("=")
            options[key] = _option_value(c)
            if not c.accept(","):
                break
        c.expect(")")
    return External(source, options)


def _options(c: Cursor) -> dict[str, str]:
    """`WITH (key = value, …)`."""
    options: dict[str, str] = {}
    if c.accept("WITH"):
        c.expect("(")
        while True:
            key = c.name("an option").lower()
            c.expect("=")
            options[key] = _option_value(c)
            if not c.accept(","):
                break
        c.expect(")")
    return options


def _option_value(c: Cursor) -> str:
    token = c.peek()
    if token is None or token.token_type in (TokenType.COMMA, TokenType.R_PAREN, TokenType.EQ, TokenType.L_PAREN):
        c.fail(f"Expected a value, found {c.found()}.")
    c.at += 1
    return str(token.text)


def _is_string(token: Token | None) -> bool:
    return token is not None and token.token_type == TokenType.STRING


# DROP, SHOW, EXPLAIN


def _drop(c: Cursor) -> Drop:
    kinds: tuple[tuple[tuple[str, ...], Any], ...] = (
        (("CONTINUOUS", "QUERY"), "query"),
        (("QUERY", "FAMILY"), "family"),
        (("MATERIALIZED", "VIEW"), "view"),
        (("STREAM",), "stream"),
        (("TABLE",), "table"),
        (("SINK",), "sink"),
    )
    for words, kind in kinds:
        if c.accept(*words):
            if_exists = c.accept("IF", "EXISTS")
            token = c.peek()
            name = c.string("a name") if _is_string(token) else c.name(f"the {kind}")
            return Drop(kind, name, if_exists)
    c.fail(f"Expected what to drop, found {c.found()}.", f"One of {', '.join(' '.join(w) for w, _ in kinds)}.")


def _show(c: Cursor) -> Show:
    for what in SHOWABLE:
        if c.accept(what):
            return Show(what)
    token = c.peek()
    c.fail(f"Expected what to show, found {c.found()}.", did_you_mean(token.text if token else "", SHOWABLE))


def _explain(c: Cursor) -> Explain:
    analyze = c.accept("ANALYZE")
    return Explain(c.name("a query or family"), analyze)


# Queries and changes, through sqlglot


def _select(c: Cursor) -> SelectOnce:
    c.at -= 1
    return SelectOnce(_query(c))


def _insert(c: Cursor) -> Insert:
    c.at = 0
    tree = _tree(c)
    target = tree.this
    columns: tuple[str, ...] = ()
    if isinstance(target, exp.Schema):
        columns = tuple(x.name for x in target.expressions)
        target = target.this
    if not isinstance(tree, exp.Insert) or not isinstance(target, exp.Table) or tree.args.get("overwrite"):
        c.at = 0
        c.fail("This form of INSERT is not supported.", "Write INSERT INTO name [(columns)] VALUES (…), (…).")
    values, query = tree.expression, None
    if isinstance(values, exp.Query) and not isinstance(values, exp.Values):
        values, query = None, QueryText(values, {}, c.sql)
    return Insert(target.name, columns, values, query)


def _update(c: Cursor) -> Update:
    c.at = 0
    tree = _tree(c)
    if not isinstance(tree, exp.Update) or not isinstance(tree.this, exp.Table) or tree.args.get("from_"):
        c.at = 0
        c.fail("This form of UPDATE is not supported.", "Write UPDATE name SET column = value WHERE condition.")
    pairs: list[tuple[exp.Expr, exp.Expr]] = []
    for e in tree.expressions:
        if not isinstance(e, exp.EQ) or not isinstance(e.this, exp.Column):
            c.at = 0
            c.fail("SET takes column = value.")
        pairs.append((e.this, e.expression))
    where = tree.args.get("where")
    return Update(tree.this.name, tuple(pairs), where.this if where else None)


def _delete(c: Cursor) -> Delete:
    c.at = 0
    tree = _tree(c)
    if not isinstance(tree, exp.Delete) or not isinstance(tree.this, exp.Table) or tree.args.get("using"):
        c.at = 0
        c.fail("This form of DELETE is not supported.", "Write DELETE FROM name WHERE condition.")
    where = tree.args.get("where")
    return Delete(tree.this.name, where.this if where else None)


def _query(c: Cursor) -> QueryText:
    windows: dict[int, WindowText] = {}
    tokens = _lift_windows(c, windows)
    tree = _parse_tokens(c, tokens)
    if not isinstance(tree, exp.Query) or isinstance(tree, (exp.Values, exp.Table)):
        raise ParseError("Expected a SELECT.", sql=c.sql, span=(tokens[0].start, tokens[0].end + 1))
    return QueryText(tree, windows, c.sql)


def _tree(c: Cursor) -> Any:
    return _parse_tokens(c, c.rest())


def _parse_tokens(c: Cursor, tokens: list[Token]) -> exp.Expr:
    whole = (tokens[0].start, tokens[-1].end + 1)

    def fail(message: str, span: tuple[int, int] = whole) -> NoReturn:
        raise ParseError(message, sql=c.sql, span=span) from None

    try:
        trees = DIALECT.parser().parse(tokens, c.sql)
    except SqlglotParseError as e:
        detail = e.errors[0] if e.errors else {}
        span = _span_of(c.sql, detail.get("line"), detail.get("col"), detail.get("highlight") or "")
        words = re.sub(
            r"<Token token_type: [^,]*, text: (.*?), line: .*?>", r"'\1'", str(detail.get("description") or "")
        )
        fail(f"{words or 'The statement cannot be read'}.", span or whole)
    except RecursionError:
        fail("The statement is nested too deeply.")
    except Exception as e:  # sqlglot has no other promise about what malformed input raises
        fail(f"The statement cannot be read ({type(e).__name__}).")
    if len(trees) != 1 or trees[0] is None:
        fail("The statement cannot be read.")
    return trees[0]


def _span_of(sql: str, line: int | None, col: int | None, highlight: str) -> tuple[int, int] | None:
    """sqlglot gives the line and the column of a token's last character."""
    if not line or col is None:
        return None
    start = 0
    for _ in range(line - 1):
        start = sql.find("\n", start) + 1
    end = min(start + col, len(sql))
    return max(0, end - max(1, len(highlight))), end


def _lift_windows(c: Cursor, windows: dict[int, WindowText]) -> list[Token]:
    kept: list[Token] = []
    while not c.done():
        token = c.peek()
        assert token is not None
        word = c.peek(1)
        opens = token.token_type == TokenType.L_BRACKET and word is not None
        if opens and word is not None and word.text.upper() in ("RANGE", "ROWS", "NOW") and kept:
            windows[kept[-1].start] = _window(c)
        else:
            kept.append(_with_place(kept, token))
            c.at += 1
    if not kept:
        c.fail("The statement ends where a query was expected.")
    return kept


def _with_place(before: list[Token], token: Token) -> Token:
    """The number of an interval as a quoted one: the tree keeps the place of a quoted number only."""
    if token.token_type == TokenType.NUMBER and before and before[-1].token_type == TokenType.INTERVAL:
        return Token(TokenType.STRING, token.text, token.line, token.col, token.start, token.end, token.comments)
    return token


def _window(c: Cursor) -> WindowText:
    start = c.span()[0]
    c.expect("[")
    if c.accept("NOW"):
        size: exp.Expr = exp.Interval(this=exp.Literal.string("0"), unit=exp.Var(this="SECOND"))
        kind: Any = "range"
    elif c.accept("ROWS"):
        kind, size = "rows", _amount(c)
    else:
        c.expect("RANGE")
        c.accept("INTERVAL")
        kind, amount = "range", _amount(c)
        token = c.peek()
        word = token.text if token is not None else ""
        if unit_of(word) is None:
            c.fail(f"Expected a unit of time, found {c.found()}.", f"Units are {', '.join(UNITS)}.")
        c.at += 1
        size = exp.Interval(this=amount, unit=exp.Var(this=word))
    if not c.is_word("]"):
        c.fail(f"Expected ] after the window, found {c.found()}.")
    end = c.span()[1]
    c.at += 1
    return WindowText(kind, size, (start, end))


def _amount(c: Cursor) -> exp.Expr:
    """A number, a quoted number or a `:parameter`."""
    token = c.peek()
    if token is not None and token.token_type in (TokenType.NUMBER, TokenType.STRING):
        c.at += 1
        number = exp.Literal(this=token.text.strip(), is_string=False)
        number.meta.update(start=token.start, end=token.end, line=token.line, col=token.col)
        return number
    if token is not None and token.token_type == TokenType.COLON:
        c.at += 1
        return exp.Placeholder(this=c.name("a parameter"))
    c.fail(f"Expected a number or a :parameter, found {c.found()}.")


_STATEMENTS: tuple[tuple[tuple[str, ...], Callable[[Cursor], Any]], ...] = (
    (("CREATE", "STREAM"), _create_stream),
    (("CREATE", "TABLE"), _create_table),
    (("CREATE", "CONTINUOUS", "QUERY"), _create_query),
    (("CREATE", "QUERY", "FAMILY"), _create_family),
    (("CREATE", "MATERIALIZED", "VIEW"), _create_view),
    (("CREATE", "SINK"), _create_sink),
    (("DROP",), _drop),
    (("SHOW",), _show),
    (("EXPLAIN",), _explain),
    (("SELECT",), _select),
    (("WITH",), _select),
    (("(",), _select),
    (("INSERT",), _insert),
    (("UPDATE",), _update),
    (("DELETE",), _delete),
)
