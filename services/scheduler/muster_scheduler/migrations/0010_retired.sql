-- Workloads that are over and of which nothing is left: not in the scheduler's memory any more (rule 12). One that is
-- spoken of again, or that is to be deleted by itself, comes back. Rows go 14 days after their workload was Deleted.
CREATE TABLE retired (
    id         uuid PRIMARY KEY,
    project    text        NOT NULL,
    name       text        NOT NULL,
    phase      text        NOT NULL,
    desired    text        NOT NULL,
    generation bigint      NOT NULL,
    attempt    integer     NOT NULL,
    updated    timestamptz NOT NULL,
    body       text        NOT NULL,
    request    text,                                -- as in `requests`, of this generation
    spec       bytea,
    delete_at  timestamptz                          -- when it is deleted by itself
);
CREATE INDEX retired_name ON retired (project, name);
CREATE INDEX retired_due ON retired (delete_at) WHERE delete_at IS NOT NULL;
CREATE INDEX retired_deleted ON retired (updated) WHERE phase = 'Deleted';
CREATE INDEX retired_completed ON retired (updated) WHERE phase = 'Completed';
