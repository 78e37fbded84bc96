"""Random damage to valid statements: each runs or is refused with a place, and what is refused changes nothing."""

import os
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import eddyline
from eddyline.local.connection import Connection
from tests.errors.state import connection, fingerprint

QUERIES = [
    "SELECT symbol, price FROM trades WHERE price > 10.5",
    "SELECT * FROM trades [ROWS 3] t WHERE t.qty IN (1, 2, 3) AND NOT t.symbol LIKE 'a%'",
    "SELECT t.*, q.bid FROM trades [NOW] AS t JOIN quotes [NOW] AS q USING (symbol)",
    "SELECT t.symbol FROM trades t, quotes q WHERE t.price - q.bid BETWEEN -1 AND 1.5",
    "SELECT t.symbol FROM trades t JOIN quotes q ON abs(t.ts - q.ts) <= INTERVAL 2 SECONDS",
    "SELECT DISTINCT symbol FROM trades [RANGE 1 HOUR]",
    "SELECT symbol, COUNT(*) AS n, SUM(price * qty) FROM trades GROUP BY symbol",
    "SELECT symbol, AVG(price) FROM trades GROUP BY 1 HAVING MIN(qty) > 2 AND MAX(qty) < 9",
    "SELECT floor(price / 10) AS k, COUNT(qty) FROM trades GROUP BY floor(price / 10)",
    "SELECT symbol FROM trades UNION ALL SELECT symbol FROM quotes",
    "SELECT symbol FROM trades EXCEPT ALL SELECT symbol FROM quotes WHERE fresh",
    "(SELECT symbol FROM trades INTERSECT SELECT symbol FROM quotes) UNION SELECT 'a' FROM trades",
    "SELECT y.s FROM (SELECT symbol, SUM(qty) FROM trades GROUP BY symbol) y (s, n) WHERE n > 3",
    "WITH a AS (SELECT symbol FROM trades), b (c) AS (SELECT symbol FROM a) SELECT c FROM b",
    "SELECT CASE WHEN price > 5 THEN 'high' WHEN price IS NULL THEN NULL ELSE 'low' END FROM trades",
    "SELECT CASE qty WHEN 1 THEN 2.5 ELSE 3 END, if(fresh, 1, 2) FROM trades, quotes",
    "SELECT CAST(price AS INT), CAST('2026-01-01' AS DATE), qty::BIGINT FROM trades",
    "SELECT upper(symbol) || lower(symbol), length(symbol), concat(symbol, 1) FROM trades",
    "SELECT round(price, 2), ceil(price), sqrt(price), twice(price), coalesce(qty, 0) FROM trades",
    "SELECT least(price, qty), greatest(qty, 1), -qty, qty % 3 FROM trades WHERE ts > '2026-01-01'",
    "SELECT symbol FROM trades WHERE (price > 1 OR qty < 2) AND symbol IS NOT NULL",
    "SELECT ts + INTERVAL '5' MINUTE, ts - ts FROM trades WHERE ts <=> NULL OR TRUE IS NOT FALSE",
    "SELECT symbol, total FROM totals WHERE total > 5",
    "SELECT t.symbol, l.lo FROM trades t JOIN limits l ON t.symbol = l.symbol AND t.price > l.lo",
    "SELECT `symbol` AS `a b` FROM `trades` WHERE symbol = 'it''s' -- the end",
]
VALID = [
    *(f"CREATE CONTINUOUS QUERY x AS {query}" for query in QUERIES),
    "CREATE STREAM s (a INT, b STRING, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 5 SECONDS",
    "CREATE STREAM s (a VARCHAR(10), ts TIMESTAMP) WATERMARK ts USING parquet OPTIONS (path 'data', `x.y` = 'z')",
    "CREATE TABLE t (a INT PRIMARY KEY, b DOUBLE, c BOOLEAN, d DATE, e INTERVAL)",
    "CREATE TABLE t (a INT, b STRING, PRIMARY KEY (a, b)) NON RETROACTIVE USING csv OPTIONS (header true)",
    "CREATE CONTINUOUS QUERY x WITH (emit = 'all') AS SELECT symbol FROM trades [RANGE 5 SECONDS]",
    "CREATE QUERY FAMILY f (lo DOUBLE, s STRING) AS SELECT symbol FROM trades WHERE price > :lo AND symbol = :s",
    "CREATE QUERY FAMILY f (w DOUBLE, n BIGINT) AS SELECT bid FROM trades [RANGE :w MINUTES], quotes [ROWS :n]",
    "CREATE QUERY FAMILY f WITH (emit = all) AS SELECT symbol FROM trades WHERE price > 5",
    "CREATE MATERIALIZED VIEW v REFRESH WITHIN INTERVAL 2 SECONDS AS SELECT symbol, COUNT(*) FROM trades GROUP BY 1",
    "CREATE MATERIALIZED VIEW v AS SELECT name FROM companies",
    "CREATE SINK s USING parquet OPTIONS (path 'out') FOR alert, q1",
    "CREATE SINK s USING kafka OPTIONS ('kafka.bootstrap.servers' = 'x:1', topic 'y')",
    "DROP CONTINUOUS QUERY q1",
    "DROP CONTINUOUS QUERY IF EXISTS nothing",
    "DROP QUERY FAMILY recent",
    "DROP MATERIALIZED VIEW totals",
    "DROP SINK out",
    "DROP TABLE pairs",
    "DROP STREAM IF EXISTS nothing",
    "SHOW STREAMS",
    "SHOW TABLES",
    "SHOW QUERIES",
    "SHOW FAMILIES",
    "SHOW VIEWS; SHOW SINKS; SHOW FUNCTIONS",
    "EXPLAIN q1",
    "EXPLAIN ANALYZE alert",
    "SELECT * FROM companies WHERE size > 5",
    "SELECT c.symbol, p.a FROM companies c JOIN pairs p ON c.size > p.a",
    "SELECT total FROM totals",
    "WITH a AS (SELECT symbol FROM companies) SELECT COUNT(*) FROM a",
    "SELECT symbol FROM companies EXCEPT ALL (SELECT c FROM pairs)",
    "INSERT INTO companies VALUES ('C', 'Gamma', 30), ('D', NULL, 2 * 20 + 1)",
    "INSERT INTO companies (symbol, size) VALUES ('C', 30)",
    "INSERT INTO pairs SELECT 7, size, name FROM companies",
    "INSERT INTO trades VALUES ('A', 5.5, 2, '2026-01-01 00:00:30')",
    "INSERT INTO limits VALUES ('A', 1.5, TIMESTAMP '2026-01-01', INTERVAL 3 HOURS)",
    "UPDATE companies SET size = size + 1, name = upper(name) WHERE symbol IN ('A', 'B')",
    "UPDATE pairs SET c = NULL",
    "DELETE FROM companies WHERE size > 15 OR name LIKE 'A%'",
    "DELETE FROM pairs",
]
TOKEN = re.compile(r"\s+|'[^']*'|`[^`]*`|\w+|.", re.DOTALL)
WORDS = sorted({t for text in VALID for t in TOKEN.findall(text) if not t.isspace()})
CHARS = " \n'\"`;,.()[]{}:?!@#$%^&*-+=/\\|<>~0179aeXLS_\0\x07\u00a0\u200b\ud800é🙂²"
PER_EXAMPLE = 10
EXAMPLES = 2000 if os.environ.get("EDDYLINE_NIGHTLY") else 150


