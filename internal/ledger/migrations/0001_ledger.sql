-- Times are nanoseconds since 1970 in UTC, 0 for none. Money is micro-USD.
-- seq is the order in which rows were recorded, whatever the clock did.

CREATE TABLE requests (
  seq   INTEGER PRIMARY KEY,
  name  TEXT    NOT NULL UNIQUE,
  kind  TEXT    NOT NULL,
  nodes TEXT    NOT NULL,
  at    INTEGER NOT NULL
) STRICT;

CREATE TABLE launches (
  seq          INTEGER PRIMARY KEY,
  id           TEXT    NOT NULL UNIQUE,
  job_id       INTEGER NOT NULL,
  tier         TEXT    NOT NULL,
  qos          TEXT    NOT NULL,
  user         TEXT    NOT NULL,
  account      TEXT    NOT NULL,
  partition    TEXT    NOT NULL,
  round        INTEGER NOT NULL,
  state        TEXT    NOT NULL CHECK (state IN ('launching', 'ready', 'failing', 'failed', 'released')),
  class        TEXT    NOT NULL,
  message      TEXT    NOT NULL,
  requested_at INTEGER NOT NULL,
  retry_at     INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  ended_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX launches_open ON launches (created_at, seq) WHERE state IN ('launching', 'failing');
CREATE INDEX launches_of_job ON launches (job_id);
CREATE INDEX launches_by_age ON launches (created_at, seq);

CREATE TABLE launch_nodes (
  launch      INTEGER NOT NULL REFERENCES launches (seq),
  node        TEXT    NOT NULL,
  pos         INTEGER NOT NULL, -- its place in the launch
  generation  INTEGER NOT NULL,
  pool        TEXT    NOT NULL,
  provider    TEXT    NOT NULL,
  instance_id TEXT    NOT NULL, -- empty until bought
  addressed   INTEGER NOT NULL CHECK (addressed IN (0, 1)),
  PRIMARY KEY (launch, node)
) STRICT, WITHOUT ROWID;

-- The highest generation each node was ever launched with.
CREATE TABLE nodes (
  node       TEXT    PRIMARY KEY NOT NULL,
  generation INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE intents (
  seq            INTEGER PRIMARY KEY,
  token          TEXT    NOT NULL UNIQUE,
  provider       TEXT    NOT NULL,
  pool           TEXT    NOT NULL,
  offerings      TEXT    NOT NULL, -- JSON: [{"type", "zone", "market"}, ...], best first
  nodes          TEXT    NOT NULL, -- JSON: [{"node", "generation", "launch"}, ...]
  all_or_nothing INTEGER NOT NULL CHECK (all_or_nothing IN (0, 1)),
  open           INTEGER NOT NULL CHECK (open IN (0, 1)),
  created_at     INTEGER NOT NULL,
  closed_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX intents_open ON intents (created_at, seq) WHERE open = 1;

CREATE TABLE instances (
  seq        INTEGER PRIMARY KEY,
  provider   TEXT    NOT NULL,
  id         TEXT    NOT NULL,
  node       TEXT    NOT NULL,
  generation INTEGER NOT NULL,
  launch     TEXT    NOT NULL, -- a launch's id; that launch may be unknown, for orphans
  token      TEXT    NOT NULL,
  pool       TEXT    NOT NULL,
  type       TEXT    NOT NULL,
  zone       TEXT    NOT NULL,
  market     TEXT    NOT NULL,
  addr       TEXT    NOT NULL,
  host_name  TEXT    NOT NULL,
  price      INTEGER NOT NULL,
  state      TEXT    NOT NULL CHECK (state IN ('live', 'terminating', 'ended')),
  created_at INTEGER NOT NULL,
  ready_at   INTEGER NOT NULL,
  ended_at   INTEGER NOT NULL,
  end_cause  TEXT    NOT NULL,
  console    TEXT    NOT NULL,
  UNIQUE (provider, id)
) STRICT;
CREATE INDEX instances_live ON instances (created_at, seq) WHERE state <> 'ended';
CREATE INDEX instances_ended ON instances (ended_at) WHERE state = 'ended';
CREATE INDEX instances_of_node ON instances (node);
CREATE INDEX instances_of_launch ON instances (launch);

CREATE TABLE failures (
  seq      INTEGER PRIMARY KEY,
  at       INTEGER NOT NULL,
  launch   TEXT    NOT NULL,
  job_id   INTEGER NOT NULL,
  pool     TEXT    NOT NULL,
  provider TEXT    NOT NULL,
  offering TEXT    NOT NULL,
  class    TEXT    NOT NULL,
  code     TEXT    NOT NULL,
  message  TEXT    NOT NULL,
  nodes    TEXT    NOT NULL
) STRICT;
CREATE INDEX failures_of_job ON failures (job_id, at, seq);
CREATE INDEX failures_by_age ON failures (at, seq);

CREATE TABLE memory (
  provider TEXT    NOT NULL,
  type     TEXT    NOT NULL,
  zone     TEXT    NOT NULL,
  market   TEXT    NOT NULL,
  class    TEXT    NOT NULL,
  message  TEXT    NOT NULL,
  failures INTEGER NOT NULL,
  since    INTEGER NOT NULL,
  until    INTEGER NOT NULL,
  PRIMARY KEY (provider, type, zone, market)
) STRICT, WITHOUT ROWID;
