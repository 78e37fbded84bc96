"""The statement parser: one short function per statement; sqlglot parses the queries and expressions inside.

CREATE statements are in `create_statements.py`; `query_text.py` calls sqlglot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from sqlglot import exp

from eddyline.errors import Error, ParseError, did_you_mean
from eddyline.sql import create_statements as create
from eddyline.sql.cursor import TokenCursor, short, statements
from eddyline.sql.query_text import query_text, tree_of
from eddyline.sql.scope import span_of
from eddyline.sql.statements import Delete, Drop, Explain, Insert, QueryText, SelectOnce, Show, Statement, Update
from eddyline.sql.unsupported import refuse_other_args

SHOWABLE = ("STREAMS", "TABLES", "QUERIES", "FAMILIES", "VIEWS", "SINKS", "FUNCTIONS")


def parse(sql: str) -> list[Statement]:
    """All statements of a script. A syntax error is raised before any statement runs."""
    if not isinstance(sql, str):
        raise ParseError(f"SQL must be text, not {type(sql).__name__}.", sql="", span=(0, 0))
    return [_statement(c) for c in statements(sql)]


def _statement(c: TokenCursor) -> Statement:
    span = c.span()
    try:
        for words, read in _STATEMENTS:
            if c.accept(*words):
                body = read(c)
                c.end()
                return Statement(body, c.text, c.sql, c.subject or span)
    except Error as e:
        raise e.at(c.sql, span) from None
    _fail_unknown(c)


def _fail_unknown(c: TokenCursor) -> NoReturn:
    """Raises an error that names the first word that does not fit, and the words that could follow."""
    forms = [words for words, _ in _STATEMENTS]
    fits = 0  # words of the statement that begin some form
    while longer := [w for w in forms if len(w) > fits + 1 and c.is_word(*w[: fits + 1])]:
        forms, fits = longer, fits + 1
    if not fits:
        first = c.peek()
        hint = did_you_mean(first.text if first else "", sorted({w[0] for w in forms if w[0].isalpha()}))
        c.fail(f"{short(c.next_text())} does not begin a statement.", hint)
    begin, words = " ".join(forms[0][:fits]), [w[fits] for w in forms]
    alike = [" ".join(w) for w, _ in _STATEMENTS if w[0] == forms[0][0]]
    c.at += fits
    wrong = c.peek()
    close = did_you_mean(wrong.text, words) if wrong is not None else ""
    hint = f"There is {', '.join(alike)}."
    c.fail(
        f"Expected {' or '.join(words)} after {begin}, found {short(c.next_text())}.",
        f"{close} {hint}" if close.startswith("Did") else hint,
    )


# DROP, SHOW, EXPLAIN


def _drop(c: TokenCursor) -> Drop:
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
            name = c.string("a name") if c.is_string() else c.name(f"the {kind}")
            return Drop(kind, name, if_exists)
    c.fail(f"Expected what to drop, found {c.next_text()}.", f"One of {', '.join(' '.join(w) for w, _ in kinds)}.")


def _show(c: TokenCursor) -> Show:
    for what in SHOWABLE:
        if c.accept(what):
            return Show(what)
    token = c.peek()
    c.fail(f"Expected what to show, found {c.next_text()}.", did_you_mean(token.text if token else "", SHOWABLE))


def _explain(c: TokenCursor) -> Explain:
    analyze = c.accept("ANALYZE")
    if c.is_word("SELECT") or c.is_word("WITH") or c.is_word("("):
        hint = "CREATE CONTINUOUS QUERY name AS … first, then EXPLAIN name."
        c.fail("EXPLAIN takes the name of a query or family, not a text.", hint)
    return Explain(c.name("a query or family"), analyze)


# Queries, INSERT, UPDATE and DELETE, parsed by sqlglot


def _select(c: TokenCursor) -> SelectOnce:
    c.at -= 1
    return SelectOnce(query_text(c))


def _insert(c: TokenCursor) -> Insert:
    if not c.is_word("INTO"):
        c.fail(f"Expected INTO, found {c.next_text()}.", _INSERT)
    tree = _changing(c, exp.Insert, {"this", "expression"}, _INSERT)
    schema, given = tree.this, tree.expression
    has_columns = isinstance(schema, exp.Schema)
    columns = tuple(x.name for x in schema.expressions) if has_columns else ()
    target = _target(c, schema.this if has_columns else schema, _INSERT)
    if isinstance(given, exp.Values):
        refuse_other_args(given, {"expressions"})
        return Insert(target, columns, given, None)
    if not isinstance(given, exp.Query):
        raise ParseError("There are no rows to insert.", hint=_INSERT, sql=c.sql, span=c.subject)
    return Insert(target, columns, None, QueryText(given, {}, c.sql))


def _update(c: TokenCursor) -> Update:
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


def _delete(c: TokenCursor) -> Delete:
    tree = _changing(c, exp.Delete, {"this", "where"}, _DELETE)
    where = tree.args.get("where")
    return Delete(_target(c, tree.this, _DELETE), where.this if where else None)


_INSERT = "Write INSERT INTO name [(columns)] VALUES (…), (…), or INSERT INTO name SELECT …."
_UPDATE = "Write UPDATE name SET column = value WHERE condition."
_DELETE = "Write DELETE FROM name WHERE condition."
_CLAUSES = {"conflict": "ON CONFLICT", "order": "ORDER BY", "from_": "FROM", "with_": "WITH"}


def _changing(c: TokenCursor, kind: type[exp.Expr], known: set[str], hint: str) -> Any:
    """The tree of an INSERT, UPDATE or DELETE; clauses that are not in `known` are refused."""
    c.at = 0
    start = c.span()
    tree = tree_of(c)
    for arg, value in tree.args.items() if isinstance(tree, kind) else ():
        if value and arg not in known:
            word = _CLAUSES.get(arg, arg.upper().replace("_", " "))
            raise ParseError(f"{word} is not supported in {kind.__name__.upper()}.", hint=hint, sql=c.sql, span=start)
    if not isinstance(tree, kind):
        raise ParseError("The statement cannot be read.", hint=hint, sql=c.sql, span=start)
    return tree


def _target(c: TokenCursor, target: Any, hint: str) -> str:
    """The name of the table or stream to change; it becomes the subject of the statement."""
    if not isinstance(target, exp.Table) or not isinstance(target.this, exp.Identifier):
        raise ParseError("Expected the name of a table.", hint=hint, sql=c.sql, span=c.subject)
    c.subject = span_of(target)
    if target.args.get("db"):
        raise ParseError(f"Names have one part, found {target.sql()}.", hint=hint, sql=c.sql, span=c.subject)
    if any(value for arg, value in target.args.items() if arg != "this"):
        raise ParseError("Expected the plain name of a table.", hint=hint, sql=c.sql, span=c.subject)
    return target.name


_STATEMENTS: tuple[tuple[tuple[str, ...], Callable[[TokenCursor], Any]], ...] = (
    (("CREATE", "STREAM"), create.stream),
    (("CREATE", "TABLE"), create.table),
    (("CREATE", "CONTINUOUS", "QUERY"), create.query),
    (("CREATE", "QUERY", "FAMILY"), create.family),
    (("CREATE", "MATERIALIZED", "VIEW"), create.view),
    (("CREATE", "SINK"), create.sink),
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
