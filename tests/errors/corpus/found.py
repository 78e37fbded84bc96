"""What random mutations and reading of the code have found: each once raised something else, or was accepted."""

FOUND: list[tuple[str, str]] = [
    ("SELECT symbol FROM companies WHERE size = -CAST('x' AS INT)", "'x'"),
    (f"SELECT INTERVAL 1{'0' * 400} SECONDS FROM companies", "out of range"),
    ("SELECT INTERVAL 1e999999999 SECONDS FROM companies", "interval"),
    ("SELECT INTERVAL 'x' SECONDS FROM companies", "'x'"),
    ("CREATE CONTINUOUS QUERY x AS SELECT symbol FROM trades [ROWS 'x']", "'x'"),
    ("WITH trades AS (SELECT symbol FROM companies) SELECT price FROM trades", "'price'"),
    ("CREATE CONTINUOUS QUERY x AS SELECT q.symbol, COUNT(*) FROM trades t, quotes q GROUP BY t.symbol", "group key"),
]
