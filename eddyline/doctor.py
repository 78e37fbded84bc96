"""What this machine offers against what Eddyline needs: Python, Java, Spark, packages, memory, cores.

Each check is a function of what it looks at (an environment, a version, a number of bytes) and gives one `Finding`;
`report` applies them to the running process. Nothing is imported to be checked: versions come from package metadata,
and Java is asked by `java -version`, so the report also works where Spark could not start.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

MIN_PYTHON = (3, 11)
MIN_JAVA = 17
MIN_MEMORY = 2 << 30  # Spark's driver takes 1 GiB of heap; the Python workers need room beside it

Status = Literal["ok", "missing", "old"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked for. `old` means: there, but not in a version that fits. `remedy` is empty when ok."""

    name: str
    found: str
    status: Status
    remedy: str = ""


def report(environ: Mapping[str, str] = os.environ) -> list[Finding]:
    """Every finding about this process and machine, in the order in which to mend them."""
    return [
        python(sys.version_info[:3]),
        java(environ),
        *packages("eddyline"),
        memory(available_memory()),
        cores(len(os.sched_getaffinity(0))),
    ]


def python(version: tuple[int, ...]) -> Finding:
    found = ".".join(map(str, version))
    if version >= MIN_PYTHON:
        return Finding("Python", found, "ok")
    return Finding("Python", found, "old", f"Install Python {'.'.join(map(str, MIN_PYTHON))} or later.")


def java(environ: Mapping[str, str]) -> Finding:
    """The Java that Spark would start: the one in JAVA_HOME if that is set, and only otherwise the one on PATH."""
    home = environ.get("JAVA_HOME")
    path = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ.get("PATH", ""))
    version = java_version(path) if path else None
    if home:
        remedy = f"Set JAVA_HOME to a Java {MIN_JAVA} or later, or unset it to use the java on PATH."
    else:
        remedy = f"Install Java {MIN_JAVA} or later (Debian, Ubuntu: apt-get install openjdk-{MIN_JAVA}-jre-headless)."
    if version is None:
        return Finding("Java", f"none in {home}" if home else "none on PATH", "missing", remedy)
    if java_major(version) < MIN_JAVA:
        return Finding("Java", f"{version} ({path})", "old", remedy)
    return Finding("Java", f"{version} ({path})", "ok")


def java_version(path: str) -> str | None:
    """What `java -version` calls itself, such as 17.0.15 or 1.8.0_392; None if it does not run or does not say."""
    try:
        answer = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    quoted = re.search(r'version "(\d[^"]*)"', answer.stderr + answer.stdout)
    return quoted[1] if quoted else None


def java_major(version: str) -> int:
    """17 for 17.0.15; 8 for 1.8.0_392, as versions were written before Java 9."""
    numbers = release(version)
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def packages(distribution: str) -> list[Finding]:
    """One finding for each package that the installed distribution requires, Spark first; extras are left out."""
    try:
        requirements = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:
        return [Finding(distribution, "not installed", "missing", "Install it from its checkout: pip install -e .")]
    required = [package(requirement) for requirement in requirements if "extra ==" not in requirement]
    return sorted(required, key=lambda f: (f.name != "Spark", f.name))


def package(requirement: str) -> Finding:
    """The installed version against a requirement such as `numpy==2.4.6` or `protobuf<8,>=6`."""
    name = re.match(r"[\w.-]+", requirement)
    if name is None:
        raise ValueError(f"not a requirement: {requirement!r}")
    label = "Spark" if name[0] == "pyspark" else name[0]
    remedy = f"pip install '{requirement}'"
    try:
        version = metadata.version(name[0])
    except metadata.PackageNotFoundError:
        return Finding(label, "not installed", "missing", remedy)
    if fits(version, requirement[name.end() :]):
        return Finding(label, version, "ok")
    return Finding(label, version, "old", remedy)


def fits(version: str, specifiers: str) -> bool:
    """Whether a version meets all of the comma-separated bounds, each of them `==`, `>=` or `<`."""
    have = release(version)
    for bound in filter(None, specifiers.replace(" ", "").split(",")):
        if bound.startswith("=="):
            met = have == release(bound[2:])
        elif bound.startswith(">="):
            met = have >= release(bound[2:])
        elif bound.startswith("<") and bound[1:2].isdigit():
            met = have < release(bound[1:])
        else:
            raise ValueError(f"a bound that is not understood: {bound!r}")
        if not met:
            return False
    return True


def release(version: str) -> tuple[int, ...]:
    """The leading numbers of a version without zeros at the end: (2, 4, 6) for 2.4.6rc1, (6,) for 6.0."""
    numbers = re.match(r"\d+(\.\d+)*", version)
    if numbers is None:
        raise ValueError(f"not a version: {version!r}")
    return tuple(map(int, re.sub(r"(\.0+)+$", "", numbers[0]).split(".")))


def memory(size: int) -> Finding:
    found = f"{size / (1 << 30):.1f} GiB"
    if size >= MIN_MEMORY:
        return Finding("memory", found, "ok")
    return Finding("memory", found, "missing", f"Give this machine or container {MIN_MEMORY >> 30} GiB or more.")


def available_memory(limit: Path = Path("/sys/fs/cgroup/memory.max")) -> int:
    """Bytes of physical memory, or the container's limit where that is lower."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    text = limit.read_text().strip() if limit.exists() else "max"
    return physical if text == "max" else min(physical, int(text))


def cores(count: int) -> Finding:
    """One core is enough to run; the number says how far the work can spread."""
    return Finding("cores", str(count), "ok")
