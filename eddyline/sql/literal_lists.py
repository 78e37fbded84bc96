"""Long IN lists of literals, lifted out of a text before it is tokenized: `IN (1, 2, …)` with thousands of items.

sqlglot takes 9 µs a token and builds an object with a dictionary for each literal. A long list of plain literals is
found by a regular expression instead, and one quoted string of the same length takes its place in the text that sqlglot
reads, so that the places of all other tokens stay. The tree's literal then says which list it stands for. A list with
anything else in it (expressions, comments, escapes) is left to sqlglot. O(length of the text).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

from sqlglot import exp

from eddyline.sql.constant_lists import MOST_ITEMS_APART

_NUMBER = r"[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+(?![\w.])"
_ITEM = rf"(?:'[^'\\]*+'(?!')|-?+{_NUMBER})"
_LIST = re.compile(rf"\s*+({_ITEM}(?:\s*+,\s*+{_ITEM}){{{MOST_ITEMS_APART},}}+)\s*+\)")
_PIECE = re.compile(rf"'[^']*+'|{_NUMBER}|[-,]")
_LITERAL = re.compile(rf"'([^']*+)'|(-?+{_NUMBER})")
_NOT_WHOLE = re.compile("['.eE]")
# What hides text from the parser, and where a list may begin. Strings in which a backslash or a doubled quote stands
# end where sqlglot lets them end: two strings that touch are skipped one after the other.
_SKIPPED = re.compile(
    r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|`[^`]*+`|--[^\n]*+|/\*.*?\*/|(?P<list>\bIN\s*+\()""",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
_RAW = re.compile(r"\b[rR]['\"]")  # strings in which a backslash stands for itself
_UNSAFE = ("{#", "{%", "{{", "/*+")


@dataclass(frozen=True)
class LiteralList:
    """The literals of one list, as written."""

    text: str
    start: int  # where the first one stands in the statement's text

    def __deepcopy__(self, _: Any) -> LiteralList:
        return self

    @cached_property
    def items(self) -> list[tuple[str, bool, int]]:
        """(text without quotes, whether it is quoted, place) of each."""
        return [
            (m[1], True, self.start + m.start()) if m[2] is None else (m[2], False, self.start + m.start())
            for m in _LITERAL.finditer(self.text)
        ]

    @cached_property
    def integers(self) -> list[int] | None:
        """The values, if all are whole numbers that fit BIGINT; None otherwise."""
        if _NOT_WHOLE.search(self.text) is not None or max(map(len, self.text.split(","))) > 300:
            return None
        values = [int(text) for text in self.text.split(",")]
        return values if min(values) > -(2**63) and max(values) < 2**63 else None

    @property
    def pieces(self) -> list[str]:
        """Literals, signs and commas: the tokens of the list."""
        return _PIECE.findall(self.text)

    def trees(self) -> list[exp.Expr]:
        """The items as sqlglot would have made them."""
        found: list[exp.Expr] = []
        for text, quoted, place in self.items:
            signed = text.startswith("-") and not quoted
            bare = text[1:] if signed else text
            literal = exp.Literal(this=bare, is_string=quoted)
            start = place + signed
            literal.meta.update(start=start, end=start + len(bare) + 2 * quoted - 1)
            found.append(exp.Neg(this=literal) if signed else literal)
        return found


def lifted(sql: str) -> tuple[str, Mapping[int, LiteralList]]:
    """The text with a string in the place of each long list, and the lists by the place of that string."""
    if sql.count(",") < MOST_ITEMS_APART or any(m in sql for m in _UNSAFE) or ("\\" in sql and _RAW.search(sql)):
        return sql, {}
    lists: dict[int, LiteralList] = {}
    parts: list[str] = []
    done = at = 0
    while (found := _SKIPPED.search(sql, at)) is not None:
        at = found.end()
        if found["list"] is None:
            if sql.find("/*", found.start() + 1, at) >= 0 and found[0].startswith("/*"):
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
    """Tells the literals of a tree that stand for lists which ones they are; returns the places of those lists."""
    marked: set[int] = set()
    for node in tree.find_all(exp.In):
        for literal in node.expressions:
            found = lists.get(literal.meta.get("start", -1))
            if found is not None:
                literal.meta["list"] = found
                literal.set("this", blake2b("".join(found.pieces).encode(), digest_size=16).hexdigest())
                marked.add(found.start)
    return marked


def list_of(tree: exp.In) -> LiteralList | None:
    """The long list of an IN, if it has one."""
    items = tree.expressions
    return items[0].meta.get("list") if len(items) == 1 else None
