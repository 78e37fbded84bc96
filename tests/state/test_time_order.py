"""The order of event times of a log against a sort, while rows are appended and dropped."""

from random import Random

import numpy as np
import pyarrow as pa

from eddyline import types as t
from eddyline.state.delta import MAX, Delta
from eddyline.state.store.stream_log import StreamLog
from eddyline.state.store.time_order import TimeOrder
from tests.nightly import TIMES


def test_rows_are_in_the_order_of_event_time_then_arrival() -> None:
    rnd = Random("order")
    for _ in range(60 * TIMES):
        order, ts, distance = TimeOrder(), np.empty(0, np.int64), rnd.choice([0, 1, 5, 50])
        for _ in range(rnd.randint(1, 8)):
            new = [len(ts) + i - rnd.randint(0, distance) for i in range(rnd.randint(0, 6))]
            ts = np.append(ts, np.array(new, np.int64))
            if rnd.random() < 0.3:
                dropped = rnd.randint(0, len(ts))
                order.drop_oldest(dropped)
                ts = ts[dropped:]
            rows = order.rows(ts)
            assert rows.order.tolist() == sorted(range(len(ts)), key=lambda r: (ts[r], r))
            assert all(abs(row - place) <= rows.disorder for place, row in enumerate(rows.order.tolist()))


def test_a_log_in_order_moves_no_row() -> None:
    order = TimeOrder()
    for n in (3, 5, 5, 9):
        assert order.rows(np.arange(n) // 2).disorder == 0


def test_a_log_keeps_its_order_when_rows_are_dropped() -> None:
    log = StreamLog((t.TIMESTAMP,), 0)
    for start in range(0, 4000, 500):
        arrivals, ones = np.arange(start, start + 500), np.ones(500, np.int64)
        ts = arrivals ^ 3
        log.append(Delta((pa.array(ts, t.TIMESTAMP),), None, ts, np.full(500, MAX), ones, arrivals, arrivals))
        ordered = log.in_time_order()
        assert ordered.ts[ordered.order].tolist() == sorted(log.ts.tolist())
        log.evict(start - 100, 0)
    ordered = log.in_time_order()
    assert len(log) < 4000
    assert ordered.ts[ordered.order].tolist() == sorted(log.ts.tolist())
