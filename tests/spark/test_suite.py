"""The SQL cases on Spark give the rows that their files expect."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.suite_host import OnSpark
from tests.sql.suite import Outcome, check, check_late, load, worlds

WORLDS = [folder for folder in worlds() if not load(folder)[0].only_in_process]


def check_world(folder: Path, outcome: Outcome) -> None:
    world, cases = load(folder)
    wrong = []
    for case in cases:
        try:
            check(world, case, outcome)
        except AssertionError as e:
            wrong.append(str(e))
    for stream in world.streams:
        check_late(world, stream, outcome)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("folder", WORLDS, ids=lambda folder: folder.name)
def test_all_cases_of_a_world_give_what_their_files_expect(folder: Path, spark: SparkSession, tmp_path: Path) -> None:
    check_world(folder, OnSpark(spark, tmp_path).run(*load(folder)))
