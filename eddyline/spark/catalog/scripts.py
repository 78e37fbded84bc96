"""The statements of a pipeline's script, each known by its words, so that a script run again adds only what is new."""

from __future__ import annotations

from collections import Counter

from eddyline.spark.worker.blocks import digest
from eddyline.sql.cursor import words
from eddyline.sql.parser import parse
from eddyline.sql.statements import Statement


def by_digest(sql: str) -> dict[str, Statement]:
    """The statements of a script by the digest of their words, whatever the space between them."""
    found: dict[str, Statement] = {}
    times: Counter[str] = Counter()
    for statement in parse(sql):
        text = words(statement.text)
        again = [str(times[text]).encode()] if times[text] else []  # the same may be meant twice
        found[digest(text.encode(), *again)] = statement
        times[text] += 1
    return found
