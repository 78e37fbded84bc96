"""Atoms of a condition (`plan/atoms.py`) as ranges: the values that a comparison with a query's constants accepts.

For many queries at once an atom gives the ranges of values for which it is true, as columns
(`index/filters/clauses.py`). The owner of a range is the position of its query in the call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline import types as t
from eddyline.arrays import Ints, Mask
from eddyline.index.filters.clauses import ValueRanges
from eddyline.index.filters.domains import after, after_prefix, as_integers
from eddyline.index.keys.sorted_runs import spread
from eddyline.plan.atoms import Atom
from eddyline.sql.bound import Expr
from eddyline.state.list_rows import ListRows

Values = Callable[[Expr], Any]  # an expression over parameters: a pa.Array with one value per query, or ListRows

_MAX = np.iinfo(np.int64).max


def accepted_ranges(atom: Atom, values: Values, n: int) -> tuple[list[ValueRanges], Mask]:
    """The ranges that an atom accepts for n queries, all of clause 0, and for which queries these are a superset."""
    text = atom.attribute.type == t.STRING
    partial = np.zeros(n, np.bool_)
    if atom.op == "is_null":
        every = np.arange(n)
        return [_null(every, text) if not atom.negated else _any_value(every, text)], partial
    if atom.op == "in_list":
        return list(_listed(values(atom.value), negated=atom.negated)), partial
    given = values(atom.value)
    known = np.nonzero(given.is_valid().to_numpy(zero_copy_only=False))[0]
    unknown = np.nonzero(given.is_null().to_numpy(zero_copy_only=False))[0]
    if atom.op == "like":
        return _like(given.take(pa.array(known)), known, partial, negated=atom.negated), partial
    chosen = given.take(pa.array(known))
    if atom.op == "same":
        if not atom.negated:
            return [*_compared("eq", chosen, known), _null(unknown, text)], partial
        return [*_compared("ne", chosen, known), _null(known, text), _any_value(unknown, text)], partial
    return list(_compared(atom.op, chosen, known)), partial


def _listed(lists: ListRows, *, negated: bool) -> Iterator[ValueRanges]:
    """The values of each query's list; if negated, the gaps between them, and nothing for a list with a NULL."""
    for part in lists.parts:
        kept = ~part.has_null if negated else np.ones(len(part.rows), np.bool_)
        which, place = spread(part.start[kept], part.stop[kept])
        points = part.chunk.flat.take(pa.array(place))
        if negated:
            yield from _between(points, part.rows[kept], which)
        else:
            yield from _compared("eq", points, part.rows[kept][which])


def _between(points: pa.Array, rows: Ints, which: Ints) -> Iterator[ValueRanges]:
    """The gaps around each row's points, which ascend: below the first, then after each one up to the next."""
    first = np.append(True, which[1:] != which[:-1])[: len(which)]
    last = np.append(which[1:] != which[:-1], True)[: len(which)]
    following = np.minimum(np.arange(len(which)) + 1, max(len(which) - 1, 0))
    yield from _compared("lt", points.filter(pa.array(first)), rows[which[first]])
    (above,) = _compared("gt", points, np.arange(len(points)))
    kept = above.owner
    after_it = following[kept]
    stop = _bytes(points).take(pa.array(after_it)) if points.type == t.STRING else as_integers(points)[0][after_it]
    yield above._replace(owner=rows[which[kept]], stop=stop, no_stop=last[kept])


