"""A CREATE that fails leaves nothing behind, wherever it fails; afterwards the same statement works."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import eddyline
from eddyline.local.connection import Connection
from tests.errors.state import connection, fingerprint

PLACES = {
    "planning": "eddyline.engine.family.optimize",
    "building operators": "eddyline.engine.running_family.build",
    "reading tables": "eddyline.engine.running_family.RunningFamily.run",
    "looking at the clock": "eddyline.engine.clocks.Clocks.of",
    "taking the name": "eddyline.session.query_names.QueryNames.take_one",
}
STATEMENTS = {
    "query": "CREATE CONTINUOUS QUERY new AS SELECT qty, size FROM trades t, companies c WHERE t.symbol = c.symbol",
    "family": "CREATE QUERY FAMILY new (lo BIGINT) AS SELECT name FROM companies WHERE size > :lo",
    "view": "CREATE MATERIALIZED VIEW new AS SELECT COUNT(*) AS n FROM companies",
}
DROP = {"query": "DROP CONTINUOUS QUERY new", "family": "DROP QUERY FAMILY new", "view": "DROP MATERIALIZED VIEW new"}


@pytest.fixture(scope="module")
def db() -> Connection:
    return connection()


@pytest.fixture(params=[MemoryError("no room"), RuntimeError("a bug"), KeyboardInterrupt()], ids=repr)
def raised(request: pytest.FixtureRequest) -> Iterator[BaseException]:
    yield request.param


@pytest.mark.parametrize("kind", STATEMENTS)
@pytest.mark.parametrize("place", PLACES)
def test_a_create_that_fails_leaves_nothing_behind(
    db: Connection, kind: str, place: str, raised: BaseException, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if kind == "family" and place == "taking the name":
        place = "building operators"  # a family has no query yet

    def fail(*_: Any, **__: Any) -> Any:
        raise raised

    before = fingerprint(db)
    with monkeypatch.context() as patch:
        patch.setattr(PLACES[place], fail)
        with pytest.raises((eddyline.Error, type(raised))) as error:
            db.execute(STATEMENTS[kind])
    if place not in ("planning", "taking the name") and isinstance(raised, Exception):
        assert isinstance(error.value, eddyline.FamilyError) and str(raised) in str(error.value)
    assert fingerprint(db)[1:] == before[1:]
    db.save(tmp_path / "saved")
    db.execute(STATEMENTS[kind])
    db.push("trades", [{"symbol": "A", "price": 4.5, "qty": 3, "ts": "2026-01-01 00:00:10"}])
    db.execute(DROP[kind])
    assert [f.name for f in db.registry] == [f[0] for f in before[4]]


def test_a_name_of_a_query_that_cannot_be_created_is_free_and_so_is_its_template(
    db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "CREATE CONTINUOUS QUERY {} AS SELECT symbol, qty FROM trades WHERE qty * 7 = {}"
    with monkeypatch.context() as patch:
        patch.setattr(PLACES["building operators"], lambda *_: 1 / 0)
        for name in ("one", "one", "two"):
            with pytest.raises(eddyline.FamilyError, match="ZeroDivisionError"):
                db.execute(text.format(name, 1))
            with pytest.raises(eddyline.CatalogError, match="no query"):
                db.snapshot(name)
    db.execute(text.format("one", 1))
    db.execute(text.format("two", 2))
    assert db.registry.query("one")[0] is db.registry.query("two")[0]
    db.execute("DROP CONTINUOUS QUERY one; DROP CONTINUOUS QUERY two")
