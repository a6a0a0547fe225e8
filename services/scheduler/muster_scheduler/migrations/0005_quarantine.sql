-- Workloads that the scheduler failed on: set aside until an operator releases them, or a new generation comes.
CREATE TABLE quarantine (
    workload uuid PRIMARY KEY,
    error    text        NOT NULL,                  -- what was raised, in one line
    trace    text        NOT NULL,                  -- where
    at       timestamptz NOT NULL
);
