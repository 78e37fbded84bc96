"""The fast path from a text to (shape, constants).

Literals are cut out of the text; what is left is its template. A template seen before tells, for every literal, which
parameter it gives and how, so that the text is neither parsed nor bound. Literals that are part of the shape
(GROUP BY 1) must be the same text again, and where a text groups, literals that were equal must be equal again: keys
and aggregates are recognised by their text. Texts this does not understand take the slow path; it is never wrong, only
slower.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from eddyline import types as t
from eddyline.engine.family import Family
from eddyline.errors import Error
from eddyline.sql.bound import BoundQuery, groups
from eddyline.sql.constant_lists import ConstantList
from eddyline.sql.limits import MOST_CHARACTERS
from eddyline.sql.scope import ListRecipe, Recipe

_HEAD = re.compile(r"\s*CREATE\s+CONTINUOUS\s+QUERY\s+([A-Z_]\w*)\s+", re.IGNORECASE | re.ASCII)
_DROP = re.compile(r"\s*DROP\s+CONTINUOUS\s+QUERY\s+([A-Z_]\w*)\s*;?\s*", re.IGNORECASE | re.ASCII)
_LITERAL = re.compile(r"('[^'\\]*'(?!')|(?<![\w.:`\"$@])[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.]))")
MOST_LITERALS = 4096  # of a text whose template is kept


def dropped_query(text: str) -> str | None:
    """The name in a lone DROP CONTINUOUS QUERY statement."""
    match = _DROP.fullmatch(text)
    return None if match is None else match.group(1)


class Cut(NamedTuple):
    """A text without its literals: the query's name, the template, and what was cut out."""

    name: str
    template: str
    literals: list[str]
    pieces: list[str]  # the text around the literals, without the head of the statement
    start: int  # where the first piece begins

    def places(self) -> list[int]:
        """Where each literal begins in the text."""
        places, at = [], self.start
        for piece, literal in zip(self.pieces, self.literals, strict=False):
            places.append(at + len(piece))
            at += len(piece) + len(literal)
        return places


def cut(text: str) -> Cut | None:
    head = _HEAD.match(text) if len(text) <= MOST_CHARACTERS else None
    if head is None or _is_unsafe(text) or not (text.isascii() or _is_whole(text)):
        return None
    parts = _LITERAL.split(text[head.end() :])
    pieces, literals = parts[::2], parts[1::2]
    kinds = "".join(["s" if x[0] == "'" else "i" if x.isdigit() else "d" for x in literals])
    return Cut(head.group(1), f"{kinds}\0" + "\0".join(pieces), literals, pieces, head.end())


def _is_unsafe(text: str) -> bool:
    """Comments, escapes, other quotes, several statements and what a template marks literals with are left to the
    parser. Written out: a loop or a pattern takes two to three times as long."""
    return (
        "--" in text
        or "/*" in text
        or "{#" in text
        or "\\" in text
        or ";" in text
        or '"' in text
        or "`" in text
        or "''" in text
        or "\0" in text
    )


def _is_whole(text: str) -> bool:
    """Whether no character is half a pair."""
    return not any("\ud800" <= c <= "\udfff" for c in text)


@dataclass(frozen=True, slots=True)
class Known:
    """What a template means: its family, and per parameter the literal it comes from and how it is made."""

    family: Family
    makers: tuple[tuple[Which, Callable[[Any], Any]], ...]  # (which literal or literals, how) for each parameter
    fixed: tuple[tuple[int, str], ...]  # literals that belong to the shape


class Templates:
    """Templates by text. A change of the catalog forgets them all."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._grouping: set[str] = set()
        self._version = -1

    def _key(self, cut: Cut) -> str:
        """The key of a text that groups: its template, and which of its literals are equal."""
        first: dict[str, int] = {}
        alike = [first.setdefault(literal.strip("'"), i) for i, literal in enumerate(cut.literals)]
        return f"{cut.template}\0{alike}"

    def values(self, cut: Cut, version: int) -> tuple[Family, list[Any]] | None:
        """(family, parameter values) of a text whose template is known; None: take the slow path.

        The family may have been removed since, or never have started."""
        if version != self._version:
            self._known.clear()
            self._version = version
        known = self._known.get(self._key(cut) if cut.template in self._grouping else cut.template)
        if known is None:
            return None
        literals = cut.literals
        for i, text in known.fixed:
            if literals[i] != text:
                return None
        try:
            values = [make(literals[i] if type(i) is int else _given(literals, i)) for i, make in known.makers]
            return known.family, values
        except (Error, ValueError, LookupError, OverflowError):
            return None

    def learn(self, cut: Cut, family: Family, recipes: Sequence[Recipe | ListRecipe], bound: BoundQuery) -> None:
        """Remembers a template after its text took the slow path.

        A constant that is not made from a literal (TRUE) is part of the template, and so always the same.
        """
        if len(cut.literals) > MOST_LITERALS or not all(_fits(text, 31) for text in cut.literals):
            return  # too long to be worth while; or its size chose a type that a smaller number would not
        where = {place: i for i, place in enumerate(cut.places())}
        makers: list[tuple[Which, Callable[[Any], Any]]] = []
        used: set[int | None] = set()
        for r, param, value in zip(recipes, bound.params, bound.values, strict=True):
            if isinstance(value, ConstantList) and not isinstance(r, ListRecipe):
                return  # a list that is too long to be worth while
            if isinstance(r, ListRecipe):
                items = [_maker(cut, where, item, r.type, v) for item, v in r.items]
                makers.append((tuple(i for i, _ in items), _list_of([make for _, make in items], r.type)))
                used |= {i for i, _ in items}
            else:
                makers.append(_maker(cut, where, r, param.type, value))
                used.add(makers[-1][0])  # type: ignore[arg-type]
        fixed = tuple((i, text) for i, text in enumerate(cut.literals) if i not in used)
        if groups(bound.query):
            self._grouping.add(cut.template)
        key = self._key(cut) if cut.template in self._grouping else cut.template
        self._known[key] = Known(family, tuple(makers), fixed)

    def forget(self, family: Family) -> None:
        self._known = {k: v for k, v in self._known.items() if v.family is not family}


Which = int | None | tuple[int | None, ...]


def _given(literals: Sequence[str], which: Which) -> str | list[str]:
    """The literals of a list, or nothing for what is made of none."""
    return ["" if i is None else literals[i] for i in which] if isinstance(which, tuple) else ""


def _maker(
    cut: Cut, where: Mapping[int, int], r: Recipe, type_: pa.DataType, value: Any
) -> tuple[int | None, Callable[[str], Any]]:
    """Which literal a value is made of, and how; a value that is made of none is always the same."""
    i = where.get(r.origin) if r.origin is not None else None
    if i is None or r.make is None:
        return None, partial(_always, value)
    make = _unquoted(r.make) if cut.literals[i][0] == "'" else r.make
    return i, _in_range(make, type_) if t.is_integer(type_) else make


def _list_of(makers: Sequence[Callable[[str], Any]], type_: pa.DataType) -> Callable[[list[str]], ConstantList]:
    def make(texts: list[str]) -> ConstantList:
        return ConstantList.of([m(text) for m, text in zip(makers, texts, strict=True)], type_)

    return make


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
