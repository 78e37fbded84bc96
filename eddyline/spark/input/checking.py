"""Checks of rows: finds the rows that cannot be processed, with the reason for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline import types as t
from eddyline.spark.input.changelog import known
from eddyline.sql.catalog import Stream, Table
from eddyline.sql.columns import not_utf8, outside_calendar


@dataclass(frozen=True)
class Checked:
    """The columns of a piece of a source partition, with the result of the checks."""

    relation: Stream | Table
    columns: list[pa.Array]  # for a table, the operation is the first
    malformed: pa.Array  # the text of a row that could not be read
    place: pa.Array  # file or offset of the row, if the source has it
    bad: npt.NDArray[np.bool_]
    reasons: pa.Array

    def taken(self, mask: npt.NDArray[np.bool_]) -> list[pa.Array]:
        where = pa.array(mask)
        return [pc.filter(c, where) for c in self.columns]


def checked(
    relation: Stream | Table, columns: Sequence[pa.Array], malformed: pa.Array, place: pa.Array, now: int
) -> Checked:
    """Finds the bad rows; `now` is the wall clock of the micro-batch in milliseconds.

    Values that are invalid in their type become NULL in the columns; the text of their rows has them.
    """
    problems: list[tuple[pa.Array, str]] = [(malformed.is_valid(), "malformed")]
    names = [*([] if isinstance(relation, Stream) else ["op"]), *(f.name for f in relation.fields)]
    kept = list(columns)
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        for mask, reason in _invalid_values(name, column):
            problems.append((mask, reason))
            texts = pa.array([f"{name} = {_shown(v)}" for v in _raw(column.filter(mask))], pa.string())
            malformed = pc.coalesce(malformed, spread(mask, texts))
            kept[i] = pc.if_else(mask, pa.scalar(None, column.type), kept[i])
    if isinstance(relation, Stream):
        time = relation.fields[relation.time].name
        problems.append((kept[relation.time].is_null(), f"no event time ({time} is NULL)"))
        if relation.future is not None:
            moments = kept[relation.time].view(pa.int64())
            latest = pa.scalar(now * 1000 + relation.future, pa.int64())
            problems.append((pc.greater(moments, latest), f"ahead of the wall clock, beyond the FUTURE LIMIT ({time})"))
    else:
        problems.append((pc.invert(pc.fill_null(known(kept[0]), False)), "unknown operation"))
        for i in relation.key:
            problems.append((kept[i + 1].is_null(), f"no key ({relation.fields[i].name} is NULL)"))
    reasons = pa.nulls(len(malformed), pa.string())
    for mask, reason in reversed(problems):
        reasons = pc.if_else(pc.fill_null(mask, False), pa.scalar(reason), reasons)
    bad = reasons.is_valid().to_numpy(zero_copy_only=False)
    if bad.any() and pa.types.is_dictionary(place.type):
        place = place.dictionary_decode()
    return Checked(relation, kept, malformed, place, bad, reasons)


def _invalid_values(name: str, column: pa.Array) -> Iterator[tuple[pa.Array, str]]:
    """Masks of values that are invalid in their type, and why."""
    if (mask := not_utf8(column)) is not None:
        yield mask, f"text that is not UTF-8 ({name})"
    if (mask := outside_calendar(column)) is not None:
        yield mask, f"a time outside the years 1 to 9999 ({name})"


def _raw(column: pa.Array) -> list[bytes | int]:
    """The bytes or integers of values that Python types cannot represent."""
    if column.type == t.STRING:
        return list(column.view(pa.binary()).to_pylist())
    return list(column.view(pa.int64() if column.type == t.TIMESTAMP else pa.int32()).to_pylist())


def _shown(value: bytes | int) -> str:
    return repr(value)[1:] if isinstance(value, bytes) else f"{value} since 1970"


def spread(mask: pa.Array, texts: pa.Array) -> pa.Array:
    """The texts at the rows of the mask, one after the other; NULL elsewhere."""
    selected = mask.to_numpy(zero_copy_only=False)
    return texts.take(pa.array(np.cumsum(selected) - 1, mask=~selected))


def first_problem(checked_rows: Checked, partition: int, start: int) -> str:
    """A sentence about the first bad row."""
    row = int(np.nonzero(checked_rows.bad)[0][0])
    kind = "stream" if isinstance(checked_rows.relation, Stream) else "table"
    place, text = checked_rows.place[row].as_py(), checked_rows.malformed[row].as_py()
    where = f"Row {start + row} of source partition {partition}" + (f", in {place}," if place else "")
    detail = f": {text[:200]}" if text else ""
    return f"{where} of {kind} {checked_rows.relation.name!r} is bad: {checked_rows.reasons[row].as_py()}{detail}."
