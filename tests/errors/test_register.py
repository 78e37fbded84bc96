"""Tables of queries that do not fit their family, and lists of names to drop, are refused whole."""

from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import eddyline
from eddyline.local.connection import Connection
from tests.errors.state import connection, fingerprint

GOOD = {"query": "n1", "lo": 1.0, "hi": 2.0}


@pytest.fixture(scope="module")
def db() -> Connection:
    """One connection for all: what is refused leaves it as it was."""
    return connection()


def refused(db: Connection, family: Any, table: Any, *words: str) -> None:
    before = fingerprint(db)
    with pytest.raises(eddyline.Error) as caught:
        db.register(family, table)
    for word in words:
        assert word in f"{caught.value.message} {caught.value.hint or ''}"
    assert fingerprint(db) == before


@pytest.mark.parametrize(
    ("column", "value", "word"),
    [
        ("query", None, "missing"),
        ("query", 5, "mixes int and str"),
        ("query", 5.5, "mixes float and str"),
        ("query", True, "mixes bool and str"),
        ("query", b"n2", "text"),
        ("query", "", "empty"),
        ("query", "n1", "'n1'"),
        ("query", "u1", "'u1'"),
        ("query", "q1", "'q1'"),
        ("query", "totals", "'totals'"),
        ("query", "alert", "family"),
        ("query", "ALERT", "family"),
        ("query", "\ud800", "'query'"),
        ("lo", "1", "'lo'"),
        ("lo", True, "'lo'"),
        ("lo", [1.0], "'lo'"),
        ("lo", timedelta(1), "'lo'"),
        ("lo", 2**70, "'lo'"),
        ("lo", object(), "'lo'"),
    ],
)
def test_one_bad_row_registers_nothing(db: Connection, column: str, value: Any, word: str) -> None:
    bad = {**GOOD, "query": "n2", column: value}
    refused(db, "alert", [GOOD, bad], word)
    refused(db, "alert", [bad, GOOD], word)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("query", pa.array([1, 2])),
        ("query", pa.array([b"n1", b"n2"])),
        ("query", pa.array(["n1", None])),
        ("query", pa.array(["n1", "n1"])),
        ("query", pa.array(["n1", "n1"]).dictionary_encode()),
        ("query", pa.nulls(2)),
        ("lo", pa.array(["1", "2"])),
        ("lo", pa.array([True, False])),
        ("lo", pa.array([1, 2], pa.timestamp("us"))),
        ("lo", pa.array([[1.0], [2.0]])),
    ],
)
def test_an_arrow_column_of_the_wrong_kind_is_refused(db: Connection, column: str, values: pa.Array) -> None:
    table = pa.table({"query": ["n1", "n2"], "lo": [1.0, 2.0], "hi": [1.0, 2.0]})
    refused(db, "alert", table.set_column(table.column_names.index(column), column, values))


def test_missing_extra_and_doubled_columns_are_named(db: Connection) -> None:
    table = pa.table({"query": ["n1"], "lo": [1.0], "hi": [2.0]})
    for column in table.column_names:
        refused(db, "alert", table.drop_columns([column]), f"lacks column {column!r}")
    refused(db, "alert", table.append_column("low", pa.array([1.0])), "'low'", "'lo'")
    refused(db, "alert", table.append_column("lo", pa.array([1.0])), "'lo' twice")
    refused(db, "alert", table.append_column("LO", pa.array([1.0])), "'lo' twice")
    refused(db, "alert", table.append_column("Query", pa.array(["n2"])), "twice")
    refused(db, "alert", [GOOD, {"query": "n2", "lo": 1.0}], "'hi'")
    refused(db, "alert", [{"query": "n2", "lo": 1.0}, GOOD], "'hi'")
    refused(db, "alert", [GOOD, {**GOOD, "query": "n2", "extra": 1}], "'extra'")


@pytest.mark.parametrize("table", [None, 5, "n1", b"n1", object(), [5], [None], ["n1"], [GOOD, 5], {}, {"query": "n1"}])
def test_what_is_not_a_table_of_queries_is_refused(db: Connection, table: Any) -> None:
    refused(db, "alert", table)


def test_only_declared_families_take_tables(db: Connection) -> None:
    refused(db, "alerts", [GOOD], "'alerts'", "'alert'")
    refused(db, "nothing", [GOOD], "'nothing'")
    refused(db, None, [GOOD], "None")
    refused(db, 5, [GOOD], "5")
    refused(db, "family_4", [GOOD], "declared")
    refused(db, "view totals", [GOOD], "declared")
    refused(db, "q1", [GOOD], "'q1'")