@st.composite
def damaged(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(VALID))
    for _ in range(draw(st.integers(1, 3))):
        tokens = TOKEN.findall(text)
        if not tokens:
            return text
        at = draw(st.integers(0, len(tokens) - 1))
        other = draw(st.integers(0, len(tokens) - 1))
        place = draw(st.integers(0, max(0, len(text) - 1)))
        match draw(st.integers(0, 9)):
            case 0:
                del tokens[at]
            case 1:
                tokens.insert(at, tokens[at] + " ")
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = draw(st.sampled_from(WORDS))
            case 4:
                tokens.insert(at, f" {draw(st.sampled_from(WORDS))} ")
            case 5:
                tokens = tokens[:at]
            case 6:
                spliced = TOKEN.findall(draw(st.sampled_from(VALID)))
                tokens = tokens[:at] + spliced[draw(st.integers(0, len(spliced) - 1)) :]
            case 7:
                tokens = [text[:place] + text[place + 1 :]]
            case 8:
                tokens = [text[:place] + draw(st.sampled_from(CHARS)) + text[place:]]
            case _:
                tokens = tokens[:at] + tokens[min(at, other) : max(at, other)] + tokens[at:]
        text = "".join(tokens)
    return text


def refused(db: Connection, text: str) -> bool:
    """Runs a text; if it is refused, checks how."""
    before = repr(fingerprint(db))
    single = ";" not in text
    try:
        db.execute(text)
    except eddyline.Error as e:
        assert e.place is not None
        assert f"line {e.place[0]}, column {e.place[1]}" in str(e)
        assert not single or repr(fingerprint(db)) == before
        return True
    fingerprint(db)
    return False


@pytest.mark.parametrize("text", VALID)
def test_the_statements_to_be_damaged_are_valid(text: str) -> None:
    assert not refused(connection(), text)


@given(st.lists(damaged(), min_size=PER_EXAMPLE, max_size=PER_EXAMPLE))
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
def test_damaged_statements_run_or_are_refused_and_never_crash(texts: list[str]) -> None:
    db = connection()
    for text in texts:
        if not refused(db, text):
            if db.catalog.streams.get("trades") is not None:
                db.push("trades", [{"symbol": "A", "price": 6.5, "qty": 2, "ts": "2026-01-01 00:00:40"}])
            db = connection()
