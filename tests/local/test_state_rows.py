"""Rows of state: those of one family, and those of logs and tables, which families share and which count once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.local.common import row, world

TABLE = "SELECT s.b, t.n FROM s [RANGE 60 SECONDS], t WHERE s.a = t.a"
PAIR = "SELECT x.b FROM r [RANGE 60 SECONDS] AS x, s [RANGE 60 SECONDS] AS y WHERE x.a = y.a"
SELF = "SELECT x.b FROM s [RANGE 60 SECONDS] AS x, s [RANGE 60 SECONDS] AS y WHERE x.a = y.b"
COUNT = "SELECT b FROM s [ROWS 100]"
GROUP = "SELECT a, COUNT(*) AS n FROM s [RANGE 60 SECONDS] GROUP BY a"


def pushed(*texts: str, **options: Any) -> Any:
    """A connection with these queries, 10 rows of the stream r, 20 of s, and 3 of the table t."""
    db: Any = world(**options)
    for i, text in enumerate(texts):
        db.execute(f"CREATE CONTINUOUS QUERY q{i} WITH (snapshot = 'no') AS {text}")
    db.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z')")
    db.push({"r": [row(1, a=i, b=i) for i in range(10)], "s": [row(1, a=i, b=i) for i in range(20)]})
    return db


@pytest.mark.parametrize(
    ("text", "shared_rows"), [(TABLE, 23), (PAIR, 30), (SELF, 20), (COUNT, 20), (GROUP, 0)], ids=lambda x: str(x)[:40]
)
def test_a_family_tells_its_own_rows_from_those_that_it_shares(text: str, shared_rows: int) -> None:
    db = pushed(text)
    (figures,) = db.stats()["families"].values()
    assert figures["shared_rows"] == shared_rows
    assert (figures["state_rows"] > 0) == (text == GROUP)
    explained = db.explain("q0", analyze=True)
    assert f"rows of state: {figures['state_rows']}  shared rows: {shared_rows}" in explained


def test_in_total_each_log_and_each_table_counts_once() -> None:
    db = pushed(TABLE, PAIR, f"{PAIR} AND x.b > 3", SELF, COUNT, GROUP)
    stats = db.stats()
    families = stats["families"].values()
    assert stats["state_rows"] == sum(f["state_rows"] for f in families)
    assert stats["shared_rows"] == 10 + 20 + 3
    assert sum(f["shared_rows"] for f in families) == 23 + 30 + 30 + 20 + 20


def test_the_inputs_of_a_join_say_whether_their_rows_are_shared() -> None:
    plan = pushed(TABLE).explain("q0", analyze=True)
    assert "input 1 reads 20 rows in" in plan and "input 2 reads 3 rows in" in plan and "of shared state" in plan


def test_logs_of_a_join_that_shares_none_are_rows_of_its_family() -> None:
    """Under clock = 'max', a tuple may be visible to one join and not to another."""
    db = pushed(PAIR, clock="max")
    (figures,) = db.stats()["families"].values()
    assert (figures["state_rows"], figures["shared_rows"]) == (30, 0)
    assert db.stats()["shared_rows"] == 3, "the table, which no query reads"
