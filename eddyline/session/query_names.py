"""The names of all standing queries: which family a name belongs to, and which of its queries it is.

A name costs its bytes and about 40 more; names that were given up are dropped when they outnumber those in use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.index.strings import StringTable
from eddyline.index.upkeep import worth_clearing

Ints = npt.NDArray[np.int64]
FREE = -1
RECENT = 4096


class QueryNames:
    """Names taken one at a time wait in a dict and join the table together."""

    def __init__(self) -> None:
        self._strings = StringTable()
        self._family = np.empty(0, np.int32)
        self._query = np.empty(0, np.int64)
        self._recent: dict[str, tuple[int, int]] = {}
        self._asked = "", FREE  # the name whose owner was asked for last, and its number
        self._used = 0

    def __len__(self) -> int:
        return self._used + len(self._recent)

    @property
    def nbytes(self) -> int:
        self._settle()
        return int(self._strings.nbytes + self._family.nbytes + self._query.nbytes)

    def owner(self, name: str) -> tuple[int, int] | None:
        """(family number, query id) of a name in use."""
        recent = self._recent.get(name)
        if recent is not None:
            return recent
        i = self._strings.find_one(name)
        if i < 0 or self._family[i] == FREE:
            return None
        self._asked = name, i
        return int(self._family[i]), int(self._query[i])

    def owners(self, names: pa.Array) -> tuple[Ints, Ints]:
        """The family numbers (FREE if the name is not in use) and query ids of many names."""
        self._settle()
        ids = self._strings.find(names)
        known = ids >= 0
        family = np.full(len(ids), FREE, np.int64)
        query = np.full(len(ids), FREE, np.int64)
        family[known] = self._family[ids[known]]
        query[known] = self._query[ids[known]]
        return family, query

    def take_one(self, name: str, family: int, query: int) -> None:
        """Takes a name that is free."""
        if len(self._recent) >= RECENT:
            self._settle()
        self._recent[name] = family, query

    def take(self, names: pa.Array, families: int | Ints, queries: Ints) -> None:
        """Takes names that are free and distinct."""
        self._settle()
        self._take(names, families, queries)

    def release_one(self, name: str) -> None:
        if self._recent.pop(name, None) is None:
            asked, i = self._asked  # whoever gives up a name has just asked for its owner
            self._family[i if asked == name else self._strings.find_one(name)] = FREE
            self._used -= 1
            self._clear_away()

    def release(self, names: pa.Array) -> None:
        """Gives up names that are in use and distinct."""
        self._settle()
        self._family[self._strings.find(names)] = FREE
        self._used -= len(names)
        self._clear_away()

    def _settle(self) -> None:
        if self._recent:
            owners = np.array(list(self._recent.values()), np.int64)
            self._take(pa.array(list(self._recent), pa.string()), owners[:, 0], owners[:, 1])
            self._recent = {}

    def _take(self, names: pa.Array, families: int | Ints, queries: Ints) -> None:
        ids = self._strings.intern(names)
        size = len(self._strings)
        if size > len(self._family):
            room = max(size, 2 * len(self._family))
            self._family, self._query = _grown(self._family, room), _grown(self._query, room)
        self._family[ids], self._query[ids] = families, queries
        self._used += len(ids)

    def _clear_away(self) -> None:
        if not worth_clearing(len(self._strings), self._used):
            return
        kept = np.nonzero(self._family[: len(self._strings)] != FREE)[0]
        names, self._family, self._query = self._strings.take(kept), self._family[kept], self._query[kept]
        self._strings = StringTable()
        self._strings.intern(names)
        self._asked = "", FREE


def _grown(array: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    bigger = np.full(room, FREE, array.dtype)
    bigger[: len(array)] = array
    return bigger
