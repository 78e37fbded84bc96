"""What declarations may say about the outside: formats, options, references, and folders that must stay apart."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest

from eddyline.errors import CatalogError, ParseError, redacted
from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.catalog.externals import Rules, note_format
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.catalog.references import resolved
from eddyline.spark.output.delivery import Delivery
from eddyline.spark.run.checkpoint import Fixed, begin, catalog_of
from eddyline.spark.run.settings import Settings
from tests.spark.inline import Inline

KAFKA = "'kafka.bootstrap.servers' 'localhost:9092', topic 't'"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    begin(tmp_path / "ck", Fixed(1, "min"))
    return tmp_path / "ck"


def operator(folder: Path, **rules: object) -> PipelineCatalog:
    return PipelineCatalog(CommitLog(folder / "ck" / "eddyline" / "catalog"), Rules(**rules))  # type: ignore[arg-type]


# formats


def test_a_sink_of_a_format_that_does_not_exist_is_refused_when_it_is_declared(checkpoint: Path) -> None:
    with pytest.raises(CatalogError, match=r"no format 'parqet' for the sink 'extra'[^$]*Did you mean 'parquet'"):
        catalog_of(checkpoint).execute("CREATE SINK extra USING parqet OPTIONS (path '/tmp/x')")
    assert CommitLog(checkpoint / "eddyline" / "catalog").latest() == 0


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("parquet", "The sink 'a' has no path."),
        ("json OPTIONS (path '/x/a', compact '0')", "The sink 'a' cannot be compacted after '0' micro-batches."),
        ("kafka OPTIONS (topic 't')", "The sink 'a' cannot send to Kafka: Kafka needs option kafka.bootstrap.servers."),
        (f"kafka OPTIONS ({KAFKA}, key 'k')", "The sink 'a' cannot send to Kafka: Kafka has no option 'key' here."),
    ],
)
def test_wrong_options_of_a_sink_are_refused_when_it_is_declared(tmp_path: Path, declared: str, message: str) -> None:
    with pytest.raises(CatalogError) as raised:
        operator(tmp_path).execute(f"CREATE SINK a USING {declared}")
    assert message in str(raised.value) and raised.value.hint


def test_a_source_of_a_format_that_does_not_exist_is_refused_when_it_is_declared(checkpoint: Path) -> None:
    with pytest.raises(CatalogError, match=r"no format 'jason' for the stream 's'[^$]*'json'"):
        catalog_of(checkpoint).execute("CREATE STREAM s (k INT, ts TIMESTAMP) WATERMARK ts USING jason")


def test_a_pipeline_asks_spark_for_formats_and_others_may_then_use_them(tmp_path: Path, checkpoint: Path) -> None:
    asked: list[str] = []

    def exists(name: str) -> bool:
        asked.append(name)
        return name == "delta"

    pipeline_catalog = operator(tmp_path, exists=exists, own=checkpoint / "eddyline")
    with pytest.raises(CatalogError, match="Spark has no format 'detla'"):
        pipeline_catalog.execute("CREATE SINK a USING detla OPTIONS (path '/x/a')")
    with pytest.raises(CatalogError, match="as far as is known without Spark"):
        catalog_of(checkpoint).execute("CREATE SINK b USING delta OPTIONS (path '/x/b')")
    pipeline_catalog.execute("CREATE SINK a USING delta OPTIONS (path '/x/a')")
    pipeline_catalog.execute("CREATE SINK c USING parquet OPTIONS (path '/tmp/x/c')")
    assert asked == ["detla", "delta"]
    catalog_of(checkpoint).execute("CREATE SINK b USING delta OPTIONS (path '/x/b')")


# options


@pytest.mark.parametrize(
    "option",
    [
        "kafka.plugin.library.paths",
        "kafka.sasl.kerberos.kinit.cmd",
        "kafka.ssl.engine.location",
        "kafka.interceptor.classes",
        "kafka.sasl.login.callback.handler.class",
        "kafka.metric.reporters",
        "kafka.SECURITY.providers",
    ],
)
def test_options_that_load_code_are_refused_unless_the_operator_allows_them(tmp_path: Path, option: str) -> None:
    sink = f"CREATE SINK k USING kafka OPTIONS ({KAFKA}, '{option}' '/tmp/evil.so')"
    begin(tmp_path / "ck", Fixed(1, "min"))
    with pytest.raises(CatalogError, match=r"loads code into the pipeline[^$]*--allow-option"):
        operator(tmp_path).execute(sink)
    with pytest.raises(CatalogError, match="loads code into the pipeline"):
        catalog_of(tmp_path / "ck").execute(sink)
    operator(tmp_path, allowed=[option.upper()]).execute(sink)


def test_a_checkpoint_that_has_such_an_option_does_not_start_without_it_being_allowed(tmp_path: Path) -> None:
    operator(tmp_path, allowed=["kafka.plugin.library.paths"]).execute(
        f"CREATE SINK k USING kafka OPTIONS ({KAFKA}, 'kafka.plugin.library.paths' '/tmp/evil.so')"
    )
    settings = Settings(str(tmp_path / "ck"), 1, "min", str(tmp_path), "set apart", "null")
    pipeline_catalog = operator(tmp_path)
    pipeline_catalog.catch_up()
    with pytest.raises(CatalogError, match="loads code into the pipeline"):
        Delivery(settings, pipeline_catalog).check()


@pytest.mark.parametrize(
    "sink",
    [
        "csv OPTIONS (path '/tmp/x', charToEscapeQuoteEscaping 'x')",
        f"kafka OPTIONS ({KAFKA}, 'kafka.ssl.ca.location' '/etc/shadow')",
        "parquet OPTIONS (path '/tmp/x', url 'jdbc:x')",
    ],
)
def test_added_sql_has_the_options_that_are_listed_and_the_script_has_all(
    tmp_path: Path, checkpoint: Path, sink: str
) -> None:
    with pytest.raises(CatalogError, match=r"cannot be given here[^$]*pipeline's script"):
        catalog_of(checkpoint).execute(f"CREATE SINK k USING {sink}")
    operator(tmp_path).execute(f"CREATE SINK k USING {sink}")


def test_added_sql_may_use_what_is_listed(checkpoint: Path) -> None:
    pipeline_catalog = catalog_of(checkpoint)
    pipeline_catalog.execute(f"CREATE SINK k USING kafka OPTIONS ({KAFKA}, 'kafka.Client.Id' 'me')")
    pipeline_catalog.execute("CREATE SINK c USING csv OPTIONS (path '/tmp/x/c', header 'true')")
    note_format(checkpoint / "eddyline", "delta")
    pipeline_catalog.execute("CREATE SINK d USING delta OPTIONS (path '/tmp/x/d')")
    with pytest.raises(CatalogError, match="cannot be given here"):
        pipeline_catalog.execute("CREATE SINK e USING delta OPTIONS (path '/tmp/x/e', mergeSchema 'true')")


# secrets


def test_references_are_resolved_where_they_are_used_and_nowhere_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_PASSWORD", "hunter2")
    (tmp_path / "token").write_text("s3cret\n")
    pipeline_catalog = operator(tmp_path)
    reference = f"'kafka.sasl.password' '${{env:THE_PASSWORD}}', 'kafka.sasl.username' 'u-${{file:{tmp_path}/token}}'"
    pipeline_catalog.execute(f"CREATE SINK k USING kafka OPTIONS ({KAFKA}, {reference})")
    options = resolved(pipeline_catalog.catalog.sinks["k"].external.options, "the sink 'k'")
    assert (options["kafka.sasl.password"], options["kafka.sasl.username"]) == ("hunter2", "u-s3cret")
    for file in (tmp_path / "ck").rglob("*"):
        assert not file.is_file() or not {b"hunter2", b"s3cret"} & set(file.read_bytes().split(b"'"))


def test_a_reference_to_what_is_not_there_is_told_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="'password' of the sink 'k' needs the environment variable 'NO_SUCH'"):
        resolved({"password": "${env:NO_SUCH}"}, "the sink 'k'")
    with pytest.raises(CatalogError, match="needs the file '/no/such', which cannot be read: No such file"):
        resolved({"password": "${file:/no/such}"}, "the sink 'k'")
    settings = Settings(str(tmp_path / "ck"), 1, "min", str(tmp_path), "set apart", "null")
    pipeline_catalog = operator(tmp_path)
    pipeline_catalog.execute(f"CREATE SINK k USING kafka OPTIONS ({KAFKA}, 'kafka.sasl.password' '${{env:NO_SUCH}}')")
    with pytest.raises(CatalogError, match="'NO_SUCH', which is not set"):
        Delivery(settings, pipeline_catalog).check()


def test_added_sql_cannot_reach_the_environment_of_the_operator(checkpoint: Path) -> None:
    with pytest.raises(CatalogError, match="refers to the environment or a file of whoever runs the pipeline"):
        catalog_of(checkpoint).execute(
            f"CREATE SINK k USING kafka OPTIONS ({KAFKA}, 'kafka.client.id' '${{env:HOME}}')"
        )


def test_a_path_has_no_references(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="The path of the sink 'k' has a reference"):
        operator(tmp_path).execute("CREATE SINK k USING parquet OPTIONS (path '/tmp/${env:HOME}')")


def test_a_secret_in_clear_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "eddyline"):
        operator(tmp_path).execute(f"CREATE SINK k USING kafka OPTIONS ({KAFKA}, 'kafka.sasl.password' 'hunter2')")
    assert "'kafka.sasl.password' of the sink 'k' is a secret in clear" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    ("shown", "sql"),
    [
        ("OPTIONS (path 'p', password '***')", "OPTIONS (path 'p', password 'abc')"),
        ("OPTIONS ('sasl.jaas.config' = '****', topic 't')", "OPTIONS ('sasl.jaas.config' = 'a''b', topic 't')"),
        ("OPTIONS (api_key \"***\")", "OPTIONS (api_key \"abc\")"),
        ("OPTIONS (password '****", "OPTIONS (password 'abc)"),
        ("OPTIONS (password '${env:X}')", "OPTIONS (password '${env:X}')"),
        ("SELECT * FROM s WHERE password = 'abc'", "SELECT * FROM s WHERE password = 'abc'"),
    ],
)  # fmt: skip
def test_what_looks_secret_is_not_shown(shown: str, sql: str) -> None:
    assert redacted(sql) == shown


def test_errors_do_not_show_secrets(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match=r"found \"'\*+'\"") as p:
        operator(tmp_path).execute("CREATE SINK k USING kafka OPTIONS (topic password 'hunter2')")
    assert "hunter2" not in str(p.value)
    with pytest.raises(CatalogError) as e:
        operator(tmp_path).execute("CREATE SINK k USING kafka OPTIONS (password 'hunter2', driver 'x')")
    assert "hunter2" not in str(e.value)
    assert "password '*******'" in str(e.value)


# folders


@pytest.mark.parametrize("path", ["{in}", "{in}/deeper", "{in}/..", "{link}", "file://{in}/x/.."])
def test_a_sink_does_not_write_where_a_source_reads(tmp_path: Path, path: str) -> None:
    (tmp_path / "data" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "data" / "in")
    pipeline_catalog = operator(tmp_path)
    read = f"{tmp_path}/data/in/day=*/*.parquet"
    pipeline_catalog.execute(
        f"CREATE STREAM s (k INT, ts TIMESTAMP) WATERMARK ts USING parquet OPTIONS (path '{read}')"
    )
    place = path.replace("{in}", f"{tmp_path}/data/in").replace("{link}", f"{tmp_path}/link")
    with pytest.raises(CatalogError, match=r"sink 'out' would write to .*, where the stream 's' reads"):
        pipeline_catalog.execute(f"CREATE SINK out USING parquet OPTIONS (path '{place}')")
    pipeline_catalog.execute(f"CREATE SINK out USING parquet OPTIONS (path '{tmp_path}/data/out')")


def test_a_source_does_not_read_where_a_sink_writes(tmp_path: Path) -> None:
    pipeline_catalog = operator(tmp_path)
    pipeline_catalog.execute(f"CREATE SINK out USING csv OPTIONS (path '{tmp_path}/out')")
    with pytest.raises(CatalogError, match=r"sink 'out' would write to .*, where the table 't' reads"):
        pipeline_catalog.execute(f"CREATE TABLE t (k INT) USING parquet OPTIONS (PATH '{tmp_path}/out/x')")


@pytest.mark.parametrize("path", ["ck", "ck/eddyline/catalog", ".", "ck/../ck/x"])
def test_a_sink_does_not_write_into_the_checkpoint_or_around_it(
    tmp_path: Path, checkpoint: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CatalogError, match="overlaps the checkpoint"):
        catalog_of(checkpoint).execute(f"CREATE SINK out USING json OPTIONS (path '{tmp_path}/{path}')")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CatalogError, match="overlaps the checkpoint"):
        catalog_of(checkpoint).execute(f"CREATE SINK out USING json OPTIONS (path '{path}')")


def test_an_option_is_given_once_however_it_is_spelt(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="Option 'path' of the sink 'out' is given twice"):
        operator(tmp_path).execute(f"CREATE SINK out USING csv OPTIONS (path '/tmp/x', PATH '{tmp_path}/ck')")


def test_a_run_looks_at_the_folders_again(tmp_path: Path) -> None:
    """Relative paths begin where the run is started, and links may have changed since."""
    (tmp_path / "in").mkdir()
    pipeline_catalog = operator(tmp_path)
    pipeline_catalog.execute(
        f"CREATE STREAM s (k INT, ts TIMESTAMP) WATERMARK ts USING parquet OPTIONS (path '{tmp_path}/in')"
    )
    pipeline_catalog.execute(f"CREATE SINK out USING parquet OPTIONS (path '{tmp_path}/out')")
    settings = Settings(str(tmp_path / "ck"), 1, "min", str(tmp_path), "set apart", "null")
    delivery = Delivery(settings, pipeline_catalog)
    delivery.check()
    (tmp_path / "out").symlink_to(tmp_path / "in")
    with pytest.raises(CatalogError, match="where the stream 's' reads"):
        delivery.check()


def test_dead_letters_stay_in_the_checkpoint_whatever_their_stream_is_called(tmp_path: Path) -> None:
    inline = Inline(tmp_path, 1)
    inline.catalog.execute("CREATE STREAM `../../../escape` (k INT, ts TIMESTAMP) WATERMARK ts")
    rows = [pa.table({"k": pa.array([1], pa.int32()), "ts": pa.array([ts], pa.timestamp("us"))}) for ts in (9, 1)]
    for part in rows:
        inline.step({"../../../escape": [part]})
    outside = [f for f in tmp_path.rglob("part-*") if not f.is_relative_to(inline.settings.own / "dead_letter")]
    assert not outside
    assert inline.catalog.late("../../../escape")["k"].to_pylist() == [1]
