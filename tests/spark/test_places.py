"""Every sink has a place of its own: paths that are no paths, names that lead elsewhere, folders that are another's."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from eddyline.delivery.marks import MARK, OLD_MARK, read_mark
from eddyline.delivery.names import folder_name
from eddyline.delivery.sinks.sink_kind import FORMAT
from eddyline.errors import CatalogError, Error, StateError
from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.output.epochs import begin_epoch
from eddyline.spark.output.places import claim as claim_for
from eddyline.spark.output.places import local_path
from eddyline.spark.run.checkpoint import folder_of
from eddyline.spark.run.settings import Settings, pipeline_file, write_whole
from eddyline.sql.catalog import External, Sink
from tests.spark.inline import Inline
from tests.spark.test_golden import STATEMENTS, step


def sink(path: str, name: str = "out", format_: str = "parquet") -> Sink:
    return Sink(name, External(format_, {"path": path}), ())


def settings(folder: Path, identity: str = "one") -> Settings:
    return Settings(str(folder / "ck"), 2, "min", str(folder), "set apart", "quarantine", identity)


@pytest.mark.parametrize("text", ["/a/b", "file:/a/b", "file:///a/b", "FILE:///a/b"])
def test_an_address_of_a_file_is_its_path(text: str) -> None:
    assert local_path(text, "checkpoint") == Path("/a/b")


def test_a_relative_path_stays_relative() -> None:
    assert local_path("a/b:c", "checkpoint") == Path("a/b:c")


@pytest.mark.parametrize("text", ["s3://bucket/ck", "hdfs://host:9000/ck", "abfss://c@a.net/ck"])
def test_a_checkpoint_that_is_on_no_file_system_is_refused_in_words(text: str) -> None:
    for given in (text, Path(text)):  # the command line makes paths of what it is given
        with pytest.raises(StateError, match="is not on a file system"):
            folder_of(given)


@pytest.mark.parametrize("name", ["../x", "/etc", "a/../../b", ".", "..", "_staged", ".hidden", "a\\b", "a:b", "a\0b"])
def test_no_name_leads_out_of_the_folder_or_hides_in_it(name: str) -> None:
    found = folder_name(name)
    assert Path(found).parts == (found,)
    assert found[0] not in "._/" and "\0" not in found


def test_names_of_folders_differ_where_names_do_and_plain_ones_stay() -> None:
    long = ["ü" * 300, "ü" * 301]
    names = [*long, "a/b", "a%2Fb", "a%252Fb", "_a", "%5Fa", "%5fa", ".a", "a", "grüße 1", "family_1"]
    assert all(len(folder_name(n).encode()) <= 200 for n in names)
    assert len({folder_name(n) for n in names}) == len(names)
    assert [folder_name(n) for n in names[-3:]] == names[-3:]


def claim(sink: Sink, settings: Settings) -> None:
    """As a run does that begins; it has planned a micro-batch."""
    checkpoint = Path(settings.checkpoint)
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / "0").touch()
    claim_for(sink, settings, begin_epoch(checkpoint, settings.base))


def with_rows(folder: Path) -> None:
    (folder / "f").mkdir()
    (folder / "f" / "part-000000000-00000-000.parquet").touch()


def test_a_folder_belongs_to_one_checkpoint(tmp_path: Path) -> None:
    claim(sink("out"), settings(tmp_path))
    with_rows(tmp_path / "out")
    claim(sink("out"), settings(tmp_path))
    claim(sink(f"{tmp_path}/out", "renamed"), settings(tmp_path))
    with pytest.raises(StateError, match="has rows of another run") as e:
        claim(sink("out"), settings(tmp_path, "two"))
    assert str(tmp_path / "ck") in str(e.value)


def test_a_folder_without_rows_is_free(tmp_path: Path) -> None:
    claim(sink("out"), settings(tmp_path))
    claim(sink("out"), settings(tmp_path, "two"))
    with_rows(tmp_path / "out")
    with pytest.raises(StateError, match="has rows of another run"):
        claim(sink("out"), settings(tmp_path))


def test_a_sink_that_could_not_be_written_is_refused_when_it_is_declared(tmp_path: Path) -> None:
    pipeline_catalog = PipelineCatalog(CommitLog(tmp_path / "ck" / "eddyline" / "catalog"))
    write_whole(pipeline_file(tmp_path / "ck"), json.dumps({"identity": "one"}))
    claim(sink("out"), settings(tmp_path, "two"))
    with_rows(tmp_path / "out")
    with pytest.raises(StateError, match="has rows of another run"):
        pipeline_catalog.execute(f"CREATE SINK a USING parquet OPTIONS (path '{tmp_path}/out')")
    (tmp_path / "file").touch()
    with pytest.raises(CatalogError, match="cannot write to"):
        pipeline_catalog.execute(f"CREATE SINK a USING parquet OPTIONS (path '{tmp_path}/file/out')")
    assert not len(pipeline_catalog.catalog.sinks)


def test_rows_of_another_format_are_not_mixed_with_ours(tmp_path: Path) -> None:
    claim(sink("out", format_="json"), settings(tmp_path))
    with_rows(tmp_path / "out")
    mark = tmp_path / "out" / MARK
    mark.write_text(json.dumps(json.loads(mark.read_text()) | {"format": FORMAT + 1}))
    with pytest.raises(StateError, match="has rows of format 2, this version writes 1"):
        claim(sink("out", format_="json"), settings(tmp_path))
    mark.write_text("{")
    with pytest.raises(StateError, match="is damaged"):
        claim(sink("out", format_="json"), settings(tmp_path))


def test_a_file_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(StateError, match=r"The sink 'out' cannot write to .*(Not a directory|File exists)"):
        claim(sink("out"), settings(tmp_path))


@pytest.mark.parametrize("path", ["{folder}/out", "{folder}/out/a", "{folder}", "file://{folder}/x/../out/"])
def test_no_sink_writes_into_the_folder_of_another(tmp_path: Path, path: str) -> None:
    pipeline_catalog = PipelineCatalog(CommitLog(tmp_path / "catalog"))
    pipeline_catalog.execute(f"CREATE SINK a USING parquet OPTIONS (path '{tmp_path}/out')")
    with pytest.raises(CatalogError, match="'b' and 'a' would write to the same folder"):
        pipeline_catalog.execute(f"CREATE SINK b USING json OPTIONS (path '{path.format(folder=tmp_path)}')")
    pipeline_catalog.execute(f"CREATE SINK b USING json OPTIONS (path '{tmp_path}/other')")
    pipeline_catalog.execute("CREATE SINK c USING console")
    assert pipeline_catalog.catalog.sinks.names() == ["a", "b", "c"]


def test_a_sink_on_no_file_system_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    pipeline_catalog = PipelineCatalog(CommitLog(tmp_path / "catalog"))
    with pytest.raises(Error, match="The path of sink 'a' 's3://b/out' is not on a file system"):
        pipeline_catalog.execute("CREATE SINK a USING parquet OPTIONS (path 's3://b/out')")
    assert not len(pipeline_catalog.catalog.sinks)


def test_files_say_their_format_and_lie_in_the_folder_of_their_sink(tmp_path: Path) -> None:
    inline = Inline(tmp_path, 2)
    for statement in STATEMENTS[:2]:
        inline.catalog.execute(statement)
    inline.catalog.execute("CREATE QUERY FAMILY `../_x` (least DOUBLE) AS SELECT k, v FROM r WHERE v >= :least")
    inline.catalog.register("../_x", [{"query": "q", "least": 0.0}])
    inline.catalog.execute(f"CREATE SINK out USING parquet OPTIONS (path '{inline.out}')")
    inline.step(step(0))
    (file,) = [f for f in inline.out.rglob("part-*") if f.parent.parent == inline.out][:1]
    assert pq.read_schema(file).metadata[b"eddyline.format"] == str(FORMAT).encode()
    assert not list(tmp_path.glob("_x*"))


def test_no_reader_of_json_files_or_of_a_folder_takes_the_mark_for_rows(tmp_path: Path) -> None:
    claim(sink("out", format_="json"), settings(tmp_path))
    (tmp_path / "out" / "part-000000000-00000-000.json").write_text('{"a": 1}\n')
    assert duckdb.sql(f"SELECT * FROM read_json('{tmp_path}/out/*.json')").fetchall() == [(1,)]
    assert ds.dataset(tmp_path / "out", format="json").to_table().to_pylist() == [{"a": 1}]


def test_a_folder_with_the_mark_of_an_older_version_stays_valid(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with_rows(tmp_path / "out")
    said = {"format": 1, "sink": "out", "checkpoint": "ck", "identity": "one"}
    (tmp_path / "out" / OLD_MARK).write_text(json.dumps(said))
    with pytest.raises(StateError, match="has rows of another run"):
        claim(sink("out"), settings(tmp_path, "two"))
    claim(sink("out"), settings(tmp_path))
    assert [f.name for f in (tmp_path / "out").iterdir() if f.is_file()] == [MARK]
    mark = read_mark(tmp_path / "out")
    assert mark is not None and mark.epoch
