"""The maximum length of a statement, chosen so that parsing and binding take seconds and moderate memory.

A text costs about 10 µs and 2 kB per token (a long IN list of literals is one token), and a list 100 bytes per value
while it is bound. Without a limit, one text could exhaust a process that serves many users.
"""

from __future__ import annotations

from typing import NoReturn

from eddyline.errors import ParseError

MOST_CHARACTERS = 16 * 2**20  # of one statement
MOST_TOKENS = 500_000  # of one statement

_HINT = "Put the values into a table and join with it, or register a family with one row of parameters per query."


def refuse_long_text(sql: str) -> None:
    """Refuses a text, before it is tokenized, if one of its statements is certainly too long."""
    if len(sql) <= MOST_CHARACTERS:
        return
    start = 0
    for part in sql.split(";"):
        if len(part) > MOST_CHARACTERS:
            _refuse(sql, start + len(part) - len(part.lstrip()), f"about {len(part):,} characters")
        start += len(part) + 1


def refuse_long_statement(sql: str, span: tuple[int, int], tokens: int) -> None:
    if span[1] - span[0] > MOST_CHARACTERS:
        _refuse(sql, span[0], f"{span[1] - span[0]:,} characters")
    if tokens > MOST_TOKENS:
        _refuse(sql, span[0], f"{tokens:,} words and signs")


def _refuse(sql: str, start: int, size: str) -> NoReturn:
    most = f"{MOST_CHARACTERS:,} characters and {MOST_TOKENS:,} words and signs"
    raise ParseError(
        f"The statement is too long: it has {size}; the most are {most}.",
        hint=_HINT,
        sql=sql[start : start + 200],
        span=(0, 1),
    )
