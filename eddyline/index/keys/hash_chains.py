"""Hash chains: the rows of each key slot as a list linked from the newest row to the oldest.

`heads[slot]` is the newest row of a slot, `older[row]` the next older row of the same slot; -1 ends a chain. Rows are
numbered in the order of arrival, so a chain descends: a walk skips rows that are too new, and stops at the first that
is too old. Adding a row costs one write to each array, and no row is ever sorted or moved. Probing costs one memory
touch a match, and one for each skipped row. 4 bytes a row and 4 a slot. (SteMs: document 1, section 3.3; hash joins:
document 2, section 3.4.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Ints, Ints32
from eddyline.index.runtime.kernel_cache import kernel

END = -1


class Chains(NamedTuple):
    heads: Ints32
    older: Ints32


@kernel
def link(slots: Ints, first: int, heads: Ints32, older: Ints32) -> None:
    """Adds rows first, first + 1, … to the chains of their slots; a negative slot has no chain. O(rows)."""
    for i in range(len(slots)):
        row = first + i
        if slots[i] < 0:
            older[row] = END
        else:
            older[row] = heads[slots[i]]
            heads[slots[i]] = row


@kernel
def count_matches(wanted: Ints, low: int, high: int, heads: Ints32, older: Ints32) -> Ints:
    """How many rows low … high - 1 are in the chain of each wanted slot; a negative slot has none. O(rows walked)."""
    counts = np.zeros(len(wanted), np.int64)
    for i in range(len(wanted)):
        if wanted[i] < 0:
            continue
        row = heads[wanted[i]]
        while row >= high:
            row = older[row]
        while row >= low:
            counts[i] += 1
            row = older[row]
    return counts


@kernel
def list_matches(
    wanted: Ints, low: int, high: int, heads: Ints32, older: Ints32, counts: Ints, total: int
) -> tuple[Ints, Ints]:
    """The rows that `count_matches` counted, oldest first, and which of the wanted slots each belongs to."""
    which, rows = np.empty(total, np.int64), np.empty(total, np.int64)
    begin = 0
    for i in range(len(wanted)):
        if counts[i] == 0:
            continue
        row = heads[wanted[i]]
        while row >= high:
            row = older[row]
        end = begin + counts[i]
        for k in range(end - 1, begin - 1, -1):
            which[k] = i
            rows[k] = row
            row = older[row]
        begin = end
    return which, rows


@kernel
def some_matches(wanted: Ints, low: int, high: int, heads: Ints32, older: Ints32, most: int) -> tuple[Ints, Ints, int]:
    """`count_matches` and `list_matches` in one call, and the number of matches; none are listed if they are more than
    `most`."""
    counts = count_matches(wanted, low, high, heads, older)
    total = counts.sum()
    if total > most:
        return counts[:0], counts[:0], total
    which, rows = list_matches(wanted, low, high, heads, older, counts, total)
    return which, rows, total


@kernel
def without_oldest(dropped: int, heads: Ints32, older: Ints32) -> None:
    """Renumbers the rows after the oldest ones were dropped: row `dropped` becomes row 0. O(slots + rows)."""
    for i in range(len(heads)):
        heads[i] = max(heads[i] - dropped, END)
    for i in range(len(older)):
        older[i] = max(older[i] - dropped, END)


@kernel
def slots_of_rows(heads: Ints32, older: Ints32) -> Ints:
    """The slot of each row; END for rows in no chain. O(slots + rows)."""
    slots = np.full(len(older), END, np.int64)
    for slot in range(len(heads)):
        row = heads[slot]
        while row >= 0:
            slots[row] = slot
            row = older[row]
    return slots
