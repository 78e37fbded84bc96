"""The recount of the fault run finds every row that is lost, doubled or made up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from tests.spark.fault_run import recount
from tests.spark.fault_run.recount import SECOND, Rows, Wrong
from tests.spark.fault_run.world import Operation

RAW = pa.table(
    {
        "id": [1, 2, 3, 4],
        "k": pa.array([0, 0, 1, 1], pa.int32()),
        "x": [1.0, 2.0, 3.0, 0.5],
        "ts": pa.array([0, SECOND, 2 * SECOND, 9 * SECOND], pa.timestamp("us")),
    }
)
HISTORY = [Operation(0.0, 1, {"churn1_a": (0.0, 2.5)}, []), Operation(1.0, 3, {"churn1_b": (2.0, 9.0)}, ["churn1_a"])]
VERSIONS = {0: 1, 1: 3}


def census(ids: list[int], batches: list[int]) -> pa.Table:
    return pa.table({"op": ["+"] * len(ids), "id": ids, "batch": batches})


def rows() -> Rows:
    return recount.processed(RAW, census([1, 2, 3, 4], [0, 0, 1, 1]))


def test_rows_processed_twice_are_found() -> None:
    with pytest.raises(Wrong, match="processed twice, for instance 2"):
        recount.processed(RAW, census([1, 2, 2, 3], [0, 0, 1, 1]))


def test_rows_that_were_never_given_are_found() -> None:
    with pytest.raises(Wrong, match="never given"):
        recount.processed(RAW, census([1, 7], [0, 0]))


def test_rows_neither_processed_nor_late_are_missing() -> None:
    some = recount.processed(RAW, census([1, 2], [0, 0]))
    assert recount.missing(RAW, some, [3]).tolist() == [4]
    with pytest.raises(Wrong, match="processed and are late"):
        recount.missing(RAW, some, [2])


def test_a_query_has_the_rows_of_the_micro_batches_in_which_it_stood() -> None:
    sink = {"churn1_a": census([1, 2], [0, 0]), "churn1_b": census([3], [1])}
    assert recount.check_filters(rows(), sink, HISTORY, VERSIONS) == 3


@pytest.mark.parametrize(
    "sink",
    [
        {"churn1_a": census([1], [0]), "churn1_b": census([3], [1])},  # a row is lost
        {"churn1_a": census([1, 2, 2], [0, 0, 0]), "churn1_b": census([3], [1])},  # doubled
        {"churn1_a": census([1, 2, 4], [0, 0, 1]), "churn1_b": census([3], [1])},  # after the query was dropped
        {"churn1_a": census([1, 2], [0, 1]), "churn1_b": census([3], [1])},  # in another micro-batch
        {"churn1_a": census([1, 2], [0, 0]), "churn1_b": census([3], [1]), "churn9_x": census([1], [0])},
    ],
)
def test_rows_that_a_filter_lacks_or_has_too_many_are_found(sink: dict[str, pa.Table]) -> None:
    with pytest.raises(Wrong, match="churn"):
        recount.check_filters(rows(), sink, HISTORY, VERSIONS)


def pairs(of: list[tuple[int, int]]) -> dict[str, pa.Table]:
    return {"pairs": pa.table({"op": ["+"] * len(of), "r": [r for r, _ in of], "s": [s for _, s in of]})}


def test_pairs_of_the_join_are_those_with_the_same_key_and_near_in_time() -> None:
    whole = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 3), (4, 4)]
    assert recount.check_pairs(rows(), rows(), pairs(whole)) == len(whole)
    for wrong in (whole[1:], [*whole, (1, 1)], [*whole, (3, 4)]):
        with pytest.raises(Wrong, match="pairs"):
            recount.check_pairs(rows(), rows(), pairs(wrong))


def busy(drop: Callable[[int], bool] = lambda _: False) -> dict[str, pa.Table]:
    """What the aggregate sends for the rows, less some of it."""
    ends = [10, 11, 12, 19]
    sent = [
        ("+", 0, 1, 1.0, 0, ends[0]),
        ("-", 0, 1, 1.0, 1, ends[0]),
        ("+", 0, 2, 3.0, 1, ends[0]),
        ("+", 0, 1, 2.0, ends[0], ends[1]),
        ("+", 1, 1, 3.0, 2, ends[2]),
        ("-", 1, 1, 3.0, 9, ends[2]),
        ("+", 1, 2, 3.5, 9, ends[2]),
        ("+", 1, 1, 0.5, ends[2], ends[3]),
    ]
    # A row belongs to the window up to its time and ten seconds, that instant included.
    micros = [
        (op, k, n, total, begin * SECOND + (begin in ends and op == "+"), end * SECOND)
        for op, k, n, total, begin, end in sent
    ]
    kept = [change for i, change in enumerate(micros) if not drop(i)]
    op, k, n, total, ts, exp = zip(*kept, strict=True)
    times = {"ts": pa.array(ts, pa.timestamp("us")), "exp": pa.array(exp, pa.timestamp("us"))}
    return {"busy": pa.table({"op": op, "k": k, "n": n, "total": total, **times})}


def test_changes_of_the_aggregate_fold_to_counts_and_sums() -> None:
    assert recount.check_busy(rows(), busy(), 19 * SECOND) == len(np.arange(0, 19 * SECOND + 1, SECOND // 2))


@pytest.mark.parametrize("lost", range(8))
def test_every_lost_change_of_the_aggregate_is_found(lost: int) -> None:
    with pytest.raises(Wrong, match="busy at"):
        recount.check_busy(rows(), busy(lambda i: i == lost), 19 * SECOND)
