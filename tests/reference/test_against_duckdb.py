"""On contents that do not change, the reference gives what DuckDB gives."""

import os
from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import HealthCheck, given, note, settings

from eddyline.reference import canonical, evaluate
from eddyline.reference.relational import Item
from eddyline.sql.bound import BoundQuery, StreamSource, TableSource
from tests.reference.duckdb_sql import NAMES, literal, statement
from tests.reference.random_queries import TABLES, Database, databases, projections, queries

EXAMPLES = 5000 if os.environ.get("EDDYLINE_NIGHTLY") == "1" else 300
PROFILE = settings(
    max_examples=EXAMPLES,
    deadline=None,
    print_blob=True,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.execute("PRAGMA disable_optimizer")  # in 2.0.0 it fails to rewrite some conditions with NULL
        yield connection


def fill(duck: duckdb.DuckDBPyConnection, data: Database) -> None:
    for name, fields in TABLES.items():
        duck.execute(f"CREATE OR REPLACE TABLE {name} ({', '.join(f'{f.name} {NAMES[f.type]}' for f in fields)})")
        rows = [[literal(v, f.type) for v, f in zip(row, fields, strict=True)] for row in data[name]]
        if rows:
            duck.execute(f"INSERT INTO {name} VALUES " + ", ".join(f"({', '.join(row)})" for row in rows))


def agree(duck: duckdb.DuckDBPyConnection, data: Database, bound: BoundQuery) -> None:
    def contents(source: StreamSource | TableSource, _: int | None) -> list[Item]:
        assert isinstance(source, TableSource)
        return [(row, None) for row in data[source.table]]

    sql = statement(bound.query, bound.values)
    note(sql)
    fill(duck, data)
    theirs = Counter(canonical(row) for row in duck.execute(sql).fetchall())
    assert evaluate(bound.query, contents, bound.values) == theirs


@PROFILE
@given(databases(), queries())
def test_a_random_query_gives_the_same_bag_of_rows(
    duck: duckdb.DuckDBPyConnection, data: Database, bound: BoundQuery
) -> None:
    agree(duck, data, bound)


@PROFILE
@given(databases(12), projections())
def test_random_expressions_have_the_same_values(
    duck: duckdb.DuckDBPyConnection, data: Database, bound: BoundQuery
) -> None:
    agree(duck, data, bound)
