"""The archive of Spark's classes from which a local JVM starts, in about half the time (Java's class data sharing).

A JVM writes it when it ends, at the end of the short run of `eddyline doctor --warm`. One of another version, or with
other jars, sees that it does not fit and loads its classes as ever.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pyspark

from eddyline.index.kernel_cache import cache_folder


def class_archive() -> Path | None:
    """Where the archive is kept, of this Java and this Spark; None if there is no place for it."""
    home = cache_folder()
    java = os.environ.get("JAVA_HOME") or shutil.which("java")
    name = hashlib.sha256(f"{java} {pyspark.__file__} {pyspark.__version__}".encode()).hexdigest()[:16]
    return None if home is None else home / "spark-classes" / f"{name}.jsa"


def reading_options() -> list[str]:
    """Options of a JVM that is to start from the archive; none if there is no archive."""
    archive = class_archive()
    return [] if archive is None or not archive.exists() else [f'"-XX:SharedArchiveFile={archive}"', "-Xlog:cds*=off"]


def writing_options(archive: Path) -> list[str]:
    """Options of a JVM that is to write an archive."""
    return [f'"-XX:ArchiveClassesAtExit={archive}"', "-Xlog:cds*=off"]
