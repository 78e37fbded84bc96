"""Columns in chunks, compact or not, against plain lists: values are read as they were written, bit by bit."""

from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.state import chunks as columns
from eddyline.state.chunks import Compact, compacted, gathered, joined, with_chunk

NAN, INF = float("nan"), float("inf")
KINDS: dict[str, tuple[pa.DataType, Any, list[Any]]] = {
    "open ends": (pa.float64(), INF, [0.5, -0.25, 1e300]),
    "missing numbers": (pa.int64(), None, [1, -(2**63), 2**63 - 1]),
    "zeros of two kinds": (pa.float64(), 0.0, [-0.0, 1.0]),
    "not a number": (pa.float64(), NAN, [0.0, None, 1.0]),
    "small floats": (pa.float32(), -0.0, [0.0, 2.5, NAN]),
    "texts": (pa.string(), "", ["a", "é", None]),
    "truth": (pa.bool_(), True, [False, None]),
    "times": (pa.timestamp("us"), None, [0, 5]),
}


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even short columns are worth making compact."""
    monkeypatch.setattr(columns, "WORTH_IT", 1)


def plain(array: pa.Array) -> list[str]:
    """Values as text that tells -0.0 from 0.0."""
    return [repr(v) for v in array.to_pylist()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [1, 63, 64, 65, 1000])
def test_a_compact_column_gives_every_value_back_as_it_was(kind: str, length: int) -> None:
    type_, common, others = KINDS[kind]
    rnd = Random(f"{kind} {length}")
    values = pa.array([common if rnd.random() < 0.6 else rnd.choice(others) for _ in range(length)], type_)
    found = compacted(values)
    where = np.array([rnd.randrange(length) for _ in range(200)])
    assert plain(found.take(pa.array(where))) == plain(values.take(pa.array(where)))
    assert plain(joined([found], type_)) == plain(values)
    assert len(found) == length and found.type == type_


def test_a_column_of_which_few_rows_are_alike_stays_as_it_is() -> None:
    values = pa.array(np.arange(1000))
    assert compacted(values) is values


def test_a_column_that_most_rows_share_takes_a_fraction_of_the_room() -> None:
    values = pa.array(np.where(np.arange(100_000) % 10 == 0, np.arange(100_000.0), np.inf))
    found = compacted(values)
    assert isinstance(found, Compact)
    assert found.nbytes < values.nbytes / 5


@pytest.mark.parametrize("seed", range(5))
def test_chunks_that_come_one_by_one_are_a_list(seed: int) -> None:
    rnd = Random(seed)
    chunks, kept = (pa.array([], pa.float64()),), list[Any]()
    for _ in range(60):
        new = [rnd.choice([INF, INF, None, 1.5]) for _ in range(rnd.choice([1, 1, 2, 40]))]
        chunks = with_chunk(chunks, pa.array(new, pa.float64()), 4)
        kept += new
        where = np.array([rnd.randrange(len(kept)) for _ in range(20)])
        assert gathered(chunks, where).to_pylist() == [kept[i] for i in where], f"seed {seed}"
        sizes = [len(c) for c in chunks if len(c)]
        assert all(a >= 4 * b for a, b in pairwise(sizes)), sizes
    assert joined(chunks, pa.float64()).to_pylist() == kept
