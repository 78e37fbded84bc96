-- Price alerts: a few standing queries over a stream of trades, and a table that names the companies.
-- Run it with: eddyline sql examples/alerts.sql

CREATE STREAM trades (symbol STRING, price DOUBLE, qty INT, ts TIMESTAMP)
  WATERMARK ts DELAY OF INTERVAL 5 SECONDS;
CREATE TABLE companies (symbol STRING PRIMARY KEY, name STRING);
INSERT INTO companies VALUES ('ACME', 'Acme Corporation'), ('GLOB', 'Globex');

-- These two differ only in their constants: they fall into one family and share one plan.
CREATE CONTINUOUS QUERY anna AS SELECT symbol, price FROM trades WHERE price BETWEEN 100 AND 110;
CREATE CONTINUOUS QUERY ben AS SELECT symbol, price FROM trades WHERE price BETWEEN 105 AND 120;
CREATE CONTINUOUS QUERY big AS
  SELECT c.name, t.price * t.qty AS value
  FROM trades t JOIN companies c ON c.symbol = t.symbol
  WHERE t.price * t.qty > 50000;

INSERT INTO trades VALUES
  ('ACME', 107.5, 100, TIMESTAMP '2026-01-01 09:30:01'),
  ('GLOB', 118.0, 900, TIMESTAMP '2026-01-01 09:30:02'),
  ('ACME', 99.0, 10, TIMESTAMP '2026-01-01 09:30:03');

-- The table is retroactive: a change of it revises what was sent before.
UPDATE companies SET name = 'Globex International' WHERE symbol = 'GLOB';

SHOW FAMILIES;
EXPLAIN anna;
