"""The names of all registered queries, each with its family and its query id.

A name costs its bytes and about 40 more. Released names are removed once they outnumber those in use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.index.keys.string_table import StringTable
from eddyline.index.runtime.garbage import worth_compacting

FREE = -1  # the family of a released name
RECENT = 4096  # names


class QueryNames:
    """Names that are taken one at a time are staged in a dict and flushed into the table together."""

    def __init__(self) -> None:
        self._strings = StringTable()
        self._family = np.empty(0, np.int32)
        self._query = np.empty(0, np.int64)
        self._recent: dict[str, tuple[int, int]] = {}
        self._last = "", FREE  # the last name that `owner` looked up, and its position
        self._used = 0

    def __len__(self) -> int:
        return self._used + len(self._recent)

    @property
    def nbytes(self) -> int:
        self._flush()
        return int(self._strings.nbytes + self._family.nbytes + self._query.nbytes)

    def owner(self, name: str) -> tuple[int, int] | None:
        """(family number, query id) of a name in use."""
        recent = self._recent.get(name)
        if recent is not None:
            return recent
        i = self._strings.find_one(name)
        if i < 0 or self._family[i] == FREE:
            return None
        self._last = name, i
        return int(self._family[i]), int(self._query[i])

    def owners(self, names: pa.Array) -> tuple[Ints, Ints]:
        """The family numbers (FREE if the name is not in use) and query ids of many names."""
        self._flush()
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
            self._flush()
        self._recent[name] = family, query

    def take(self, names: pa.Array, families: int | Ints, queries: Ints) -> None:
        """Takes names that are free and distinct."""
        self._flush()
        self._take(names, families, queries)

    def release_one(self, name: str) -> None:
        if self._recent.pop(name, None) is None:
            last, i = self._last  # callers look up the owner before they release a name
            self._family[i if last == name else self._strings.find_one(name)] = FREE
            self._used -= 1
            self._compact()

    def release(self, names: pa.Array) -> None:
        """Releases names that are in use and distinct."""
        self._flush()
        self._family[self._strings.find(names)] = FREE
        self._used -= len(names)
        self._compact()

    def _flush(self) -> None:
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

    def _compact(self) -> None:
        if not worth_compacting(len(self._strings), self._used):
            return
        kept = np.nonzero(self._family[: len(self._strings)] != FREE)[0]
        names, self._family, self._query = self._strings.take(kept), self._family[kept], self._query[kept]
        self._strings = StringTable()
        self._strings.intern(names)
        self._last = "", FREE


def _grown(array: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    bigger = np.full(room, FREE, array.dtype)
    bigger[: len(array)] = array
    return bigger
