-- Telemetry's own tables.

-- Which time of each replica has been counted: spans in microseconds since 1970, sorted, neither overlapping nor touching.
CREATE TABLE coverage (
    replica text        PRIMARY KEY,
    starts  bigint[]    NOT NULL,
    ends    bigint[]    NOT NULL,
    heard   timestamptz NOT NULL
);
CREATE INDEX coverage_heard ON coverage (heard);

-- What each workload has held so far.
CREATE TABLE accounts (
    workload_id uuid        PRIMARY KEY,
    project     text        NOT NULL,
    name        text        NOT NULL,
    amount      numeric     NOT NULL,     -- 1/7,000 GPU times microseconds
    until       timestamptz NOT NULL,
    changed     boolean     NOT NULL      -- not told yet
);
CREATE INDEX accounts_changed ON accounts (workload_id) WHERE changed;
CREATE INDEX accounts_project ON accounts (project);

-- The same by project, in GPU-seconds.
CREATE VIEW project_usage AS
    SELECT project, sum(amount) / (7000::numeric * 1000000) AS gpu_seconds, max(until) AS until
    FROM accounts GROUP BY project;
