"""The doctor's checks, each driven with what it looks at: a fake `java`, a version, a number of bytes."""

from importlib import metadata
from pathlib import Path

import pytest

from eddyline import doctor


def fake_java(directory: Path, version: str) -> None:
    """A `java` that says only which version it is, on stderr as the real one does."""
    directory.mkdir(parents=True, exist_ok=True)
    script = directory / "java"
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    script.chmod(0o755)


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.2", "25-ea"])
def test_java_17_and_later_on_the_path_is_ok(tmp_path: Path, version: str) -> None:
    fake_java(tmp_path, version)
    finding = doctor.java({"PATH": str(tmp_path)})
    assert finding == doctor.Finding("Java", f"{version} ({tmp_path / 'java'})", "ok", "")


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.22", "16.0.2"])
def test_java_before_17_is_old_and_the_remedy_names_17(tmp_path: Path, version: str) -> None:
    fake_java(tmp_path, version)
    finding = doctor.java({"PATH": str(tmp_path)})
    assert finding.status == "old"
    assert finding.found.startswith(version)
    assert "Java 17" in finding.remedy


def test_no_java_is_missing_and_the_remedy_names_a_package(tmp_path: Path) -> None:
    finding = doctor.java({"PATH": str(tmp_path)})
    assert finding.status == "missing"
    assert "openjdk-17-jre-headless" in finding.remedy


def test_java_home_wins_over_the_path_as_it_does_for_spark(tmp_path: Path) -> None:
    fake_java(tmp_path / "path", "21.0.2")
    fake_java(tmp_path / "home" / "bin", "11.0.22")
    finding = doctor.java({"PATH": str(tmp_path / "path"), "JAVA_HOME": str(tmp_path / "home")})
    assert finding.status == "old"
    assert "JAVA_HOME" in finding.remedy


def test_a_java_home_without_java_is_missing_even_if_the_path_has_one(tmp_path: Path) -> None:
    fake_java(tmp_path / "path", "21.0.2")
    finding = doctor.java({"PATH": str(tmp_path / "path"), "JAVA_HOME": str(tmp_path / "empty")})
    assert finding.status == "missing"
    assert "JAVA_HOME" in finding.remedy


def test_a_java_that_fails_is_missing(tmp_path: Path) -> None:
    script = tmp_path / "java"
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    assert doctor.java({"PATH": str(tmp_path)}).status == "missing"


@pytest.mark.parametrize(("version", "status"), [((3, 10, 14), "old"), ((3, 11, 0), "ok"), ((3, 14, 1), "ok")])
def test_python_is_ok_from_3_11_on(version: tuple[int, ...], status: str) -> None:
    assert doctor.python(version).status == status


@pytest.mark.parametrize(
    ("version", "bounds", "expected"),
    [
        ("2.4.6", "==2.4.6", True),
        ("2.4.7", "==2.4.6", False),
        ("2.10.0", ">=2.9", True),
        ("6", ">=6.0,<8", True),
        ("7.36.2", "<8,>=6", True),
        ("8.0.0", "<8,>=6", False),
        ("5.29", "<8,>=6", False),
        ("1.0", "", True),
    ],
)
def test_a_version_fits_when_it_meets_every_bound(version: str, bounds: str, expected: bool) -> None:
    assert doctor.fits(version, bounds) is expected


def test_a_bound_of_an_unknown_kind_is_an_error_and_not_a_guess() -> None:
    with pytest.raises(ValueError, match="not understood"):
        doctor.fits("2.1", "~=2.0")


def test_a_package_that_is_not_installed_is_missing_and_the_remedy_installs_it() -> None:
    finding = doctor.package("no-such-package==1.2")
    assert (finding.name, finding.status) == ("no-such-package", "missing")
    assert "no-such-package==1.2" in finding.remedy


def test_a_package_in_another_version_is_old_and_shows_what_was_found() -> None:
    finding = doctor.package("numpy==0.1")
    assert (finding.status, finding.found) == ("old", metadata.version("numpy"))
    assert "numpy==0.1" in finding.remedy


def test_pyspark_is_reported_as_spark() -> None:
    assert doctor.package(f"pyspark=={metadata.version('pyspark')}").name == "Spark"


def test_a_distribution_that_is_not_installed_is_one_finding() -> None:
    assert [finding.status for finding in doctor.packages("no-such-package")] == ["missing"]


def test_memory_below_the_need_of_spark_is_missing() -> None:
    assert doctor.memory(doctor.MIN_MEMORY).status == "ok"
    assert doctor.memory(doctor.MIN_MEMORY - 1).status == "missing"


def test_a_container_limit_lowers_the_memory(tmp_path: Path) -> None:
    unlimited, limited = tmp_path / "unlimited", tmp_path / "limited"
    unlimited.write_text("max\n")
    limited.write_text("1048576\n")
    assert doctor.available_memory(limited) == 1048576
    assert doctor.available_memory(unlimited) == doctor.available_memory(tmp_path / "absent") > 1048576


def test_the_report_covers_every_requirement_and_the_locked_packages_fit(tmp_path: Path) -> None:
    findings = {finding.name: finding for finding in doctor.report({"PATH": str(tmp_path)})}
    assert {"Python", "Java", "Spark", "numpy", "pyarrow", "protobuf", "memory", "cores"} <= findings.keys()
    packages = findings.keys() - {"Python", "Java", "memory", "cores"}
    assert {findings[name].status for name in packages} == {"ok"}
    assert findings["Java"].status == "missing"


def test_a_finding_has_a_remedy_exactly_when_it_is_not_ok(tmp_path: Path) -> None:
    for finding in doctor.report({"PATH": str(tmp_path)}):
        assert (finding.remedy == "") == (finding.status == "ok"), finding


def test_what_only_an_extra_requires_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    required = ["numpy>=2.1,<3", "pyspark[connect]<4.4,>=4.3; extra == 'connect'"]
    monkeypatch.setattr(doctor.metadata, "requires", lambda _: required)
    assert [f.name for f in doctor.packages("eddyline")] == ["numpy"]
