"""The catalog's log: a missing or damaged file is named, never passed over; writers and readers come in any order."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from eddyline.errors import StateError
from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.run.checkpoint import check_catalog

SCRIPT = """
CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 1 SECONDS;
CREATE QUERY FAMILY f (k INT) AS SELECT a FROM s WHERE a > :k
"""


@pytest.fixture
def log(tmp_path: Path) -> CommitLog:
    """Three commits: a script, some queries of a family, and a query of its own."""
    catalog = PipelineCatalog(CommitLog(tmp_path / "ck" / "eddyline" / "catalog"))
    catalog.run_script(SCRIPT)
    catalog.register("f", [{"query": f"q{i}", "k": i} for i in range(100)])
    catalog.execute("CREATE CONTINUOUS QUERY q AS SELECT DISTINCT a FROM s")
    return CommitLog(catalog.log.path)


def files(log: CommitLog) -> list[Path]:
    return sorted(log.path.glob("*.commit"))


@pytest.mark.parametrize("number", [0, 1])
def test_a_missing_commit_is_named(log: CommitLog, number: int) -> None:
    file = files(log)[number]
    file.unlink()
    with pytest.raises(StateError, match=f"{file.name}' is missing"):
        PipelineCatalog(log).catch_up()


def test_a_missing_last_commit_that_was_in_force_is_named(log: CommitLog) -> None:
    checkpoint = log.path.parents[1]
    (checkpoint / "offsets").mkdir()
    (checkpoint / "offsets" / "7").write_text(
        'v1\n{"batchTimestampMs":5,"conf":{}}\n{"eddyline": 1, "commit": 3, "now": 5}\n'
    )
    check_catalog(checkpoint, log)
    file = files(log)[-1]
    file.unlink()
    with pytest.raises(StateError, match=f"{file.name}' is missing"):
        check_catalog(checkpoint, CommitLog(log.path))


@pytest.mark.parametrize(
    ("log_", "text", "why"),
    [
        ("offsets", "", "it is empty"),
        ("offsets", 'v1\n{"batchTimestampMs":5}\n', "it is cut off"),
        ("offsets", 'v1\n{"batchTimestampMs":5}\n{"eddyline": 1, "com', "Unterminated string"),
        ("offsets", 'v1\n{"batchTimestampMs":5}\n{"logOffset": 1}\n', "catalog's offset"),
        ("commits", "", "it is empty"),
        ("metadata", '{"id":', "Expecting value"),
    ],
)
def test_a_damaged_file_of_sparks_own_logs_is_named_with_the_remedy(
    log: CommitLog, log_: str, text: str, why: str
) -> None:
    checkpoint = log.path.parents[1]
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir()
    good = 'v1\n{"batchTimestampMs":5,"conf":{}}\n{"eddyline": 1, "commit": 3, "now": 5}\n'
    (checkpoint / "offsets" / "0").write_text(good)
    (checkpoint / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    (checkpoint / "metadata").write_text('{"id":"x"}')
    check_catalog(checkpoint, log)
    file = checkpoint / log_ if log_ == "metadata" else checkpoint / log_ / "1"
    file.write_text(text)
    with pytest.raises(StateError, match="is damaged: ") as raised:
        check_catalog(checkpoint, log)
    assert str(file) in raised.value.message and why in raised.value.message
    assert ("Remove" if log_ == "offsets" else "Restore the whole checkpoint") in str(raised.value.hint)
    if log_ == "offsets":
        (checkpoint / "commits" / "1").write_text('v1\n{"nextBatchWatermarkMs":0}')
        with pytest.raises(StateError) as raised:
            check_catalog(checkpoint, log)
        assert "Restore the whole checkpoint" in str(raised.value.hint)  # the micro-batch has ended


@pytest.mark.parametrize("seed", range(30))
def test_a_damaged_commit_is_named_and_never_read_as_another(log: CommitLog, seed: int) -> None:
    rnd = Random(seed)
    file = rnd.choice(files(log))
    whole = file.read_bytes()
    kind = rnd.choice(["cut off", "flipped", "other", "longer", "empty"])
    at = rnd.randrange(len(whole))
    match kind:
        case "cut off":
            file.write_bytes(whole[:at])
        case "flipped":
            at = rnd.randrange(len(whole) // 2, len(whole))  # in what the commit says, not in its own header
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << rnd.randrange(8)]) + whole[at + 1 :])
        case "other":
            file.write_bytes(rnd.randbytes(rnd.choice([1, 8, 100, len(whole)])))
        case "longer":
            file.write_bytes(whole + b"more")
        case "empty":
            file.write_bytes(b"")
    with pytest.raises(StateError, match=file.name):
        PipelineCatalog(log).catch_up()


def test_a_reader_that_slept_through_snapshots_and_what_they_replace_goes_on(log: CommitLog) -> None:
    sleeper = PipelineCatalog(log)
    sleeper.catch_up()
    busy = PipelineCatalog(CommitLog(log.path))
    for i in range(200):
        busy.execute(f"CREATE CONTINUOUS QUERY x{i} AS SELECT a FROM s WHERE a < {i}")
    busy.drop("f", ["q3", "q4"])
    busy.log.trim(busy.version)
    assert not busy.log.has(4), "nothing was let go of"
    sleeper.execute("CREATE CONTINUOUS QUERY y AS SELECT a FROM s WHERE a < 7")
    fresh = PipelineCatalog(CommitLog(log.path))
    fresh.catch_up()
    listed = [m.execute("SHOW QUERIES").to_pylist() for m in (sleeper, fresh)]
    assert listed[0] == listed[1]
    assert {"y", "x199", "q2"} <= {r["query"] for r in listed[0]}
    assert not {"q3", "q4"} & {r["query"] for r in listed[0]}
