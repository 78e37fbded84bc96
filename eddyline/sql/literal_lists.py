"""Long IN lists of literals, `IN (1, 2, …)` with thousands of items, replaced by one token before tokenizing.

sqlglot takes 9 µs per token and builds an object with a dictionary for each literal. A regular expression finds long
lists of plain literals instead, and a quoted string of the same length replaces each list in the text that sqlglot
parses, so that the positions of all other tokens stay the same. Metadata of the string's literal refers to the list.
sqlglot parses a list that contains anything else (expressions, comments, escapes). O(length of the text).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

from sqlglot import exp

from eddyline.sql.constant_lists import MOST_SEPARATE_ITEMS

_NUMBER = r"[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+(?![\w.])"
_ITEM = rf"(?:'[^'\\]*+'(?!')|-?+{_NUMBER})"
_LIST = re.compile(rf"\s*+({_ITEM}(?:\s*+,\s*+{_ITEM}){{{MOST_SEPARATE_ITEMS},}}+)\s*+\)")
_PIECE = re.compile(rf"'[^']*+'|{_NUMBER}|[-,]")
_LITERAL = re.compile(rf"'([^']*+)'|(-?+{_NUMBER})")
_NOT_WHOLE = re.compile("['.eE]")
# Strings and comments, which are skipped, and the beginning of a list. A string with a doubled quote is two strings
# here, as in sqlglot; both are skipped.
_SKIPPED = re.compile(
    r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|`[^`]*+`|--[^\n]*+|/\*.*?\*/|(?P<list>\bIN\s*+\()""",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
_RAW = re.compile(r"\b[rR]['\"]")  # raw strings: a backslash is not an escape
_UNSAFE = ("{#", "{%", "{{", "/*+")


@dataclass(frozen=True)
class LiteralList:
    """The literals of one list, as written."""

    text: str
    start: int  # position of the first literal in the statement's text

    def __deepcopy__(self, _: Any) -> LiteralList:
        return self

    @cached_property
    def items(self) -> list[tuple[str, bool, int]]:
        """(text without quotes, whether it is quoted, position) of each literal."""
        return [
            (m[1], True, self.start + m.start()) if m[2] is None else (m[2], False, self.start + m.start())
            for m in _LITERAL.finditer(self.text)
        ]

    @cached_property
    def integers(self) -> list[int] | None:
        """The values, if all are integers that fit BIGINT; None otherwise."""
        if _NOT_WHOLE.search(self.text) is not None or max(map(len, self.text.split(","))) > 300:
            return None
        values = [int(text) for text in self.text.split(",")]
        return values if min(values) > -(2**63) and max(values) < 2**63 else None

    @property
    def pieces(self) -> list[str]:
        """The tokens of the list: literals, signs and commas."""
        return _PIECE.findall(self.text)

    def trees(self) -> list[exp.Expr]:
        """The items as the trees that sqlglot would have built."""
        trees: list[exp.Expr] = []
        for text, quoted, place in self.items:
            signed = text.startswith("-") and not quoted
            bare = text[1:] if signed else text
            literal = exp.Literal(this=bare, is_string=quoted)
            start = place + signed
            literal.meta.update(start=start, end=start + len(bare) + 2 * quoted - 1)
            trees.append(exp.Neg(this=literal) if signed else literal)
        return trees


def lifted(sql: str) -> tuple[str, Mapping[int, LiteralList]]:
    """The text with each long list replaced by a string, and the lists by the position of their string."""
    if sql.count(",") < MOST_SEPARATE_ITEMS or any(m in sql for m in _UNSAFE) or ("\\" in sql and _RAW.search(sql)):
        return sql, {}
    lists: dict[int, LiteralList] = {}
    parts: list[str] = []
    done = at = 0
    while (match := _SKIPPED.search(sql, at)) is not None:
        at = match.end()
        if match["list"] is None:
            if sql.find("/*", match.start() + 1, at) >= 0 and match[0].startswith("/*"):
                return sql, {}  # a comment inside a comment
            continue
        items = _LIST.match(sql, at)
        if items is not None:
            start, at = items.span(1)
            lists[start] = LiteralList(items[1], start)
            masked = re.sub(r"[^\n]+", lambda line: "." * len(line[0]), items[1])
            parts += [sql[done:start], "'", masked[1:-1], "'"]
            done = at
    return ("".join([*parts, sql[done:]]), lists) if lists else (sql, lists)


def mark_lists(tree: exp.Expr, lists: Mapping[int, LiteralList]) -> set[int]:
    """Attaches to each literal that replaces a list its list; returns the positions of the attached lists."""
    marked: set[int] = set()
    for node in tree.find_all(exp.In):
        for literal in node.expressions:
            literals = lists.get(literal.meta.get("start", -1))
            if literals is not None:
                literal.meta["list"] = literals
                literal.set("this", blake2b("".join(literals.pieces).encode(), digest_size=16).hexdigest())
                marked.add(literals.start)
    return marked


def list_of(tree: exp.In) -> LiteralList | None:
    """The long list of an IN, if it has one."""
    items = tree.expressions
    return items[0].meta.get("list") if len(items) == 1 else None
