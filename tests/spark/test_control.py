"""The control source's offsets in Spark's offset log."""

from __future__ import annotations

import json

import pytest

from eddyline.spark.input.offsets import offset_in

CONTROL = {"eddyline": 1, "commit": 3, "now": 1000}


def log(*lines: object) -> str:
    return "\n".join(["v1", *(json.dumps(line) if isinstance(line, dict) else str(line) for line in lines)])


@pytest.mark.parametrize(("spark_has", "now"), [(400, 1000), (2500, 2500)])
def test_the_time_of_a_micro_batch_is_the_latest_that_was_written_down(spark_has: int, now: int) -> None:
    topics = {"eddyline": {"0": 1}, "batchTimestampMs": {"0": 9}}
    found = offset_in(log({"batchWatermarkMs": 0, "batchTimestampMs": spark_has}, topics, "-", CONTROL))
    assert found == CONTROL | {"now": now}


def test_a_log_without_the_control_source_is_refused() -> None:
    with pytest.raises(ValueError, match="does not have the catalog's offset"):
        offset_in(log({"batchTimestampMs": 1}, {"logOffset": 7}))
