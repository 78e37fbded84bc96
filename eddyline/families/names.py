"""The names of all standing queries: which family a name belongs to, and which of its queries it is.

A name costs its bytes and about 40 more; names that were given up are dropped when they outnumber those in use.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.index.strings import StringTable

Ints = npt.NDArray[np.int64]
FREE = -1


class Names:
    def __init__(self) -> None:
        self._strings = StringTable()
        self._family = np.empty(0, np.int32)
        self._query = np.empty(0, np.int64)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def nbytes(self) -> int:
        return int(self._strings.nbytes + self._family.nbytes + self._query.nbytes)

    def owner(self, name: str) -> tuple[int, int] | None:
        """(family number, query id) of a name in use."""
        i = self._strings.find_one(name)
        if i < 0 or self._family[i] == FREE:
            return None
        return int(self._family[i]), int(self._query[i])

    def owners(self, names: pa.Array) -> tuple[Ints, Ints]:
        """The family numbers (FREE if the name is not in use) and query ids of many names."""
        ids = self._strings.find(names)
        known = ids >= 0
        family = np.full(len(ids), FREE, np.int64)
        query = np.full(len(ids), FREE, np.int64)
        family[known] = self._family[ids[known]]
        query[known] = self._query[ids[known]]
        return family, query

    def take_one(self, name: str, family: int, query: int) -> None:
        i = self._strings.intern_one(name)
        self._grow(i + 1)
        self._family[i], self._query[i] = family, query
        self._used += 1

    def take(self, names: pa.Array, family: int, queries: Ints) -> None:
        ids = self._strings.intern(names)
        self._grow(len(self._strings))
        self._family[ids], self._query[ids] = family, queries
        self._used += len(ids)

    def release(self, names: pa.Array) -> None:
        ids = self._strings.find(names)
        self._family[ids[ids >= 0]] = FREE
        self._used -= int((ids >= 0).sum())
        if len(self._strings) > 2 * self._used + 100_000:
            self._rebuild()

    def _grow(self, size: int) -> None:
        if size > len(self._family):
            room = max(size, 2 * len(self._family), 64)
            self._family = _grown(self._family, room, FREE)
            self._query = _grown(self._query, room, FREE)

    def _rebuild(self) -> None:
        kept = np.nonzero(self._family[: len(self._strings)] != FREE)[0]
        names, family, query = self._strings.take(kept), self._family[kept], self._query[kept]
        self._strings = StringTable()
        self._strings.intern(names)
        self._family, self._query = family.copy(), query.copy()


def _grown(array: npt.NDArray[np.generic], room: int, fill: int) -> npt.NDArray[np.generic]:
    bigger = np.full(room, fill, array.dtype)
    bigger[: len(array)] = array
    return bigger
