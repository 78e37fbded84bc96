"""Rows that cannot be processed: what is wrong with each, and the words for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.spark.tables import known
from eddyline.sql.catalog import Stream, Table


@dataclass(frozen=True)
class Checked:
    """The columns of a piece of a source partition, with what came beside them."""

    relation: Stream | Table
    columns: list[pa.Array]  # of a table, the operation comes first
    malformed: pa.Array  # the text of a row that could not be read
    place: pa.Array  # where it is, if the source can tell
    bad: npt.NDArray[np.bool_]
    reasons: pa.Array

    def taken(self, mask: npt.NDArray[np.bool_]) -> list[pa.Array]:
        where = pa.array(mask)
        return [pc.filter(c, where) for c in self.columns]


def checked(relation: Stream | Table, columns: Sequence[pa.Array], malformed: pa.Array, place: pa.Array) -> Checked:
    problems: list[tuple[pa.Array, str]] = [(malformed.is_valid(), "malformed")]
    if isinstance(relation, Stream):
        time = relation.fields[relation.time].name
        problems.append((columns[relation.time].is_null(), f"no event time ({time} is NULL)"))
    else:
        problems.append((pc.invert(pc.fill_null(known(columns[0]), False)), "unknown operation"))
        for i in relation.key:
            problems.append((columns[i + 1].is_null(), f"no key ({relation.fields[i].name} is NULL)"))
    reasons = pa.nulls(len(malformed), pa.string())
    for mask, reason in reversed(problems):
        reasons = pc.if_else(pc.fill_null(mask, False), pa.scalar(reason), reasons)
    bad = reasons.is_valid().to_numpy(zero_copy_only=False)
    return Checked(relation, list(columns), malformed, place, bad, reasons)


def first_problem(found: Checked, partition: int, start: int) -> str:
    """A sentence about the first bad row."""
    row = int(np.nonzero(found.bad)[0][0])
    kind = "stream" if isinstance(found.relation, Stream) else "table"
    place, text = found.place[row].as_py(), found.malformed[row].as_py()
    where = f"Row {start + row} of source partition {partition}" + (f", in {place}," if place else "")
    said = f": {text[:200]}" if text else ""
    return f"{where} of {kind} {found.relation.name!r} is bad: {found.reasons[row].as_py()}{said}."
