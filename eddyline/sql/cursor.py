"""A cursor over the tokens of one statement, for the statement parser. Its errors point at the next token."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import NoReturn

from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from eddyline import types as t
from eddyline.errors import ParseError, did_you_mean, redacted
from eddyline.sql.dialect import DIALECT
from eddyline.sql.functions import UNITS, unit_of
from eddyline.sql.limits import refuse_long_statement, refuse_long_text
from eddyline.sql.literal_lists import LiteralList, lifted

_NOT_NAMES = (
    TokenType.STRING, TokenType.NUMBER, TokenType.COMMA, TokenType.DOT, TokenType.EQ, TokenType.COLON,
    TokenType.L_PAREN, TokenType.R_PAREN, TokenType.L_BRACKET, TokenType.R_BRACKET,
)  # fmt: skip
_UNITS = f"Units are {', '.join(UNITS)}."
_SURROGATE = re.compile("[\ud800-\udfff]")


def tokenize(sql: str) -> list[Token]:
    return tokens_and_lists(sql)[0]


def tokens_and_lists(sql: str) -> tuple[list[Token], Mapping[int, LiteralList]]:
    """The tokens of a text. A long IN list of literals is one token; the mapping has the lists by position."""
    surrogate = _SURROGATE.search(sql)
    if surrogate is not None:
        raise ParseError(
            f"The text has {surrogate.group()!r}, which is half of a character.",
            hint="Nothing was run; give text that can be written as UTF-8.",
            sql=_SURROGATE.sub("\ufffd", sql),  # so that the error can be printed
            span=surrogate.span(),
        )
    masked, lists = lifted(sql)
    try:
        return _with_doubled_quotes(masked, DIALECT.tokenize(masked)), lists
    except SqlglotError as e:
        start = max(sql.rfind("'"), sql.rfind('"'), sql.rfind("`"), 0)
        raise ParseError(
            f"The text cannot be read as SQL: {str(e).splitlines()[0]}.",
            hint="Look for a quote or comment that is not closed.",
            sql=sql,
            span=(start, start + 1),
        ) from None


def _with_doubled_quotes(sql: str, tokens: Iterable[Token]) -> list[Token]:
    """Merges strings that touch: sqlglot splits a string at a doubled quote, which stands for one quote."""
    strings: list[list[Token]] = []
    for token in tokens:
        if strings and _continues(sql, strings[-1][-1], token):
            strings[-1].append(token)
        else:
            strings.append([token])
    return [pieces[0] if len(pieces) == 1 else _one_string(sql, pieces) for pieces in strings]


def _continues(sql: str, before: Token, token: Token) -> bool:
    """Whether the second of two strings begins right after the first, with the same quote."""
    strings = before.token_type == token.token_type == TokenType.STRING
    return strings and before.end + 1 == token.start and sql[before.end] == sql[token.start]


def _one_string(sql: str, pieces: list[Token]) -> Token:
    first, last = pieces[0], pieces[-1]
    text = sql[first.start].join(token.text for token in pieces)
    comments = [c for token in pieces for c in token.comments]
    return Token(TokenType.STRING, text, last.line, last.col, first.start, last.end, comments)


def statements(sql: str) -> list[TokenCursor]:
    """One cursor per statement of a script; empty statements are dropped."""
    refuse_long_text(sql)
    tokens, lists = tokens_and_lists(sql)
    split = groupby(tokens, lambda token: token.token_type == TokenType.SEMICOLON)
    cursors = [TokenCursor(sql, list(group), lists) for is_semicolon, group in split if not is_semicolon]
    for c in cursors:
        refuse_long_statement(sql, (c.tokens[0].start, c.tokens[-1].end + 1), len(c.tokens))
    return cursors


def words(sql: str) -> str:
    """A text without comments and with one space between its tokens, so that texts of equal meaning compare equal."""
    tokens, lists = tokens_and_lists(sql)
    parts: list[str] = []
    for token in tokens:
        word = sql[token.start : token.end + 1]
        if token.start in lists:
            parts += lists[token.start].pieces
        else:
            parts.append(word if word[0] in "'\"`" else " ".join(word.split()))
    return " ".join(parts)


@dataclass
class TokenCursor:
    sql: str
    tokens: list[Token]
    lists: Mapping[int, LiteralList] = field(default_factory=dict)  # by the position of the token that replaces each
    at: int = 0  # index of the next token
    subject: tuple[int, int] | None = None  # span of the name that the statement creates or changes

    @property
    def text(self) -> str:
        """The text of this statement alone."""
        return self.sql[self.tokens[0].start : self.tokens[-1].end + 1]

    def peek(self, ahead: int = 0) -> Token | None:
        i = self.at + ahead
        return self.tokens[i] if i < len(self.tokens) else None

    def done(self) -> bool:
        return self.at >= len(self.tokens)

    def span(self) -> tuple[int, int]:
        token = self.peek()
        if token is None:
            end = self.tokens[-1].end + 1
            return end, end + 1
        return token.start, token.end + 1

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        raise ParseError(message, hint=hint, sql=self.sql, span=self.span())

    def fail_last(self, message: str, hint: str | None = None) -> NoReturn:
        """Raises an error that points at the token just read."""
        self.at -= 1
        self.fail(message, hint)

    def next_text(self) -> str:
        """The next token for an error message, without secrets."""
        token = self.peek()
        return "the end of the statement" if token is None else repr(redacted(self.sql)[token.start : token.end + 1])

    def is_word(self, *words: str) -> bool:
        """Whether the next tokens are these keywords, in this order."""
        return self._tokens_of(words) > 0

    def accept(self, *words: str) -> bool:
        n = self._tokens_of(words)
        self.at += n
        return n > 0

    def _tokens_of(self, words: tuple[str, ...]) -> int:
        """How many tokens the words take up, 0 if they are not next; some pairs of words are one token."""
        ahead = 0
        rest = list(words)
        while rest:
            token = self.peek(ahead)
            if token is None or token.token_type == TokenType.STRING:
                return 0
            in_token = token.text.upper().split()
            if not in_token or rest[: len(in_token)] != in_token:
                return 0
            rest = rest[len(in_token) :]
            ahead += 1
        return ahead

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            self.fail(f"Expected {' '.join(words)}, found {self.next_text()}.")

    def name(self, what: str) -> str:
        if self.is_word("IF", "NOT", "EXISTS"):
            self.fail("IF NOT EXISTS is not supported.", "SHOW lists what exists; DROP … IF EXISTS removes it first.")
        token = self.peek()
        if token is None or token.token_type in _NOT_NAMES or not token.text:
            self.fail(f"Expected the name of {what}, found {self.next_text()}.")
        if not (token.text[0].isalpha() or token.text[0] == "_" or token.token_type == TokenType.IDENTIFIER):
            self.fail(f"Expected the name of {what}, found {self.next_text()}.")
        self.subject = self.subject or self.span()
        self.at += 1
        return str(token.text)

    def is_string(self) -> bool:
        token = self.peek()
        return token is not None and token.token_type == TokenType.STRING

    def string(self, what: str) -> str:
        if not self.is_string():
            self.fail(f"Expected {what} as a quoted string, found {self.next_text()}.")
        self.at += 1
        return str(self.tokens[self.at - 1].text)

    def type(self) -> object:
        token = self.peek()
        word = token.text.upper() if token is not None else ""
        if word not in t.BY_NAME:
            hint = did_you_mean(word, t.BY_NAME)
            if word in ("DECIMAL", "NUMERIC"):
                hint = "Use DOUBLE, or BIGINT in the smallest unit (cents)."
            self.fail(f"Expected a type, found {self.next_text()}.", hint)
        self.at += 1
        if word == "VARCHAR" and self.accept("("):
            length = self.peek()
            if length is None or length.token_type != TokenType.NUMBER:
                self.fail(f"Expected a number, found {self.next_text()}.")
            self.at += 1
            self.expect(")")
        return t.BY_NAME[word]

    def duration(self) -> int:
        """`INTERVAL 5 SECONDS` or `INTERVAL '5' SECOND`, in microseconds."""
        self.expect("INTERVAL")
        token = self.peek()
        if token is None or token.token_type not in (TokenType.NUMBER, TokenType.STRING):
            self.fail(f"Expected a number, found {self.next_text()}.")
        number, word = token.text.strip(), None
        if token.token_type == TokenType.STRING and " " in number:
            number, word = number.split(maxsplit=1)
        try:
            amount = float(number)
        except ValueError:
            self.fail(f"Expected a number, found {self.next_text()}.")
        self.at += 1
        unit = unit_of(self.unit() if word is None else word)
        if unit is None:
            self.fail_last(f"{word!r} is not a unit of time.", _UNITS)
        if not 0 <= amount * unit < 2**62:
            self.fail_last("The interval is out of range.", "Give a length from zero up to a hundred thousand years.")
        return round(amount * unit)

    def unit(self) -> str:
        """The next token, which must be a unit of time."""
        token = self.peek()
        if token is None or unit_of(token.text) is None:
            self.fail(f"Expected a unit of time, found {self.next_text()}.", _UNITS)
        self.at += 1
        return str(token.text)

    def rest(self) -> list[Token]:
        """All remaining tokens; the cursor moves to the end."""
        tokens = self.tokens[self.at :]
        if not tokens:
            self.fail("The statement ends where a query was expected.")
        self.at = len(self.tokens)
        return tokens

    def end(self) -> None:
        if not self.done():
            self.fail(f"Expected the end of the statement, found {self.next_text()}.")


def short(text: str) -> str:
    """A text for an error message, cut to 60 characters."""
    return text if len(text) <= 60 else text[:57] + "..."
