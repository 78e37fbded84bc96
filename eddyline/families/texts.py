"""The fast path from a text to (shape, constants).

Literals are cut out of the text; what is left is its template. A template seen before tells, for every literal, which
parameter it gives and how, so that the text is neither parsed nor bound. Literals that are part of the shape
(GROUP BY 1) must be the same text again, and where a text groups, literals that were equal must be equal again: keys
and aggregates are recognised by their text. Texts this does not understand take the slow path; it is never wrong, only
slower.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from eddyline import types as t
from eddyline.errors import Error
from eddyline.sql.bound import BoundQuery
from eddyline.sql.scope import Recipe

_HEAD = re.compile(r"\s*CREATE\s+CONTINUOUS\s+QUERY\s+([A-Z_]\w*)\s+", re.IGNORECASE | re.ASCII)
_DROP = re.compile(r"\s*DROP\s+CONTINUOUS\s+QUERY\s+([A-Z_]\w*)\s*;?\s*", re.IGNORECASE | re.ASCII)
_LITERAL = re.compile(r"('[^'\\]*'(?!')|(?<![\w.:`\"$@])[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.]))")
# Comments, escapes, other quotes, several statements and what a template marks literals with are left to the parser.
_UNSAFE = ("--", "/*", "{#", "\\", ";", '"', "`", "''", "\0")
_GROUPING = re.compile(r"\b(?:GROUP|HAVING|COUNT|SUM|AVG|MIN|MAX)\b", re.IGNORECASE)


def dropped_query(text: str) -> str | None:
    """The name in a lone DROP CONTINUOUS QUERY statement."""
    found = _DROP.fullmatch(text)
    return None if found is None else found.group(1)


@dataclass(frozen=True, slots=True)
class Cut:
    """A text without its literals: the query's name, the template, and what was cut out."""

    name: str
    template: str
    literals: list[str]
    pieces: list[str]  # what stood around the literals, the head of the statement left out
    start: int  # where the first piece begins

    def places(self) -> list[int]:
        """Where each literal begins in the text."""
        found, at = [], self.start
        for piece, literal in zip(self.pieces, self.literals, strict=False):
            found.append(at + len(piece))
            at += len(piece) + len(literal)
        return found


def cut(text: str) -> Cut | None:
    head = _HEAD.match(text)
    if head is None or any(mark in text for mark in _UNSAFE) or not (text.isascii() or _is_whole(text)):
        return None
    parts = _LITERAL.split(text[head.end() :])
    pieces, literals = parts[::2], parts[1::2]
    kinds = "".join(["s" if x[0] == "'" else "i" if x.isdigit() else "d" for x in literals])
    return Cut(head.group(1), f"{kinds}\0" + "\0".join(pieces), literals, pieces, head.end())


def _is_whole(text: str) -> bool:
    """Whether no character is half a pair."""
    return not any("\ud800" <= c <= "\udfff" for c in text)


@dataclass(frozen=True, slots=True)
class Known:
    """What a template means: its family, and per parameter the literal it comes from and how it is made."""

    family: int
    makers: tuple[tuple[int | None, Callable[[str], Any]], ...]  # (which literal, how) for each parameter
    fixed: tuple[tuple[int, str], ...]  # literals that belong to the shape


class Templates:
    """Templates by text. A change of the catalog forgets them all."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._grouping: set[str] = set()
        self._version = -1

    def _key(self, found: Cut) -> str:
        """What a text is known by: where it groups, which literals are equal belongs to it."""
        if found.template not in self._grouping:
            return found.template
        bare = [literal.strip("'") for literal in found.literals]
        return f"{found.template}\0{[bare.index(b) for b in bare]}"

    def values(self, found: Cut, version: int) -> tuple[int, list[Any]] | None:
        """(family number, parameter values) of a text whose template is known; None: take the slow path."""
        if version != self._version:
            self._known.clear()
            self._version = version
        known = self._known.get(self._key(found))
        if known is None:
            return None
        literals = found.literals
        for i, text in known.fixed:
            if literals[i] != text:
                return None
        try:
            return known.family, [make("" if i is None else literals[i]) for i, make in known.makers]
        except (Error, ValueError, LookupError, OverflowError):
            return None

    def learn(self, found: Cut, family: int, recipes: Sequence[Recipe], bound: BoundQuery) -> None:
        """Remembers a template after its text took the slow path.

        A constant that is not made from a literal (TRUE) is part of the template, and so always the same.
        """
        if not all(_fits(text, 31) for text in found.literals):
            return  # its size chose a type that a smaller number would not
        where = {place: i for i, place in enumerate(found.places())}
        makers: list[tuple[int | None, Callable[[str], Any]]] = []
        for r, param, value in zip(recipes, bound.params, bound.values, strict=True):
            if r.origin not in where or r.make is None:
                makers.append((None, partial(_always, value)))
                continue
            i = where[r.origin]
            make = _unquoted(r.make) if found.literals[i][0] == "'" else r.make
            makers.append((i, _in_range(make, param.type) if t.is_integer(param.type) else make))
        used = {i for i, _ in makers}
        fixed = tuple((i, text) for i, text in enumerate(found.literals) if i not in used)
        if any(_GROUPING.search(piece) for piece in found.pieces):
            self._grouping.add(found.template)
        self._known[self._key(found)] = Known(family, tuple(makers), fixed)

    def forget(self, family: int) -> None:
        self._known = {k: v for k, v in self._known.items() if v.family != family}


def _always(value: Any, _: str) -> Any:
    return value


def _unquoted(make: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: make(text[1:-1])


def _in_range(make: Callable[[str], Any], type_: pa.DataType) -> Callable[[str], Any]:
    """The same, but not for a number that would have made the parameter's type a wider one."""
    limit, bits = 2 ** (type_.bit_width - 1), 63 if type_ == t.BIGINT else 31

    def checked(text: str) -> int:
        value = make(text)
        if not _fits(text, bits) or not isinstance(value, int) or not -limit <= value < limit:
            raise ValueError(text)
        return value

    return checked


def _fits(literal: str, bits: int) -> bool:
    """Whether a whole number is below 2^bits; what is no whole number does not matter."""
    return not literal.isdigit() or (len(literal.lstrip("0")) < 20 and int(literal[-20:]) < 2**bits)
