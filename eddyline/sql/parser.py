"""Text to statements: one short function per statement; queries and expressions are left to sqlglot.

Windows (`[RANGE …]`, `[ROWS n]`, `[NOW]`) are lifted out of the token stream before sqlglot sees it and kept by the
place of the token they follow, so that positions in errors stay those of the user's text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.tokenizer_core import Token, TokenType

from eddyline.errors import Error, ParseError, did_you_mean
from eddyline.sql.bound import Field
from eddyline.sql.catalog import External
from eddyline.sql.cursor import DIALECT, Cursor, statements
from eddyline.sql.expressions import span_of
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
                return Statement(body, c.sql, c.subject or span)
    except Error as e:
        raise e.at(c.sql, span) from None
    _fail_unknown(c)


def _fail_unknown(c: Cursor) -> NoReturn:
    """No statement begins like this: names the first word that does not fit, and what could stand there."""
    forms = [words for words, _ in _STATEMENTS]
    fits = 0
    while forms_on := [w for w in forms if len(w) > fits + 1 and c.is_word(*w[: fits + 1])]:
        forms, fits = forms_on, fits + 1
    if not fits:
        first = c.peek()
        hint = did_you_mean(first.text if first else "", sorted({w[0] for w in forms if w[0].isalpha()}))
        c.fail(f"{_short(c.found())} does not begin a statement.", hint)
    begin, words = " ".join(forms[0][:fits]), [w[fits] for w in forms]
    alike = [" ".join(w) for w, _ in _STATEMENTS if w[0] == forms[0][0]]
    c.at += fits
    wrong = c.peek()
    close = did_you_mean(wrong.text, words) if wrong is not None else ""
    hint = f"There is {', '.join(alike)}."
    c.fail(
        f"Expected {' or '.join(words)} after {begin}, found {_short(c.found())}.",
        f"{close} {hint}" if close.startswith("Did") else hint,
    )


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


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
    params, key = _columns(c) if c.is_word("(") else ((), ())
    if key:
        c.fail("A parameter cannot be a primary key.", "Remove PRIMARY KEY.")
    options = _options(c)
    c.expect("AS")
    return CreateFamily(name, params, options, _query(c), c.text)


def _create_view(c: Cursor) -> CreateView:
    name = c.name("the view")
    within = None
    if c.is_word("REFRESH"):
        c.expect("REFRESH", "WITHIN")
        within = c.duration()
    c.expect("AS")
    return CreateView(name, within, _query(c), c.text)


def _create_sink(c: Cursor) -> CreateSink:
    name = c.name("the sink")
    external = _external(c)
    if external is None:
        c.fail(f"Expected USING, found {c.found()}.", "Say what the sink writes: USING parquet OPTIONS (path 'out').")
    targets: list[str] = []
    if c.accept("FOR"):
        while not targets or c.accept(","):
            target = c.name("a query or family")
            if target in targets:
                c.at -= 1
                c.fail(f"{target!r} is named twice.", "Name every query and family once.")
            targets.append(target)
    return CreateSink(name, external, tuple(targets), c.text)


def _columns(c: Cursor) -> tuple[tuple[Field, ...], tuple[str, ...]]:
    """`(name TYPE [PRIMARY KEY], …)`: the fields and the names of the key."""
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
                c.at -= 1
                c.fail(f"Column {name!r} is declared twice.", "Give every column a name of its own.")
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


def _key(c: Cursor, fields: Sequence[Field]) -> list[str]:
    """`(column, …)` after PRIMARY KEY."""
    c.expect("(")
    key: list[str] = []
    while not key or c.accept(","):
        column = c.name("a key column")
        known = [f.name for f in fields]
        if column.lower() not in {n.lower() for n in known}:
            c.at -= 1
            c.fail(f"There is no column {column!r}.", did_you_mean(column, known))
        if column.lower() in {k.lower() for k in key}:
            c.at -= 1
            c.fail(f"Column {column!r} is twice in the key.", "Name every column of the key once.")
        key.append(column)
    c.expect(")")
    return key


def _key_hint(columns: Sequence[str]) -> str:
    return f"PRIMARY KEY ({', '.join(columns)})"


def _external(c: Cursor) -> External | None:
    if not c.accept("USING"):
        return None
    source = c.name("a format").lower()
    options: dict[str, str] = {}
    if c.accept("OPTIONS"):
        c.expect("(")
        while not c.is_word(")"):
            start = c.at
            key = c.string("an option") if _is_string(c.peek()) else c.name("an option")
            while c.accept("."):
                key += "." + c.name("an option")
            c.accept("=")
            _add_option(c, options, key, start)
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
            start = c.at
            key = c.name("an option").lower()
            c.expect("=")
            _add_option(c, options, key, start)
            if not c.accept(","):
                break
        c.expect(")")
    return options


def _add_option(c: Cursor, options: dict[str, str], key: str, start: int) -> None:
    if key in options:
        c.at = start
        c.fail(f"Option {key!r} is given twice.", "Give every option once.")
    options[key] = _option_value(c)


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
    if c.is_word("SELECT") or c.is_word("WITH") or c.is_word("("):
        hint = "CREATE CONTINUOUS QUERY name AS … first, then EXPLAIN name."
        c.fail("EXPLAIN takes the name of a query or family, not a text.", hint)
    return Explain(c.name("a query or family"), analyze)


# Queries and changes, through sqlglot


def _select(c: Cursor) -> SelectOnce:
    c.at -= 1
    return SelectOnce(_query(c))


def _insert(c: Cursor) -> Insert:
    if not c.is_word("INTO"):
        c.fail(f"Expected INTO, found {c.found()}.", _INSERT)
    tree = _changing(c, exp.Insert, {"this", "expression"}, _INSERT)
    schema, given = tree.this, tree.expression
    columns: tuple[str, ...] = ()
    if isinstance(schema, exp.Schema):
        columns = tuple(x.name for x in schema.expressions)
    target = _target(c, schema.this if isinstance(schema, exp.Schema) else schema, _INSERT)
    if isinstance(given, exp.Values):
        return Insert(target, columns, given, None)
    if not isinstance(given, exp.Query):
        raise ParseError("There are no rows to insert.", hint=_INSERT, sql=c.sql, span=c.subject)
    return Insert(target, columns, None, QueryText(given, {}, c.sql))


def _update(c: Cursor) -> Update:
    tree = _changing(c, exp.Update, {"this", "expressions", "where"}, _UPDATE)
    target = _target(c, tree.this, _UPDATE)
    pairs: list[tuple[exp.Expr, exp.Expr]] = []
    for e in tree.expressions:
        if not isinstance(e, exp.EQ) or not isinstance(e.this, exp.Column):
            raise ParseError("SET takes column = value.", hint=_UPDATE, sql=c.sql, span=span_of(e))
        pairs.append((e.this, e.expression))
    if not pairs:
        raise ParseError("There is no SET column = value.", hint=_UPDATE, sql=c.sql, span=c.subject)
    where = tree.args.get("where")
    return Update(target, tuple(pairs), where.this if where else None)


def _delete(c: Cursor) -> Delete:
    tree = _changing(c, exp.Delete, {"this", "where"}, _DELETE)
    where = tree.args.get("where")
    return Delete(_target(c, tree.this, _DELETE), where.this if where else None)


_INSERT = "Write INSERT INTO name [(columns)] VALUES (…), (…), or INSERT INTO name SELECT …."
_UPDATE = "Write UPDATE name SET column = value WHERE condition."
_DELETE = "Write DELETE FROM name WHERE condition."
_CLAUSES = {"conflict": "ON CONFLICT", "order": "ORDER BY", "from_": "FROM", "with_": "WITH"}


def _changing(c: Cursor, kind: type[exp.Expr], known: set[str], hint: str) -> Any:
    """The tree of an INSERT, UPDATE or DELETE without clauses that would be ignored."""
    c.at = 0
    start = c.span()
    tree = _tree(c)
    for arg, value in tree.args.items() if isinstance(tree, kind) else ():
        if value and arg not in known:
            word = _CLAUSES.get(arg, arg.upper().replace("_", " "))
            raise ParseError(f"{word} is not supported in {kind.__name__.upper()}.", hint=hint, sql=c.sql, span=start)
    if not isinstance(tree, kind):
        raise ParseError("The statement cannot be read.", hint=hint, sql=c.sql, span=start)
    return tree


def _target(c: Cursor, target: Any, hint: str) -> str:
    """The name of the table or stream to change; it becomes the subject of the statement."""
    if not isinstance(target, exp.Table) or not isinstance(target.this, exp.Identifier):
        raise ParseError("Expected the name of a table.", hint=hint, sql=c.sql, span=c.subject)
    c.subject = span_of(target)
    if target.args.get("db"):
        raise ParseError(f"Names have one part, found {target.sql()}.", hint=hint, sql=c.sql, span=c.subject)
    if any(value for arg, value in target.args.items() if arg != "this"):
        raise ParseError("Expected the plain name of a table.", hint=hint, sql=c.sql, span=c.subject)
    return target.name


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

    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        follows = after.token_type if after is not None else None
        if follows in _NEVER_AFTER.get(token.token_type, ()):
            text = "the end of the statement" if after is None else repr(after.text)
            fail(f"Expected something else after {token.text!r} than {text}.", (token.start, token.end + 1))
    try:
        trees = DIALECT.parser().parse(tokens, c.sql)
    except SqlglotParseError as e:
        detail = e.errors[0] if e.errors else {}
        near = str(detail.get("highlight") or "")
        span = _span_of(c.sql, detail.get("line"), detail.get("col"), near)
        fail(_reworded(str(detail.get("description") or ""), near), span or whole)
    except RecursionError:
        fail("The statement is nested too deeply.")
    except Exception:  # sqlglot has no other promise about what malformed input raises
        fail("The statement cannot be read.")
    if len(trees) != 1 or trees[0] is None:
        fail("The statement cannot be read.")
    return trees[0]


# What sqlglot forgives: `a,, b`, `a, FROM`, `AS 5`.
_NEVER_AFTER: dict[TokenType, tuple[TokenType | None, ...]] = {
    TokenType.COMMA: (
        None,
        TokenType.COMMA,
        TokenType.R_PAREN,
        TokenType.FROM,
        TokenType.WHERE,
        TokenType.GROUP_BY,
        TokenType.HAVING,
    ),
    TokenType.ALIAS: (TokenType.NUMBER, TokenType.FROM, TokenType.COMMA, None),
    TokenType.EXCEPT: (TokenType.FROM, None),
}


def _reworded(description: str, near: str) -> str:
    """What sqlglot has to say, in the words of this language."""
    near = _short(repr(near))
    missing = re.match(r"Required keyword: '(\w+)' missing for <class '[\w.]*\.(\w+)'>", description)
    if missing is not None:
        kind = getattr(exp, missing.group(2), None)
        if isinstance(kind, type) and issubclass(kind, exp.Func):
            return f"{kind.sql_name().lower()} lacks an argument, near {near}."
        if isinstance(kind, type) and issubclass(kind, exp.Binary | exp.Unary | exp.Between):
            return f"An operator lacks something to work on, near {near}."
        return f"Something is missing near {near}."
    expecting = re.match(r"Expect(?:ing|ed) (.*?)(?: but got .*)?$", description, re.DOTALL)
    if expecting is not None:
        return f"Expected {expecting.group(1).rstrip('.')} near {near}."
    if description.startswith("Invalid expression"):
        return f"{near} does not fit here."
    arguments = re.match(r"The number of provided arguments \((\d+)\) is greater .* \((\d+)\)", description)
    if arguments is not None:
        return f"Found {arguments.group(1)} arguments where at most {arguments.group(2)} can be, near {near}."
    if "Token" in description or "class" in description or not description:
        return f"The statement cannot be read near {near}."
    return f"{description.rstrip('.')}, near {near}."


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
            if kept[-1].start in windows:
                c.fail(f"{kept[-1].text!r} has two windows.", "Keep one of them.")
            windows[kept[-1].start] = _window(c)
        else:
            kept.append(_with_place(kept, token))
            c.at += 1
    if not kept:
        c.fail("The statement ends where a query was expected.")
    return kept


def _with_place(before: list[Token], token: Token) -> Token:
    """The number of an interval as a quoted one: the tree keeps the place of a quoted number only. It is written
    without an exponent, whose letter sqlglot would take for a unit."""
    if token.token_type == TokenType.NUMBER and before and before[-1].token_type == TokenType.INTERVAL:
        exponent = re.fullmatch(r"[0-9.]+[eE][+-]?0*([0-9]{1,3})", token.text)
        text = token.text if exponent is None else f"{Decimal(token.text):f}"
        return Token(TokenType.STRING, text, token.line, token.col, token.start, token.end, token.comments)
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
        follows = c.peek()
        if follows is not None and follows.start != token.end + 1:
            c.fail(f"Expected the name of a parameter right after the colon, found {c.found()}.")
        start, end = token.start, follows.end if follows is not None else token.end
        parameter = exp.Placeholder(this=c.name("a parameter"))
        parameter.meta.update(start=start, end=end)
        return parameter
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
