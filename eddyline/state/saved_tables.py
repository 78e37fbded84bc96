"""Columns of saved tables: those of rows are named c0, c1, …; numbers have names of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.state.delta import Delta


def saved_columns(rows: Delta) -> dict[str, Any]:
    """The columns of rows, for a table."""
    return {f"c{i}": column for i, column in enumerate(rows.columns)}


def loaded_columns(saved: pa.Table | pa.RecordBatch, width: int) -> tuple[pa.Array, ...]:
    columns = (saved.column(f"c{i}") for i in range(width))
    return tuple(c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns)


def loaded_ints(saved: pa.Table | pa.RecordBatch, *names: str) -> tuple[Ints, ...]:
    """Columns of integers, as copies that may be changed."""
    return tuple(np.array(saved.column(name).to_numpy(), np.int64) for name in names)
