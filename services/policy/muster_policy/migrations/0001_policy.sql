-- Policy's own tables.

-- What was said about each generation of a workload; a second submission of it gets the same answer (rule 3).
CREATE TABLE verdicts (
    workload_id uuid        NOT NULL,
    generation  bigint      NOT NULL,
    type        text        NOT NULL,     -- the message's full name
    message     bytea       NOT NULL,
    at          timestamptz NOT NULL,
    deleted_at  timestamptz,              -- when somebody asked for the workload to go
    PRIMARY KEY (workload_id, generation)
);
CREATE INDEX verdicts_deleted ON verdicts (deleted_at) WHERE deleted_at IS NOT NULL;

-- The copy of tenancy, as far as verdicts depend on it.
CREATE TABLE projects (
    name       text    PRIMARY KEY,
    version    bigint  NOT NULL,
    node_pools text[],
    gone       boolean NOT NULL DEFAULT false
);

-- Submissions that used a version of their project which has not come here yet.
CREATE TABLE waiting (
    workload_id uuid        NOT NULL,
    generation  bigint      NOT NULL,
    project     text        NOT NULL,
    needs       bigint      NOT NULL,
    message     bytea       NOT NULL,
    trace       text,
    at          timestamptz NOT NULL,
    PRIMARY KEY (workload_id, generation)
);
CREATE INDEX waiting_project ON waiting (project, needs);
