"""The archive of Spark's classes (Java's class data sharing), which halves the start time of a local JVM.

The JVM of `eddyline doctor --warm` writes it when it exits. A JVM of another version, or with other jars, ignores it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pyspark

from eddyline.index.runtime.kernel_cache import cache_folder


def class_archive() -> Path | None:
    """The file of the archive for this Java and this Spark; None if there is no cache folder."""
    home = cache_folder()
    java = os.environ.get("JAVA_HOME") or shutil.which("java")
    name = hashlib.sha256(f"{java} {pyspark.__file__} {pyspark.__version__}".encode()).hexdigest()[:16]
    return None if home is None else home / "spark-classes" / f"{name}.jsa"


def reading_options() -> list[str]:
    """The options of a JVM that starts from the archive; empty if there is none."""
    archive = class_archive()
    return [] if archive is None or not archive.exists() else [f'"-XX:SharedArchiveFile={archive}"', "-Xlog:cds*=off"]


def writing_options(archive: Path) -> list[str]:
    """The options of a JVM that writes an archive."""
    return [f'"-XX:ArchiveClassesAtExit={archive}"', "-Xlog:cds*=off"]
