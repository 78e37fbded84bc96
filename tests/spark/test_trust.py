"""Who may run code from a checkpoint: nobody who only reads it, and others only what they have approved."""

from __future__ import annotations

import os
import pickle
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eddyline.commands import query
from eddyline.engine.actions import Action, DefineFunction, Quarantine
from eddyline.errors import StateError
from eddyline.spark.catalog import exporting
from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.catalog.trust import key_file
from eddyline.spark.run import inspecting, verifying
from eddyline.spark.run.checkpoint import Fixed, begin, catalog_of
from eddyline.spark.run.settings import Settings
from tests.spark.bare import Bare

STREAM = "CREATE STREAM r (k INT, ts TIMESTAMP) WATERMARK ts;"
QUERY = "CREATE CONTINUOUS QUERY q AS SELECT k FROM r WHERE evil(k) = 1"


class Evil:
    """Loading it makes a folder."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.proof),)


def crafted(proof: Path) -> DefineFunction:
    return DefineFunction("evil", ("INT",), "INT", pickle.dumps(Evil(proof)))


def append(checkpoint: Path, *actions: Action) -> None:
    log = CommitLog(checkpoint / "eddyline" / "catalog")
    with log.lock():
        log.append(actions)


def halves(_: Path) -> DefineFunction:
    from pyspark import cloudpickle

    body: bytes = cloudpickle.dumps(lambda x: x / 2)  # type: ignore[no-untyped-call]
    return DefineFunction("half", ("DOUBLE",), "DOUBLE", body)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    ck = tmp_path / "ck"
    begin(ck, Fixed(1, "min"))
    catalog_of(ck).execute(STREAM)
    return ck


def test_commands_that_read_a_checkpoint_never_load_a_function(checkpoint: Path, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    append(checkpoint, crafted(proof))
    (tmp_path / "add.sql").write_text(QUERY)
    query.add(checkpoint, str(tmp_path / "add.sql"))
    query.list_(checkpoint)
    query.quarantined(checkpoint)
    query.late(checkpoint)
    for statement in ("SHOW FUNCTIONS", "SHOW QUERIES", "SHOW STREAMS", "EXPLAIN q"):
        catalog_of(checkpoint).execute(statement)
    assert list(inspecting.facts(checkpoint))
    list(verifying.problems(checkpoint))
    exporting.export(checkpoint, tmp_path / "exported")
    query.drop(checkpoint, ["q"])
    assert not proof.exists()


def test_a_statement_that_calls_an_unapproved_function_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    append(checkpoint, crafted(tmp_path / "proof"))
    catalog = catalog_of(checkpoint)
    catalog.execute("CREATE TABLE t (k INT)")
    with pytest.raises(StateError, match=r"'evil' in the checkpoint '.*/ck' is not approved[^$]*--allow-functions"):
        catalog.execute("INSERT INTO t VALUES (evil(1))")
    assert not (tmp_path / "proof").exists()


def test_a_run_is_refused_until_its_functions_are_approved(checkpoint: Path) -> None:
    append(checkpoint, halves(checkpoint))
    catalog = catalog_of(checkpoint)
    with pytest.raises(StateError, match="'half' in the checkpoint"):
        catalog.require_approved("refuse")
    catalog.require_approved("approve")
    again = catalog_of(checkpoint)
    again.require_approved("refuse")
    assert again.definitions.functions.bodies["half"](4.0) == 2.0


def test_an_unapproved_function_puts_its_queries_into_quarantine_and_is_not_run(tmp_path: Path) -> None:
    """It came while the pipeline ran; other queries go on."""
    bare = Bare(tmp_path, f"{STREAM} CREATE SINK out USING parquet OPTIONS (path '{tmp_path}/out')", 1, "quarantine")
    append(tmp_path / "ck", crafted(tmp_path / "proof"))
    bare.catalog.execute(QUERY)
    bare.catalog.execute("CREATE CONTINUOUS QUERY other AS SELECT k FROM r")
    rows = pa.table({"k": pa.array([1, 2], pa.int32()), "ts": pa.array([1, 2], pa.timestamp("us"))})
    bare.take({"r": [rows]}, bare.catalog.version, 1)
    assert not (tmp_path / "proof").exists()
    (error,) = [a.error for a in last(tmp_path / "ck") if isinstance(a, Quarantine)]
    assert "'evil' in the checkpoint" in error
    assert list((tmp_path / "out").glob("*/part-*"))


def last(checkpoint: Path) -> Sequence[Action]:
    log = CommitLog(checkpoint / "eddyline" / "catalog")
    return log.read(log.latest())


def test_approvals_of_one_user_mean_nothing_to_another(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog_of(checkpoint).function("half", lambda x: x / 2, ["DOUBLE"], "DOUBLE")
    catalog_of(checkpoint).require_approved("refuse")
    monkeypatch.setenv("EDDYLINE_KEY_FILE", str(tmp_path / "theirs" / "key"))
    with pytest.raises(StateError, match="is not approved"):
        catalog_of(checkpoint).require_approved("refuse")
    theirs = catalog_of(checkpoint)
    theirs.function("half", lambda x: x / 2, ["DOUBLE"], "DOUBLE")  # whoever defines a function approves it
    theirs.require_approved("refuse")


def test_approvals_of_one_checkpoint_mean_nothing_in_another(checkpoint: Path, tmp_path: Path) -> None:
    catalog_of(checkpoint).function("half", lambda x: x / 2, ["DOUBLE"], "DOUBLE")
    other = tmp_path / "other"
    (checkpoint / "eddyline").rename(tmp_path / "kept")
    begin(other, Fixed(1, "min"))
    for folder in ("catalog", "functions"):
        (tmp_path / "kept" / folder).rename(other / "eddyline" / folder)
    with pytest.raises(StateError, match="is not approved"):
        catalog_of(other).require_approved("refuse")


def test_the_key_is_the_users_own_and_stays_out_of_what_is_shown(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDDYLINE_KEY_FILE")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    catalog_of(checkpoint).function("half", lambda x: x / 2, ["DOUBLE"], "DOUBLE")
    assert key_file() == tmp_path / "config" / "eddyline" / "key"
    assert stat.S_IMODE(key_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(key_file().parent.stat().st_mode) == 0o700
    assert "secret" not in repr(Settings("ck", 1, "min", "", "set apart", "null", key=b"secret"))
    key_file().chmod(0o644)
    with pytest.raises(StateError, match="is open to other users"):
        catalog_of(checkpoint).require_approved("refuse")


def test_a_function_that_cannot_be_loaded_says_so(checkpoint: Path) -> None:
    append(checkpoint, DefineFunction("gone", ("INT",), "INT", b"cno_such_module\nf\n."))
    catalog = catalog_of(checkpoint)
    catalog.require_approved("approve")
    with pytest.raises(StateError, match="'gone' cannot be loaded here: ModuleNotFoundError"):
        catalog.definitions.functions.bodies["gone"]
