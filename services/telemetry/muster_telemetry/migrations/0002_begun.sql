-- An account without use for longer than any of its use can come in twice is removed. If its workload uses devices again,
-- a new account begins; submission, which hears when an account began, adds it to the earlier ones.
ALTER TABLE accounts ADD COLUMN begun timestamptz NOT NULL DEFAULT 'epoch';

-- What the removed accounts of a project had.
CREATE TABLE earlier_usage (
    project text        PRIMARY KEY,
    amount  numeric     NOT NULL,     -- 1/7,000 GPU times microseconds
    until   timestamptz NOT NULL
);

CREATE OR REPLACE VIEW project_usage AS
    SELECT project, sum(amount) / (7000::numeric * 1000000) AS gpu_seconds, max(until) AS until
    FROM (SELECT project, amount, until FROM accounts UNION ALL SELECT project, amount, until FROM earlier_usage) AS every
    GROUP BY project;
