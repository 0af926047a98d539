-- What is remembered of an offering may hold for one pool only (a specification
-- that does not fit), and for launches of at least so many nodes.
CREATE TABLE memory_2 (
  provider TEXT    NOT NULL,
  type     TEXT    NOT NULL,
  zone     TEXT    NOT NULL,
  market   TEXT    NOT NULL,
  pool     TEXT    NOT NULL, -- empty: all pools
  class    TEXT    NOT NULL,
  message  TEXT    NOT NULL,
  nodes    INTEGER NOT NULL, -- the smallest all-or-nothing launch that failed
  failures INTEGER NOT NULL,
  since    INTEGER NOT NULL,
  until    INTEGER NOT NULL,
  PRIMARY KEY (provider, type, zone, market, pool)
) STRICT, WITHOUT ROWID;
INSERT INTO memory_2 SELECT provider, type, zone, market, '', class, message, 1, failures, since, until FROM memory;
DROP TABLE memory;
ALTER TABLE memory_2 RENAME TO memory;
