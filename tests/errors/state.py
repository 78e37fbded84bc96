"""A connection with one of everything, and a fingerprint of all that a statement or a push could change."""

from typing import Any

import eddyline
from eddyline.local.connection import Connection

SETUP = """
CREATE STREAM trades (symbol STRING, price DOUBLE, qty INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 5 SECONDS;
CREATE STREAM quotes (symbol STRING, bid DOUBLE, ask FLOAT, fresh BOOLEAN, day DATE, ts TIMESTAMP) WATERMARK ts;
CREATE TABLE companies (symbol STRING PRIMARY KEY, name STRING, size BIGINT);
CREATE TABLE limits (symbol STRING, lo DOUBLE, since TIMESTAMP, span INTERVAL) NON RETROACTIVE;
CREATE TABLE pairs (a INT, b INT, c STRING, PRIMARY KEY (a, b));
CREATE QUERY FAMILY alert (lo DOUBLE, hi DOUBLE) AS SELECT symbol, price FROM trades WHERE price BETWEEN :lo AND :hi;
CREATE QUERY FAMILY recent (w INT, n BIGINT) AS
  SELECT t.symbol, q.bid FROM trades [RANGE :w SECONDS] t JOIN quotes [ROWS :n] q ON t.symbol = q.symbol;
CREATE MATERIALIZED VIEW totals AS SELECT symbol, SUM(qty) AS total FROM trades GROUP BY symbol;
INSERT INTO companies VALUES ('A', 'Alpha', 10), ('B', 'Beta', 20);
INSERT INTO pairs VALUES (1, 1, 'x'), (1, 2, 'y');
CREATE CONTINUOUS QUERY q1 AS SELECT symbol, price FROM trades WHERE price > 10;
CREATE CONTINUOUS QUERY q2 AS SELECT t.symbol, c.name FROM trades t JOIN companies c ON t.symbol = c.symbol;
CREATE SINK out USING parquet OPTIONS (path 'out') FOR alert, q1;
"""


def connection() -> Connection:
    db = eddyline.connect()
    db.function("twice", lambda x: 2 * x, ["DOUBLE"], "DOUBLE")
    db.execute(SETUP)
    db.register("alert", [{"query": "u1", "lo": 1.0, "hi": 5.0}, {"query": "u2", "lo": 4.0, "hi": 9.0}])
    db.register("recent", [{"query": "r1", "w": 10, "n": 2}])
    db.push(
        "trades",
        [
            {"symbol": "A", "price": 4.5, "qty": 3, "ts": "2026-01-01 00:00:10"},
            {"symbol": "B", "price": 12.5, "qty": 1, "ts": "2026-01-01 00:00:01"},
        ],
    )
    return db


def fingerprint(db: Connection) -> tuple[Any, ...]:
    """Equal before and after exactly if nothing that a user could see has changed."""
    catalog = db.catalog
    spaces = (catalog.streams, catalog.tables, catalog.views, catalog.sinks, catalog.functions)
    return (
        catalog.version,
        [sorted(space.names()) for space in spaces],
        [(s.name, repr(s.fields), s.time, s.delay) for s in catalog.streams],
        [(x.name, repr(x.fields), x.key, x.retroactive) for x in catalog.tables],
        [
            (f.name, f.kind, dict(f.options), f.queries.next_id, f.queries.save().to_pydict(), len(f.queries))
            for f in db.registry
        ],
        len(db.registry.names),
        sorted(db.engine.running),
        [(n, r.clock, r.changes, r.state_rows(), r.shared_rows()) for n, r in sorted(db.engine.running.items())],
        {name: rows.to_arrow().to_pydict() for name, rows in db.definitions.tables.items()},
        {name: (c.high, c.floor, c.arrived, c.late) for name, c in db.engine.clocks.streams.items()},
        {name: len(log) for name, log in db.engine.store.logs.items() if len(log)},
        {name: sum(len(p[0]) for p in parts) for name, parts in db.set_apart.items()},
        db.engine.arrivals,
        db.engine.clocks.advanced,
    )
