"""Parsing of queries and of INSERT, UPDATE and DELETE by sqlglot, from the tokens of a statement.

Windows (`[RANGE …]`, `[ROWS n]`, `[NOW]`) are removed from the tokens before sqlglot parses them, and stored by the
position of the token they follow. Positions in errors are always positions in the user's text.
"""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import pairwise
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.tokenizer_core import Token, TokenType

from eddyline.errors import ParseError
from eddyline.sql.cursor import TokenCursor, short
from eddyline.sql.dialect import DIALECT, OF_THE_SYNTAX
from eddyline.sql.literal_lists import mark_lists
from eddyline.sql.statements import QueryText, WindowText


def query_text(c: TokenCursor) -> QueryText:
    """The query that the rest of a statement is."""
    windows: dict[int, WindowText] = {}
    tokens = _lift_windows(c, windows)
    tree = _parse_tokens(c, tokens)
    if not isinstance(tree, exp.Query) or isinstance(tree, (exp.Values, exp.Table)):
        raise ParseError("Expected a SELECT.", sql=c.sql, span=(tokens[0].start, tokens[0].end + 1))
    return QueryText(tree, windows, c.sql)


def tree_of(c: TokenCursor) -> Any:
    return _parse_tokens(c, c.rest())


def _parse_tokens(c: TokenCursor, tokens: list[Token]) -> exp.Expr:
    whole = (tokens[0].start, tokens[-1].end + 1)

    def fail(message: str, span: tuple[int, int] = whole) -> NoReturn:
        raise ParseError(message, sql=c.sql, span=span) from None

    if any(token.token_type == TokenType.WINDOW for token in tokens):
        tokens = _with_window_calls(tokens)
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
        called = _called(tokens, span[0]) if span is not None else None
        fail(_reworded(str(detail.get("description") or ""), near, called), span or whole)
    except RecursionError:
        fail("The statement is nested too deeply.")
    except Exception:  # sqlglot does not document what malformed input raises
        fail("The statement cannot be read.")
    if len(trees) != 1 or trees[0] is None:
        fail("The statement cannot be read.")
    if c.lists:
        lost = {t.start for t in tokens} & c.lists.keys() - mark_lists(trees[0], c.lists)
        for place in lost:
            fail("A list of values does not fit here.", (place, place + len(c.lists[place].text)))
    return trees[0]


# Mistakes that sqlglot accepts: `a,, b`, `a, FROM`, `AS 5`.
_NEVER_AFTER: dict[TokenType, tuple[TokenType | None, ...]] = {
    TokenType.COMMA: (
        TokenType.COMMA, TokenType.R_PAREN, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, None,
    ),
    TokenType.ALIAS: (TokenType.NUMBER, TokenType.FROM, TokenType.COMMA, None),
    TokenType.EXCEPT: (TokenType.FROM, None),
}  # fmt: skip


def _with_window_calls(tokens: list[Token]) -> list[Token]:
    """The tokens with window(…) as a plain call, because sqlglot takes WINDOW after GROUP BY for a clause."""
    replaced = list(tokens)
    for i, (token, after) in enumerate(pairwise(tokens)):
        if token.token_type == TokenType.WINDOW and after.token_type == TokenType.L_PAREN:
            args = token.text, token.line, token.col, token.start, token.end, token.comments
            replaced[i] = Token(TokenType.VAR, *args)
    return replaced


def _called(tokens: list[Token], place: int) -> str | None:
    """The name, as written, of the innermost function call around a position; None if there is none."""
    names: list[str] = []
    before: Token | None = None
    for token in tokens:
        if token.start >= place:
            break
        if token.token_type == TokenType.L_PAREN:
            names.append(before.text if before is not None and _names_function(before) else "")
        elif token.token_type == TokenType.R_PAREN and names:
            names.pop()
        before = token
    return names[-1] if names and names[-1] else None


def _names_function(token: Token) -> bool:
    return token.token_type == TokenType.VAR or token.text.upper() in OF_THE_SYNTAX


def _reworded(description: str, near: str, called: str | None) -> str:
    """An error of sqlglot in this project's words; `called` is the function whose arguments it was parsing."""
    near = short(repr(near))
    within = f" (in {called}(…))" if called else ""
    missing = re.match(r"Required keyword: '(\w+)' missing for <class '[\w.]*\.(\w+)'>", description)
    if missing is not None:
        kind = getattr(exp, missing.group(2), None)
        if isinstance(kind, type) and issubclass(kind, exp.Func):
            return f"{called or kind.sql_name().lower()} lacks an argument, near {near}."
        if isinstance(kind, type) and issubclass(kind, exp.Binary | exp.Unary | exp.Between):
            return f"An operator lacks something to work on, near {near}{within}."
        return f"Something is missing near {near}."
    expecting = re.match(r"Expect(?:ing|ed) (.*?)(?: but got .*)?$", description, re.DOTALL)
    if expecting is not None:
        return f"Expected {expecting.group(1).rstrip('.')} near {near}."
    if description.startswith("Invalid expression"):
        return f"{near} does not fit here{within}."
    arguments = re.match(r"The number of provided arguments \((\d+)\) is greater .* \((\d+)\)", description)
    if arguments is not None:
        given, most = arguments.groups()
        return f"{called or 'A function'} takes at most {most} argument{'' if most == '1' else 's'}, found {given}."
    if "Token" in description or "class" in description or not description:
        return f"The statement cannot be read near {near}."
    return f"{description.rstrip('.')}, near {near}."


def _span_of(sql: str, line: int | None, col: int | None, highlight: str) -> tuple[int, int] | None:
    """The span of a token, from the line and column of its last character, which is what sqlglot reports."""
    if not line or col is None:
        return None
    start = 0
    for _ in range(line - 1):
        start = sql.find("\n", start) + 1
    end = min(start + col, len(sql))
    return max(0, end - max(1, len(highlight))), end


def _lift_windows(c: TokenCursor, windows: dict[int, WindowText]) -> list[Token]:
    """The remaining tokens without windows; the windows are added to `windows`."""
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
            kept.append(_quoted_interval(kept, token))
            c.at += 1
    if not kept:
        c.fail("The statement ends where a query was expected.")
    return kept


def _quoted_interval(before: list[Token], token: Token) -> Token:
    """The number after INTERVAL as a quoted string, because sqlglot keeps the position of quoted numbers only. It has
    no exponent, because sqlglot would read the letter as a unit."""
    if token.token_type == TokenType.NUMBER and before and before[-1].token_type == TokenType.INTERVAL:
        exponent = re.fullmatch(r"[0-9.]+[eE][+-]?0*([0-9]{1,3})", token.text)
        text = token.text if exponent is None else f"{Decimal(token.text):f}"
        return Token(TokenType.STRING, text, token.line, token.col, token.start, token.end, token.comments)
    return token


def _window(c: TokenCursor) -> WindowText:
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
        size = exp.Interval(this=amount, unit=exp.Var(this=c.unit()))
    if not c.is_word("]"):
        c.fail(f"Expected ] after the window, found {c.next_text()}.")
    end = c.span()[1]
    c.at += 1
    return WindowText(kind, size, (start, end))


def _amount(c: TokenCursor) -> exp.Expr:
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
            c.fail(f"Expected the name of a parameter right after the colon, found {c.next_text()}.")
        start, end = token.start, follows.end if follows is not None else token.end
        parameter = exp.Placeholder(this=c.name("a parameter"))
        parameter.meta.update(start=start, end=end)
        return parameter
    c.fail(f"Expected a number or a :parameter, found {c.next_text()}.")
