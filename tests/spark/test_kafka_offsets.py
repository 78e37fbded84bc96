"""Kafka without a broker: how far a batch goes, what offsets say when they come back, and which options are taken."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.spark.kafka.offsets import Bounds, Offsets, Partition, Range, advance, ranges, share
from eddyline.spark.kafka.options import KafkaError, source_options
from eddyline.spark.kafka.source import KafkaSource
from tests.spark.topics import NOBODY

A0, A1, B0 = Partition("a", 0), Partition("a", 1), Partition("b", 0)


# --- offsets ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=6), st.integers(1, 3000), st.integers(0, 100))
def test_a_limit_is_used_up_shared_by_backlog_and_starves_nobody(backlog: list[int], limit: int, turn: int) -> None:
    waiting = {Partition("a", i): n for i, n in enumerate(backlog)}
    taken = share(waiting, limit, turn)
    assert taken.keys() == waiting.keys()
    assert sum(taken.values()) == min(limit, sum(backlog))
    assert all(taken[p] <= waiting[p] for p in waiting)
    if limit >= sum(n > 0 for n in backlog):
        assert all(taken[p] for p in waiting if waiting[p])


def test_partitions_take_turns_when_the_limit_is_below_their_number() -> None:
    at = Offsets({Partition("a", i): 0 for i in range(5)})
    bounds = {p: Bounds(0, 100) for p in at.next}
    for _ in range(5):
        at, _lost = advance(at, bounds, limit=2)
    assert set(at.next.values()) == {2}


def test_offsets_are_written_in_one_order_and_read_back() -> None:
    offsets = Offsets({Partition("a", 10): 1, B0: 5, Partition("a", 9): 2}, {B0: 5})
    assert json.dumps(offsets.to_json()) == '{"a": {"9": 2, "10": 1}, "b": {"0": 5}, "$from": {"b": {"0": 5}}}'
    assert Offsets.from_json(json.loads(json.dumps(offsets.to_json()))) == offsets


def test_the_first_batch_is_replayed_from_where_it_began_although_spark_asks_anew() -> None:
    initial = Offsets({A0: 7, A1: 0}, {A0: 7, A1: 0})
    end, _ = advance(initial, {A0: Bounds(0, 9), A1: Bounds(0, 0)}, None)
    asked_later = Offsets({A0: 50, A1: 40}, {A0: 50, A1: 40})
    assert ranges(asked_later, end) == ranges(initial, end) == [Range(A0, 7, 9)]
    after, _ = advance(end, {A0: Bounds(0, 9), A1: Bounds(0, 3)}, None)
    assert ranges(end, after) == [Range(A1, 0, 3)]


def test_without_news_the_offset_stays_the_very_same() -> None:
    start = Offsets({A0: 7}, {A0: 2})
    end, lost = advance(start, {A0: Bounds(0, 7), A1: Bounds(0, 0)}, None)
    assert end is start and lost == []


def test_a_new_partition_is_read_from_its_beginning() -> None:
    end, lost = advance(Offsets({A0: 7}), {A0: Bounds(0, 7), A1: Bounds(0, 3)}, None)
    assert ranges(Offsets({A0: 7}), end) == [Range(A1, 0, 3)] and lost == []


def test_what_is_lost_is_said_and_passed_over() -> None:
    start = Offsets({A0: 2, A1: 50, B0: 1})
    end, lost = advance(start, {A0: Bounds(5, 9), A1: Bounds(0, 10), Partition("a", 2): Bounds(4, 6)}, None)
    assert lost == [
        "a[0] has no messages 2 to 4 any more",
        "a[1] was read up to 50 but now ends at 10",
        "a[2] was found late: its messages before 4 are gone",
        "b[0] is gone, or no longer named in option subscribe",
    ]
    assert ranges(start, end) == [Range(A0, 5, 9), Range(Partition("a", 2), 4, 6)]
    assert end.next == {A0: 9, A1: 10, Partition("a", 2): 6}


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kafka.bootstrap.servers": ""}, "needs option kafka.bootstrap.servers"),
        ({"subscribe": " , "}, "subscribe names no topic"),
        ({"subscribePattern": "a.*"}, "no option 'subscribePattern'.*\n.*mean 'subscribe'"),
        ({"includeHeaders": "true"}, "no option 'includeHeaders'"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is '0'"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is 'maybe'"),
        ({"startingOffsets": "soon"}, "startingOffsets is 'soon'"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "startingOffsets is"),
        ({"startingOffsets": '{"a": {"0": 1.5}}'}, "startingOffsets is"),
        ({"startingOffsets": '{"b": {"0": 1}}'}, "do not name the same topics: a, b"),
        ({"kafka.auto.offset.reset": "earliest"}, "kafka.auto.offset.reset cannot be set.*\n.*startingOffsets"),
    ],
)
def test_a_wrong_option_is_named_with_its_remedy(options: dict[str, str], message: str) -> None:
    with pytest.raises(KafkaError, match=message):
        source_options({"kafka.bootstrap.servers": NOBODY, "subscribe": "a"} | options)


def test_options_that_only_tune_the_other_connector_are_taken() -> None:
    options = {"KAFKA.bootstrap.servers": NOBODY, "Subscribe": "a, b", "minPartitions": "8", "includeHeaders": "false"}
    assert source_options(options).topics == ("a", "b")
    assert source_options(options).isolation == "read_uncommitted"


@pytest.mark.parametrize(
    ("option", "message"),
    [("kafka.sasl.jaas.config", "JAAS.*\n.*kafka.sasl.username"), ("kafka.fetch.maximum", "fetch.maximum")],
)
def test_a_property_that_the_client_refuses_is_found_when_the_stream_is_declared(option: str, message: str) -> None:
    with pytest.raises(KafkaError, match=message):
        KafkaSource({"kafka.bootstrap.servers": NOBODY, "subscribe": "a", option: "x"}).schema()
