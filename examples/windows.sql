-- Windows that slide over sensor readings; the lines with a dot are commands of the shell.
-- Run it with: eddyline sql examples/windows.sql

CREATE STREAM readings (sensor STRING, degrees DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 2 SECONDS;

CREATE CONTINUOUS QUERY hot AS
  SELECT sensor, COUNT(*) AS n, AVG(degrees) AS mean
  FROM readings [RANGE 10 SECONDS]
  GROUP BY sensor
  HAVING AVG(degrees) > 30;

INSERT INTO readings VALUES
  ('hall', 28.0, TIMESTAMP '2026-01-01 00:00:01'),
  ('roof', 31.0, TIMESTAMP '2026-01-01 00:00:02'),
  ('roof', 35.0, TIMESTAMP '2026-01-01 00:00:06');

-- An aggregate is sent when no earlier reading can come any more: when the watermark has passed.
.advance 2026-01-01T00:00:08
.snapshot hot

-- This one comes behind the watermark and is set apart.
INSERT INTO readings VALUES ('hall', 99.0, TIMESTAMP '2026-01-01 00:00:03');
.late readings

-- The first reading of the roof leaves its window after 00:00:12, the second after 00:00:16.
.advance 2026-01-01T00:00:20
.snapshot hot
