"""`eddyline checkpoint …` on a checkpoint, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from eddyline.cli import app
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.output.epochs import begin_epoch
from eddyline.spark.run.checkpoint import Alone, Fixed, begin, catalog_of
from eddyline.spark.run.spark_files import relocate
from eddyline.spark.run.verifying import problems

SCRIPT = """
CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 5 SECONDS USING parquet OPTIONS (path 'in');
CREATE TABLE names (a INT PRIMARY KEY, name STRING);
CREATE QUERY FAMILY above (least INT, note STRING) AS SELECT a, :note AS note FROM s WHERE a >= :least;
CREATE SINK out USING parquet OPTIONS (path '{out}') FOR above;
INSERT INTO names VALUES (1, 'it''s'), (2, NULL);
CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE a > -1;
CREATE CONTINUOUS QUERY r AS SELECT a FROM s WHERE a > 7;
CREATE SINK single USING console FOR r;
"""
ROWS = [{"query": f"u{i}", "least": i, "note": "x"} for i in range(5)]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """As a pipeline leaves it that has done one micro-batch."""
    folder = tmp_path / "ck"
    begin(folder, Fixed(1, "min", "one"))
    catalog = catalog_of(folder)
    catalog.run_script(SCRIPT.replace("{out}", str(tmp_path / "out")))
    catalog.register("above", ROWS)
    begin_epoch(folder, str(tmp_path))
    offset = {"eddyline": 1, "commit": catalog.version, "now": 0}
    files = {
        "offsets/0": f'v1\n{{"batchTimestampMs": 0}}\n{json.dumps(offset)}\n{{"logOffset": 0}}',
        "commits/0": "v1\n{}",
        "sources/1/0": 'v1\n{"path": "file:///in/a%20b.parquet", "batchId": 0}',
        "state/0/0/1.changelog": "changes",
        "eddyline/clocks/000000000.json": json.dumps({"s": {"high": 60_000_000, "floor": 0}}),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    said = json.loads((folder / "eddyline" / "pipeline.json").read_text())
    (folder / "eddyline" / "pipeline.json").write_text(json.dumps(said | {"sources": ["", "s"]}))
    return folder


def run(command: str, checkpoint: Path, *args: object, stdin: str = "") -> Result:
    return CliRunner().invoke(
        app, ["checkpoint", command, "--checkpoint", str(checkpoint), *map(str, args)], input=stdin
    )


def files_of(folder: Path) -> dict[str, bytes]:
    own = [f for f in folder.rglob("*") if f.is_file() and "lock" not in f.name]
    return {str(f.relative_to(folder)): f.read_bytes() for f in own}


def test_info_tells_what_is_in_a_checkpoint(checkpoint: Path) -> None:
    found = json.loads(run("info", checkpoint, "--json").stdout)
    assert found["micro-batches"] == "1 planned, 1 committed"
    assert found["stream s"] == "watermark 1970-01-01 00:00:55"
    assert found["family above"] == "declared, 5 queries"
    assert found["table names"] == "2 rows"
    assert found["identity"] == "one" and "run 1" in found["epoch"]
    assert "no rows" in found["sink out"]
    assert "family above" in run("info", checkpoint).stdout


def test_info_of_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    found = run("info", tmp_path)
    assert found.exit_code == 1 and "is not the checkpoint of a pipeline" in found.stderr


def test_verify_finds_a_whole_checkpoint_whole(checkpoint: Path) -> None:
    found = run("verify", checkpoint)
    assert (found.exit_code, found.stdout) == (0, "The checkpoint is whole.\n")


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("offsets/0", "committed those up to 0"),
        ("sources/1/0", "sources/1/0 is missing"),
        ("state/0/0/1.changelog", "1.changelog is missing"),
        ("eddyline/clocks/000000000.json", "000000000.json is missing"),
        ("eddyline/catalog/000000000001.commit", "000000000001.commit' is missing"),
        ("eddyline/pipeline.json", "another streaming query"),
    ],
)
def test_verify_names_a_file_that_is_missing(checkpoint: Path, file: str, says: str) -> None:
    (checkpoint / file).unlink()
    found = run("verify", checkpoint)
    assert found.exit_code == 1 and says in found.stdout


def test_verify_names_files_that_are_damaged(checkpoint: Path) -> None:
    commit = checkpoint / "eddyline" / "catalog" / "000000000001.commit"
    commit.write_bytes(commit.read_bytes()[:-1] + b"?")
    (checkpoint / "state" / "0" / "0" / ".1.changelog.crc").write_bytes(b"crc\0\0\0\2\0\0\0\0\0")
    (checkpoint / "eddyline" / "clocks" / "000000000.json").write_text("{")
    found = " ".join(problems(checkpoint))
    assert "000000000001.commit' is damaged" in found
    assert "1.changelog is damaged" in found
    assert "000000000.json is damaged" in found


def test_a_backup_is_restored_to_the_byte_and_what_was_there_before_is_kept(checkpoint: Path, tmp_path: Path) -> None:
    before = files_of(checkpoint)
    assert run("backup", checkpoint, tmp_path / "b").exit_code == 0
    catalog_of(checkpoint).drop("above", ["u1"])
    later = files_of(checkpoint)
    found = run("restore", checkpoint, tmp_path / "b", "--yes")
    assert found.exit_code == 0, found.stderr
    assert files_of(checkpoint) == before
    (aside,) = tmp_path.glob("ck.before-restore-*")
    assert files_of(aside) == later


def test_a_backup_is_refused_while_a_run_is_at_work(checkpoint: Path, tmp_path: Path) -> None:
    for command in ("backup", "move"):
        with Alone(checkpoint, lambda: True):
            found = run(command, checkpoint, tmp_path / "b")
        Alone._in_process.pop(checkpoint)
        assert found.exit_code == 1 and "Another run is at work" in found.stderr
        assert not (tmp_path / "b").exists()


def test_a_backup_that_is_damaged_or_half_is_not_restored(checkpoint: Path, tmp_path: Path) -> None:
    run("backup", checkpoint, tmp_path / "b")
    file = tmp_path / "b" / "checkpoint" / "commits" / "0"
    file.write_text("other")
    found = run("restore", tmp_path / "new", tmp_path / "b")
    assert found.exit_code == 1 and "does not hold what was written to it: commits/0" in found.stderr
    (tmp_path / "b" / "backup.json").unlink()
    found = run("restore", tmp_path / "new", tmp_path / "b")
    assert found.exit_code == 1 and "no whole backup" in found.stderr
    assert sorted(f.name for f in tmp_path.iterdir()) == ["b", "ck"]


def test_a_restore_without_consent_changes_nothing(checkpoint: Path, tmp_path: Path) -> None:
    run("backup", checkpoint, tmp_path / "b")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part-000000001-00000-000.parquet").touch()
    before = files_of(tmp_path)
    found = run("restore", checkpoint, tmp_path / "b", stdin="n\n")
    assert found.exit_code == 1 and "1 file with rows of micro-batches from 1 on will be removed" in found.stdout
    assert files_of(tmp_path) == before


def test_a_moved_checkpoint_has_its_files_and_its_new_place(checkpoint: Path, tmp_path: Path) -> None:
    before = files_of(checkpoint)
    assert run("move", checkpoint, tmp_path / "elsewhere" / "ck").exit_code == 0
    assert not checkpoint.exists()
    assert files_of(tmp_path / "elsewhere" / "ck") == before
    found = run("move", tmp_path / "elsewhere" / "ck", tmp_path / "elsewhere")
    assert found.exit_code == 1 and "exists already" in found.stderr


def test_spark_finds_the_schemas_of_state_where_a_checkpoint_lies_now(tmp_path: Path) -> None:
    file = tmp_path / "new" / "state" / "0" / "_metadata" / "v2" / "3"
    file.parent.mkdir(parents=True)
    paths = ["file:/old/ck/state/0/_stateSchema/default/0_a", f"file:{tmp_path}/new/state/0/_stateSchema/default/0_a"]
    said = {"operatorInfo": {}, "stateStoreInfo": [{"storeName": "default", "stateSchemaFilePaths": paths}]}
    file.write_text(f"v2\n{json.dumps(said)}")
    (file.parent / ".3.crc").touch()
    assert relocate(tmp_path / "new") == 1
    assert relocate(tmp_path / "new") == 0
    version, _, body = file.read_text().partition("\n")
    assert version == "v2"
    assert json.loads(body)["stateStoreInfo"][0]["stateSchemaFilePaths"] == paths[1:]
    assert not (file.parent / ".3.crc").exists()


def test_an_export_is_taken_over_by_a_new_checkpoint_with_another_column_and_delay(
    checkpoint: Path, tmp_path: Path
) -> None:
    found = run("export", checkpoint, tmp_path / "ex")
    assert found.exit_code == 0 and "7 queries in 2 families" in found.stdout
    assert json.loads((tmp_path / "ex" / "position.json").read_text()) == {"s": {"files": ["/in/a b.parquet"]}}
    script = (tmp_path / "ex" / "pipeline.sql").read_text()
    new, file = tmp_path / "new", tmp_path / "new.sql"
    file.write_text(
        script.replace("(a INT, ts", "(a INT, b STRING, ts").replace("5 SECONDS", "9 SECONDS").replace("/out", "/out2")
    )
    found = run("import", new, tmp_path / "ex", "--script", file)
    assert found.exit_code == 0, found.stderr
    old, now = catalog_of(checkpoint), catalog_of(new)
    assert now.catalog.streams["s"].delay == 9_000_000
    assert len(now.registry.names) == len(old.registry.names) == 7
    queries = [{n: constants_of(m, n) for n in ("q", "r", "u0", "u4")} for m in (old, now)]
    assert queries[0] == queries[1]
    assert [c.to_pylist() for c in now.tables["names"].columns] == [[1, 2], ["it's", None]]
    assert sorted(now.catalog.sinks.names()) == ["out", "single"]


def constants_of(catalog: PipelineCatalog, name: str) -> list[object]:
    family, number = catalog.query(name)
    rows = family.queries.rows()
    where = rows.positions(np.array([number]))
    return [c[0].as_py() for c in rows.all_params_at(where)]


def test_an_export_that_does_not_fit_changes_nothing(checkpoint: Path, tmp_path: Path) -> None:
    run("export", checkpoint, tmp_path / "ex")
    new = tmp_path / "new"
    begin(new, Fixed(1, "min"))
    catalog_of(new).run_script(
        (tmp_path / "ex" / "pipeline.sql").read_text().replace("above (least", "over (least").replace("FOR above", "")
    )
    version = catalog_of(new).version
    found = run("import", new, tmp_path / "ex")
    assert found.exit_code == 1 and "Nothing was taken over" in found.stderr
    assert catalog_of(new).version == version
    (tmp_path / "other.sql").write_text("CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts")
    found = run("import", tmp_path / "third", tmp_path / "ex", "--script", tmp_path / "other.sql")
    assert found.exit_code == 1 and not (tmp_path / "third").exists()
    found = run("import", new, tmp_path / "nowhere")
    assert found.exit_code == 1 and "is no export" in found.stderr
