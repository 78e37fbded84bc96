"""Pages: saved state as immutable record batches that are recognized by identity.

Invariant: whoever hands over a page never changes its content, and hands over the same object for as long as the
content is the same. A host that keeps the pages of its last snapshot therefore knows, without reading or hashing them,
which pages of the next snapshot it has stored already. A page may share the memory of live state; content that changes
in place gets a new page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa


@dataclass(frozen=True)
class Pages:
    schema: pa.Schema
    pages: tuple[pa.RecordBatch, ...]  # none of them is empty

    def table(self) -> pa.Table:
        """All pages as one table, with a chunk per page."""
        return pa.Table.from_batches(self.pages, self.schema)


Saved: TypeAlias = pa.Table | Pages


def as_table(saved: Saved) -> pa.Table:
    return saved.table() if isinstance(saved, Pages) else saved