@pytest.mark.parametrize(
    ("w", "n", "word"),
    [(-1, 1, "'w'"), (None, 1, "'w'"), (1, -1, "'n'"), (1, None, "'n'"), (1, 2**62, "'n'"), (1.5, 1, "'w'")],
)
def test_a_window_needs_a_size(db: Connection, w: Any, n: Any, word: str) -> None:
    good = {"query": "n1", "w": 1, "n": 1}
    refused(db, "recent", [good, {"query": "n2", "w": w, "n": n}], word)


def test_forms_of_one_table_mean_the_same() -> None:
    table = pa.table({"query": ["n1", "n2"], "lo": [1.0, 3.0], "hi": [5.0, 4.0]})
    forms: list[Any] = [
        table,
        table.select(["hi", "query", "lo"]),
        table.rename_columns(["QUERY", "Lo", "hI"]),
        table.to_pandas(),
        table.to_pylist(),
        table.to_pydict(),
        table.to_batches()[0],
        table.set_column(0, "query", table["query"].combine_chunks().dictionary_encode()),
        table.set_column(0, "query", table["query"].cast(pa.large_string())),
        table.set_column(1, "lo", pa.array([1, 3])),
        table.set_column(1, "lo", pa.array([1.0, 3.0], pa.float32())),
        table.to_pandas().astype({"query": "category"}),
        {name: np.array(table[name].to_pylist()) for name in ("lo", "hi")} | {"query": ["n1", "n2"]},
    ]
    first = None
    for form in forms:
        db = connection()
        db.register("alert", form)
        found = db.registry.named("alert").queries.save().to_pydict()
        assert first is None or found == first, form
        first = found
    assert first is not None and first["query"] == ["u1", "u2", "n1", "n2"]


@pytest.mark.parametrize(
    ("names", "word"),
    [
        (["u1", "nothing"], "'nothing'"),
        (["nothing", "u1"], "'nothing'"),
        (["u1", "q1"], "'q1'"),
        (["u1", "r1"], "'r1'"),
        (["u1", None], "missing"),
        (["u1", ""], "empty"),
        (["u1", 5], "text"),
        ([5], "text"),
        ("u1", "['u1']"),
        (None, "list"),
        (5, "list"),
        ([["u1"]], "text"),
        (pa.array([1, 2]), "text"),
        (pa.array(["u1", None]), "missing"),
        (pd.Series(["u1", "nothing"]), "'nothing'"),
        (["u1", "\ud800"], "text"),
        (["U1"], "'U1'"),
    ],
)
def test_a_bad_list_of_names_drops_nothing(db: Connection, names: Any, word: str) -> None:
    before = fingerprint(db)
    with pytest.raises(eddyline.Error) as caught:
        db.drop("alert", names)
    assert word in f"{caught.value.message} {caught.value.hint or ''}"
    assert fingerprint(db) == before


def test_queries_are_dropped_only_from_their_own_family(db: Connection) -> None:
    before = fingerprint(db)
    for family, names in (("nothing", ["u1"]), (None, ["u1"]), ("recent", ["u1"]), ("view totals", ["totals"])):
        with pytest.raises(eddyline.CatalogError):
            db.drop(family, names)  # type: ignore[arg-type]
    assert fingerprint(db) == before


def test_a_name_is_free_again_after_its_query_is_dropped() -> None:
    db = connection()
    db.drop("alert", ["u1", "u1"])
    db.register("alert", [{"query": "u1", "lo": 7.0, "hi": 8.0}])
    assert db.registry.named("alert").queries.save()["query"].to_pylist() == ["u2", "u1"]


def test_a_text_cannot_take_a_name_by_the_fast_path() -> None:
    db = connection()
    db.execute("CREATE CONTINUOUS QUERY known AS SELECT symbol FROM trades WHERE price > 1.5")
    before = fingerprint(db)
    for name, word in (
        ("q1", "'q1'"),
        ("u1", "'u1'"),
        ("alert", "family"),
        ("known", "'known'"),
        ("totals", "'totals'"),
    ):
        with pytest.raises(eddyline.CatalogError, match=word):
            db.execute(f"CREATE CONTINUOUS QUERY {name} AS SELECT symbol FROM trades WHERE price > 2.5")
        assert fingerprint(db) == before
