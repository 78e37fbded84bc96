"""Watermarks, late rows and clocks, as a user meets them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import eddyline
from tests.local.common import at, bag, log_of, row, tuples, world

LAST = np.iinfo(np.int64).max


def standing(delay: int = 0, text: str = "SELECT a FROM s", **options: Any) -> Any:
    db = world(delay=delay, **options)
    db.execute(f"CREATE CONTINUOUS QUERY q AS {text}")
    return db


def test_row_behind_the_watermark_is_set_apart_and_counted() -> None:
    db = standing(delay=2)
    ch = db.push("s", [row(10, a=1), row(8, a=2), row(7.999999, a=3), row(9, a=4)])
    assert [v for *_, v in log_of(ch, "q")] == [(1,), (2,), (4,)]
    assert tuples(db.late("s")) == [(3, 1, 1.0, "x", at(7.999999))]
    found = db.stats()
    assert found["late"] == found["streams"]["s"]["late"] == 1 and found["rows"] == 4
    assert found["streams"]["s"]["watermark"] == at(8) and found["streams"]["r"]["watermark"] is None
    shown = {r["stream"]: r for r in db.execute("SHOW STREAMS").to_pylist()}
    assert shown["s"]["late"] == 1 and shown["s"]["rows"] == 4 and shown["s"]["watermark"] == at(8)


def test_late_rows_do_not_depend_on_batches() -> None:
    rows = [row(s, a=i) for i, s in enumerate((5, 9, 6.5, 7, 20, 18, 17.9, 40, 1))]
    want = None
    for size in (1, 2, len(rows)):
        db = standing(delay=2)
        for i in range(0, len(rows), size):
            db.push("s", rows[i : i + size])
        want = want or (tuples(db.late("s")), tuples(db.snapshot("q")), db.stats()["streams"])
        assert want == (tuples(db.late("s")), tuples(db.snapshot("q")), db.stats()["streams"])


def test_late_table_has_the_schema_of_the_stream_even_when_empty() -> None:
    db = world()
    names = ["a", "b", "c", "n", "ts"]
    assert db.late("s").column_names == db.late("S").column_names == names and db.late("s").num_rows == 0
    db.push("s", [row(5), row(1)])
    assert db.late("s").schema == world().late("s").schema
    with pytest.raises(eddyline.CatalogError, match="ss"):
        db.late("ss")


def test_late_rows_move_neither_watermark_nor_answers() -> None:
    db = standing(text="SELECT COUNT(*) AS k FROM s")
    db.push("s", [row(5)])
    before = tuples(db.snapshot("q"))
    assert db.push("s", [row(4), row(1)]).count() == 0
    assert tuples(db.snapshot("q")) == before == [(1,)] and db.stats()["streams"]["s"]["watermark"] == at(5)


def test_slowest_stream_leads_by_default_and_the_fastest_with_max() -> None:
    text = "SELECT a FROM s UNION SELECT a FROM r"
    for policy, known in (("min", None), ("max", at(9))):
        db = standing(text=text, clock=policy)
        db.push("s", [row(9)])
        assert db.stats()["families"]["family_1"]["clock"] == known
        db.push("r", [row(11)])
        assert db.stats()["families"]["family_1"]["clock"] == (at(9) if policy == "min" else at(11))


def test_quiet_stream_holds_answers_back_until_time_is_advanced() -> None:
    db = standing(text="SELECT a FROM s EXCEPT ALL SELECT a FROM r")
    assert db.push("s", [row(1)]).count() == 0
    assert log_of(db.advance(at(1)), "q") == [("+", at(1), None, (1,))]


def test_time_does_not_go_back() -> None:
    db = standing(text="SELECT COUNT(*) AS k FROM s [RANGE 5 SECONDS]")
    db.push("s", [row(10)])
    for back in (at(5), at(-100), "1970-01-01", at(10)):
        assert db.advance(back).count() == 0
    assert db.stats()["streams"]["s"]["watermark"] == at(10)
    assert db.stats()["streams"]["r"]["watermark"] == at(10)


def test_advancing_makes_earlier_rows_late_in_every_stream() -> None:
    db = standing(delay=60)
    db.advance(at(100))
    assert db.push("s", [row(99), row(100)]).count() == 1
    db.execute("CREATE STREAM z (ts TIMESTAMP) WATERMARK ts")
    db.push({"r": [row(50)], "z": [{"ts": at(99)}]})
    assert [db.late(x).num_rows for x in "srz"] == [1, 1, 1]


@pytest.mark.parametrize(
    "moment",
    [
        "2026-01-01T00:00:10",
        "2026-01-01 00:00:10",
        "2026-01-01T00:00:10Z",
        "2026-01-01T02:00:10+02:00",
        at(10),
        at(10).replace(tzinfo=dt.UTC),
        dt.datetime(2026, 1, 1, 5, 30, 10, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30))),
        pd.Timestamp("2026-01-01 00:00:10"),
        pd.Timestamp("2025-12-31 19:00:10", tz="America/New_York"),
        np.datetime64("2026-01-01T00:00:10"),
        np.datetime64("2026-01-01T00:00:10", "ns"),
    ],
)
def test_moments_are_given_in_any_form(moment: Any) -> None:
    db = world()
    db.advance(moment)
    assert db.stats()["streams"]["s"]["watermark"] == at(10)
    db = standing()
    assert log_of(db.push("s", [row(0) | {"ts": moment}]), "q") == [("+", at(10), None, (1,))]


@pytest.mark.parametrize(
    "moment", [None, 5, 1.5, "soon", "", True, [], "2026-13-01", np.datetime64("NaT"), pd.NaT, float("nan")]
)
def test_what_is_no_moment_is_refused(moment: Any) -> None:
    db = world()
    with pytest.raises(eddyline.DataError, match="point in time"):
        db.advance(moment)
    assert db.stats()["streams"]["s"]["watermark"] is None
    with pytest.raises(eddyline.DataError):
        db.push("s", [row(0) | {"ts": moment}])


def test_empty_pushes_do_nothing() -> None:
    db = standing(text="SELECT COUNT(*) AS k FROM s")
    schema = pa.schema(
        [("a", pa.int32()), ("b", pa.int64()), ("c", pa.float64()), ("n", pa.string()), ("ts", pa.timestamp("us"))]
    )
    for nothing in ([], schema.empty_table(), pa.RecordBatch.from_pylist([], schema), schema.empty_table().to_pandas()):
        assert db.push("s", nothing).count() == 0
        assert db.push({"s": nothing, "r": []}).count() == 0
    assert db.push({}).count() == 0
    assert db.stats()["rows"] == 0 and db.stats()["streams"]["s"]["watermark"] is None


def test_one_of_several_streams_may_be_empty() -> None:
    db = standing(text="SELECT r.b, s.b FROM r, s WHERE r.a = s.a")
    db.push({"r": [row(0, b=1)], "s": []})
    assert [v for *_, v in log_of(db.push({"r": [], "s": [row(0, b=2)]}), "q")] == [(1, 2)]


def test_bad_rows_in_one_stream_apply_none_of_the_push() -> None:
    db = standing()
    before = db.stats()
    for bad in ([row(0) | {"a": "word"}], [{"a": 1}], [row(0) | {"ts": None}], [row(0) | {"zz": 1}], 5, [5], None):
        with pytest.raises(eddyline.DataError):
            db.push({"s": [row(0)], "r": bad})
    with pytest.raises(eddyline.CatalogError):
        db.push({"s": [row(0)], "nothing": []})
    assert db.stats() == before and db.snapshot("q").num_rows == 0


@pytest.mark.parametrize("year", [1, 1600, 1969, 2262, 9999])
def test_distant_times_are_kept(year: int) -> None:
    moment = dt.datetime(year, 6, 1)
    for text in ("SELECT ts FROM s", "SELECT MAX(ts) AS ts FROM s [RANGE 1 SECOND]", "SELECT DISTINCT ts FROM s"):
        db = standing(text=text)
        db.push("s", [row(0) | {"ts": moment}])
        assert tuples(db.snapshot("q")) == [(moment,)], text


@pytest.mark.parametrize("micros", [LAST - 1, 253402300800 * 10**6, -(2**62), -LAST + 10, -62135596801 * 10**6])
def test_times_that_no_datetime_can_hold_are_refused(micros: int) -> None:
    db = standing()
    ts = pa.array([micros], pa.int64()).cast(pa.timestamp("us"))
    with pytest.raises(eddyline.DataError, match="9999"):
        db.push("s", pa.table({"a": [1], "b": [1], "c": [1.0], "n": ["x"], "ts": ts}))
    assert db.stats()["rows"] == 0


@pytest.mark.parametrize("moment", [dt.datetime.min, dt.datetime.max], ids=["first", "last"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM s",
        "SELECT a FROM s [RANGE 100 SECONDS]",
        "SELECT x.a FROM s [RANGE 100 SECONDS] x, s [RANGE 1 DAY] y WHERE x.a = y.a",
        "SELECT DISTINCT a FROM s [RANGE 100 SECONDS]",
        "SELECT a FROM s [RANGE 100 SECONDS] GROUP BY a",
        "SELECT a FROM s [ROWS 2]",
    ],
)
def test_first_and_last_moment_are_moments_like_others(text: str, moment: dt.datetime) -> None:
    """The end of a row at the last moment may lie outside of what can be told; reading it must not fail."""
    db = standing(text=text, delay=3)
    db.execute(f"CREATE CONTINUOUS QUERY every WITH (emit = 'all') AS {text}")
    found = [db.push("s", [row(0) | {"ts": moment}]), db.advance(dt.datetime.max)]
    for name in ("q", "every"):
        log = [change for ch in found for change in log_of(ch, name)]
        assert (log[0][0], log[0][1], log[0][3]) == ("+", moment, (1,))


def test_window_of_a_family_wider_than_all_time_has_no_end() -> None:
    db = world()
    db.execute("CREATE QUERY FAMILY f (w BIGINT) AS SELECT a FROM s [RANGE :w DAYS]")
    db.register("f", [{"query": "wide", "w": 10_000_000}, {"query": "narrow", "w": 1}])
    found = db.push("s", [row(0)])
    assert log_of(found, "narrow") == [("+", at(0), at(86_400), (1,))]
    assert log_of(found, "wide") == [("+", at(0), None, (1,))]


def test_delay_larger_than_all_times_makes_nothing_late() -> None:
    db = eddyline.connect()
    db.execute("CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 100000 WEEKS")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a FROM s")
    assert db.push("s", [{"a": 1, "ts": at(0)}, {"a": 2, "ts": dt.datetime(1900, 1, 1)}]).count() == 2


def test_max_clock_sets_apart_what_is_behind_the_clock_of_a_query() -> None:
    db = standing(text="SELECT a FROM s EXCEPT ALL SELECT a FROM r", clock="max")
    db.push("s", [row(10)])
    db.push("r", [row(5)])
    assert db.late("r").num_rows == 1
    assert bag(db.snapshot("q")) == {(1,): 1}


def test_rows_set_apart_are_counted_in_the_statistics() -> None:
    """The dead-letter table and the counters tell the same number, under either policy."""
    for policy in ("min", "max"):
        db = standing(text="SELECT a FROM s EXCEPT ALL SELECT a FROM r", clock=policy)
        db.push("s", [row(10), row(3)])
        db.push("r", [row(5), row(4)])
        found = db.stats()
        for x in "rs":
            assert db.late(x).num_rows == found["streams"][x]["late"], (policy, x)
        assert found["late"] == sum(db.late(x).num_rows for x in "rs")


def test_unknown_clock_policy_is_refused() -> None:
    with pytest.raises(eddyline.DataError, match="min"):
        eddyline.connect(clock="fast")  # type: ignore[arg-type]


def test_a_tuple_beyond_the_future_limit_is_set_apart_and_later_ones_are_not_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wall = int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp() * 1e6)
    monkeypatch.setattr("eddyline.engine.clocks.wall_clock", lambda: wall)
    db = eddyline.connect()
    db.execute("CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts FUTURE LIMIT INTERVAL 1 HOUR")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a FROM s")
    times = ["2026-01-01 00:00:01", "2900-01-01 00:00:00", "2026-01-01 01:00:00", "2026-01-01 01:00:01", "2025-01-01"]
    changes = db.push("s", [{"a": a, "ts": ts} for a, ts in enumerate(times)])
    assert changes.rows("q")["a"].to_pylist() == [0, 2]
    assert db.late("s")["a"].to_pylist() == [1, 3, 4]
    assert {k: db.stats()["streams"]["s"][k] for k in ("rows", "late", "ahead", "set_apart")} == {
        "rows": 5,
        "late": 1,
        "ahead": 2,
        "set_apart": 3,
    }
    monkeypatch.setattr("eddyline.engine.clocks.wall_clock", lambda: wall + 3_600_000_000)
    assert db.push("s", [{"a": 5, "ts": times[3]}]).rows("q")["a"].to_pylist() == [5]


def test_the_limit_and_the_count_of_what_was_beyond_it_are_saved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("eddyline.engine.clocks.wall_clock", lambda: 0)
    db = eddyline.connect()
    db.execute(
        "CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts IDLE AFTER INTERVAL 5 SECONDS FUTURE LIMIT INTERVAL 1 DAY"
    )
    db.push("s", [{"a": 1, "ts": "1970-01-03"}])
    db.save(tmp_path / "saved")
    again = eddyline.connect(tmp_path / "saved")
    again.push("s", [{"a": 2, "ts": "1970-01-04"}, {"a": 3, "ts": "1970-01-01"}])
    assert again.stats()["streams"]["s"]["ahead"] == 2
    assert again.late("s")["a"].to_pylist() == [1, 2]
