"""Checks the script, the checkpoint and the paths of a pipeline before Spark is started, which takes long.

Nothing is changed. The script of a started checkpoint is rehearsed on its catalog; that of a new checkpoint is run on
an empty catalog.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from eddyline.errors import CatalogError
from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.catalog.externals import Rules
from eddyline.spark.catalog.overlaps import require_apart
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.input.listing import FILES as FILE_SOURCES
from eddyline.spark.input.listing import has_pattern, option_of
from eddyline.spark.output.places import local_path, require_usable_path, scheme_of
from eddyline.spark.run.checkpoint import catalog_of, check_catalog, fixed, script_text
from eddyline.spark.run.settings import has_begun, pipeline_file
from eddyline.sql.catalog import Catalog, Stream, Table
from eddyline.sql.parser import parse


def check(script: Path, folder: Path, allowed: Sequence[str] = ()) -> None:
    """Raises if there is a problem with the checkpoint, the script or the paths in it.

    `allowed` are options of sources and sinks that load code and may be given.
    """
    rules = Rules(allowed=allowed)
    known = fixed(folder)
    text = script_text(script)
    parse(text)
    if known is not None and has_begun(folder):
        pipeline_catalog = catalog_of(folder, rules)
        pipeline_catalog.warn = lambda _: None  # the pipeline warns again
        check_catalog(folder, pipeline_catalog.log)
        with pipeline_catalog.rehearsed(text):
            _check_paths(pipeline_catalog.catalog, folder)
        return
    with tempfile.TemporaryDirectory() as scratch:
        pipeline_catalog = PipelineCatalog(CommitLog(Path(scratch) / "eddyline" / "catalog"), rules)
        pipeline_catalog.warn = lambda _: None
        pipeline_catalog.run_script(text)
    if not len(pipeline_catalog.catalog.streams):
        raise CatalogError(
            f"The script {script.name!r} declares no stream.",
            hint="CREATE STREAM … (…) WATERMARK … USING parquet OPTIONS (path '…').",
        )
    for stream in pipeline_catalog.catalog.streams:
        if stream.external is None:
            raise CatalogError(
                f"The stream {stream.name!r} has no source.",
                hint=f"CREATE STREAM {stream.name} (…) WATERMARK … USING parquet OPTIONS (path '…').",
            )
    _check_paths(pipeline_catalog.catalog, folder)


def _check_paths(catalog: Catalog, folder: Path) -> None:
    require_apart([*catalog.streams, *catalog.tables, *catalog.sinks], folder, os.getcwd())
    for relation in (*catalog.streams, *catalog.tables):
        _check_source(relation)
    for sink in catalog.sinks:
        require_usable_path(sink, pipeline_file(folder), os.getcwd())


def _check_source(relation: Stream | Table) -> None:
    external = relation.external
    if external is None or external.format.lower() not in FILE_SOURCES:
        return
    what = f"{'stream' if isinstance(relation, Stream) else 'table'} {relation.name!r}"
    path = option_of(relation, "path")
    if path is None:
        raise CatalogError(f"The {what} has no path.", hint=f"USING {external.format} OPTIONS (path '…').")
    if scheme_of(path) not in ("", "file") or has_pattern(path):
        return  # only Spark can check it
    place = local_path(path, f"path of {what}").absolute()
    if not place.exists():
        hint = f"Make it, or correct the path in the script. Relative paths begin at {os.getcwd()}."
        raise CatalogError(f"The path of {what} does not exist: {str(place)!r}.", hint=hint)
    if not os.access(place, os.R_OK | (os.X_OK if place.is_dir() else 0)):
        raise CatalogError(f"The path of {what} cannot be read: {str(place)!r}.", hint="Change its permissions.")
