"""Identifies the statements of a script by the digest of their words, so that a repeated script adds only new ones."""

from __future__ import annotations

from collections import Counter

from eddyline.spark.worker.blocks import digest
from eddyline.sql.cursor import words
from eddyline.sql.parser import parse
from eddyline.sql.statements import Statement


def by_digest(sql: str) -> dict[str, Statement]:
    """The statements of a script by the digest of their words, independent of white space."""
    statements: dict[str, Statement] = {}
    times: Counter[str] = Counter()
    for statement in parse(sql):
        text = words(statement.text)
        again = [str(times[text]).encode()] if times[text] else []  # a script may repeat a statement
        statements[digest(text.encode(), *again)] = statement
        times[text] += 1
    return statements
