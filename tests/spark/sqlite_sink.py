"""A sink that sends as a contributor would add it: sinks USING sqlite, which insert rows into a database.

The key of the table is (family, batch, position): rows that are sent again are ignored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from eddyline.errors import CatalogError
from eddyline.spark.output.sending import Sending, SendingSink
from eddyline.sql.catalog import Sink

TABLE = "CREATE TABLE IF NOT EXISTS changes (family, batch, position, query, op, PRIMARY KEY (family, batch, position))"


class Sqlite(SendingSink):
    options = ("database",)

    def check(self, sink: Sink, options: Mapping[str, str]) -> None:
        if "database" not in options:
            raise CatalogError(f"The sink {sink.name!r} has no database.", hint="OPTIONS (database '…').")

    def send(self, rows: Sending) -> None:
        changes = [(rows.folder, *r) for t in rows.tables() for r in _plain(t.to_pylist())]
        connection = sqlite3.connect(rows.options["database"])
        with connection:
            connection.execute(TABLE)
            connection.executemany("INSERT OR IGNORE INTO changes VALUES (?, ?, ?, ?, ?)", changes)
        connection.close()


def _plain(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [tuple(r[column] for column in ("batch", "position", "query", "op")) for r in rows]


SQLITE = Sqlite()
