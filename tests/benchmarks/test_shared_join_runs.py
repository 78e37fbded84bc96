"""The inputs and the hash by which runs of shared joins are compared."""

from __future__ import annotations

import numpy as np

from benchmarks._shared_join_runs import DISJOINT, STREAMS, TRIPLES, Rows, answer_hash, selection, stream_rows


def rows_of(op: list[int], v: list[float]) -> Rows:
    whole = np.arange(len(op), dtype=np.int64)
    times = {"ts": np.zeros(len(op), np.int64), "exp": np.ones(len(op), np.int64), "k": whole * 0}
    return {"op": np.array(op), **times, "v0": np.array(v), "v1": np.array(v), "v2": np.array(v)}


def test_the_hash_ignores_the_order_and_cancels_retracted_rows() -> None:
    assert answer_hash({3: rows_of([1, 1], [0.5, 0.7])}) == answer_hash({3: rows_of([1, 1], [0.7, 0.5])})
    assert answer_hash({3: rows_of([1, 1, -1], [0.5, 0.7, 0.7])}) == answer_hash({3: rows_of([1], [0.5])})


def test_the_hash_tells_queries_rows_and_multiplicities_apart() -> None:
    answers = [{3: rows_of([1], [0.5])}, {4: rows_of([1], [0.5])}, {3: rows_of([1], [0.6])}]
    answers.append({3: rows_of([1, 1], [0.5, 0.5])})
    assert len({answer_hash(a) for a in answers}) == 4


def test_rows_do_not_depend_on_how_a_stream_is_cut() -> None:
    whole, halves = stream_rows(2, 0, 10, 100), [stream_rows(2, 0, 4, 100), stream_rows(2, 4, 6, 100)]
    for name, column in whole.items():
        assert (column == np.concatenate([h[name] for h in halves])).all()


def test_disjoint_triples_have_every_stream_once_and_selections_differ() -> None:
    assert sorted(s for q in DISJOINT for s in TRIPLES[q]) == list(range(STREAMS))
    assert len({selection(q, 0.1)[1] for q in range(len(TRIPLES))}) == len(TRIPLES) == 455
