"""Records that are too long: which line of which file, in bounded memory; and what the option takes."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from eddyline.errors import CatalogError
from eddyline.spark.input.long_records import DEFAULT, limit_of, long_record
from eddyline.sql.catalog import External, Stream

LIMIT = 100


@pytest.mark.parametrize(
    ("content", "line_end", "line"),
    [
        (b"a" * 99 + b"\n" + b"b" * 99, None, None),
        (b"a" * 100 + b"\n", None, 1),
        (b"a\n" * 50 + b"b" * 101, None, 51),
        (b"a\r\n" * 70 + b"b" * 100 + b"\r\n", None, 71),
        (b"a\r" * 500, None, None),
        (b"a\r" * 70 + b"b" * 101, None, 71),
        (b"a||" * 100, "||", None),
        (b"a|" * 100, "||", 1),
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_the_first_line_with_more_bytes_than_allowed_is_told(
    tmp_path: Path, content: bytes, line_end: str | None, line: int | None, compressed: bool
) -> None:
    file = tmp_path / ("x.json.gz" if compressed else "x.json")
    file.write_bytes(gzip.compress(content) if compressed else content)
    found = long_record(str(file), LIMIT, line_end)
    assert (None if found is None else found.why) == (
        None if line is None else f"line {line} has more than 100 bytes (max_record_bytes)"
    )


@pytest.mark.parametrize("chunk", [1, 2, 3, 7])
def test_lines_that_end_where_a_chunk_ends_are_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr("eddyline.spark.input.long_records._CHUNK", chunk)
    file = tmp_path / "x.csv"
    file.write_bytes(b"ab\r\nc\r\n" * 20 + b"d" * 101)
    found = long_record(str(file), LIMIT)
    assert found is not None and found.why.startswith("line 41 ")


def stream(format_: str, **options: str) -> Stream:
    return Stream("s", (), 0, 0, external=External(format_, {"path": "/in", **options}))


def test_the_limit_is_a_size_of_text_files_and_generous_by_default() -> None:
    assert limit_of(stream("json")) == DEFAULT
    assert limit_of(stream("csv", max_record_bytes="16 MB")) == 16_000_000
    assert limit_of(stream("text", MAX_RECORD_BYTES="500")) == 500
    assert limit_of(stream("parquet")) is None
    for wrong in ("much", "0", "3 GB", "-1"):
        with pytest.raises(CatalogError, match="is a number of bytes below 2 GB"):
            limit_of(stream("json", max_record_bytes=wrong))
    for source in (stream("parquet", max_record_bytes="5"), stream("json", path="s3a://b/c", max_record_bytes="5")):
        with pytest.raises(CatalogError, match="cannot have the option"):
            limit_of(source)