def _compared(op: str, values: pa.Array, which: Ints) -> Iterator[ValueRanges]:
    if op == "ne":
        yield from _compared("lt", values, which)
        yield from _compared("gt", values, which)
        return
    if values.type == t.STRING:
        at = _bytes(values)
        above = _texts_after(at)
        start = {"eq": at, "ge": at, "gt": above}.get(op)
        stop = {"eq": above, "le": above, "lt": at}.get(op)
        yield _text_ranges(which, start, stop, at)
        return
    numbers, _ = as_integers(values)
    if op == "gt":
        which, numbers = which[numbers < _MAX], numbers[numbers < _MAX]
    nothing = np.zeros(len(numbers), np.bool_)
    start_at = numbers + 1 if op == "gt" else numbers
    last = op in ("eq", "le")  # the number itself is the last one
    stop_at = numbers + (last & (numbers < _MAX))
    no_stop = (last & (numbers == _MAX)) | (op in ("ge", "gt"))
    yield ValueRanges(which, _clause(which), start_at, stop_at, nothing | (op in ("lt", "le")), no_stop, nothing)


def _text_ranges(which: Ints, start: pa.Array | None, stop: pa.Array | None, filler: pa.Array) -> ValueRanges:
    """A range of texts; an end that is missing for all, or NULL for some, is unbounded."""
    nothing = np.zeros(len(which), np.bool_)
    ends = []
    for end in (start, stop):
        absent = ~nothing if end is None else end.is_null().to_numpy(zero_copy_only=False)
        ends.append((filler if end is None else end, absent))
    return ValueRanges(which, _clause(which), ends[0][0], ends[1][0], ends[0][1], ends[1][1], nothing)


def _clause(which: Ints) -> Ints:
    return np.zeros(len(which), np.int64)


def _null(which: Ints, text: bool) -> ValueRanges:
    return _any_value(which, text)._replace(null=np.ones(len(which), np.bool_))


def _any_value(which: Ints, text: bool) -> ValueRanges:
    n = len(which)
    filler = pa.array([b""] * n, pa.large_binary()) if text else np.zeros(n, np.int64)
    every = np.ones(n, np.bool_)
    return ValueRanges(which, _clause(which), filler, filler, every, every, ~every)


def _bytes(texts: pa.Array) -> pa.Array:
    return texts.cast(pa.large_binary())


def _texts_after(texts: pa.Array) -> pa.Array:
    """The least text above each."""
    return pc.binary_join_element_wise(texts, pa.scalar(b"\0", texts.type), pa.scalar(b"", texts.type))


def _like(patterns: pa.Array, which: Ints, partial: Mask, *, negated: bool) -> list[ValueRanges]:
    """Texts that begin with the part of a pattern before its first wildcard; exact if all that follows is %."""
    encoded = patterns.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    starts, stops, kinds = [], [], []
    for pattern in encoded.dictionary.to_pylist():
        begin, exact = leading(pattern)
        prefix = begin.encode()
        starts.append(prefix)
        stops.append(after(prefix) if exact == "whole" else after_prefix(prefix))
        kinds.append(exact != "partly")
    sure = np.array(kinds, np.bool_)[codes] if len(codes) else np.empty(0, np.bool_)
    partial[which[~sure]] = True
    where = pa.array(codes)
    start, stop = (pa.array(x, pa.large_binary()).take(where) for x in (starts, stops))
    if not negated:
        return [_text_ranges(which, start, stop, start)]
    kept = np.nonzero(sure)[0]
    begin, end = start.take(pa.array(kept)), stop.take(pa.array(kept))
    after_it = np.nonzero(end.is_valid().to_numpy(zero_copy_only=False))[0]
    beyond = end.take(pa.array(after_it))
    return [
        _text_ranges(which[kept], None, begin, begin),
        _text_ranges(which[kept][after_it], beyond, None, beyond),
        _any_value(which[~sure], text=True),
    ]


def leading(pattern: str) -> tuple[str, Literal["whole", "prefix", "partly"]]:
    """The text before the first wildcard of a pattern, and whether it is all, all but a final %, or only a part."""
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    literal: list[str] = []
    for i, part in enumerate(parts):
        if part in ("%", "_"):
            rest = parts[i:]
            return "".join(literal), "prefix" if all(p == "%" for p in rest) else "partly"
        literal.append(part[-1])
    return "".join(literal), "whole"
