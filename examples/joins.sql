-- Trades and quotes joined by symbol and time, and by a band of prices.
-- Run it with: eddyline sql examples/joins.sql

CREATE STREAM trades (symbol STRING, price DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS;
CREATE STREAM quotes (symbol STRING, price DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS;

-- A trade with the quotes of its symbol at most two seconds away.
CREATE CONTINUOUS QUERY near AS
  SELECT t.symbol, t.price, q.price AS quote
  FROM trades [RANGE 10 SECONDS] t, quotes [RANGE 10 SECONDS] q
  WHERE t.symbol = q.symbol AND abs(t.ts - q.ts) <= INTERVAL 2 SECONDS;

-- Any two symbols whose prices are close, without an equality.
CREATE CONTINUOUS QUERY band AS
  SELECT t.symbol, q.symbol AS other, q.price - t.price AS gap
  FROM trades [RANGE 10 SECONDS] t, quotes [RANGE 10 SECONDS] q
  WHERE q.price - t.price BETWEEN -0.5 AND 0.5;

INSERT INTO quotes VALUES
  ('ACME', 100.0, TIMESTAMP '2026-01-01 09:30:00'),
  ('GLOB', 101.0, TIMESTAMP '2026-01-01 09:30:01');
INSERT INTO trades VALUES
  ('ACME', 100.75, TIMESTAMP '2026-01-01 09:30:02'),
  ('GLOB', 101.25, TIMESTAMP '2026-01-01 09:30:04');
