-- Policies in the database, with every version that there was, and the one revision that each write raises.

-- Raised by every write of a policy. A verdict names the one by which it was given.
CREATE TABLE revision (number bigint NOT NULL);
INSERT INTO revision (number) VALUES (0);

-- The policies. One that is removed keeps its row, so that other instances learn of it by its revision.
CREATE TABLE policies (
    id         uuid        PRIMARY KEY,
    workload   text        NOT NULL,      -- workspace, training, distributed or inference
    level      text        NOT NULL,      -- tenant, cluster, department or project
    unit       text        NOT NULL,      -- the name of the cluster, department or project; empty for the tenant
    name       text        NOT NULL,
    version    bigint      NOT NULL,
    revision   bigint      NOT NULL,      -- of the write that changed it last
    document   text        NOT NULL,      -- as it was written
    source     text        NOT NULL,      -- what applied it; empty: a person
    created_at timestamptz NOT NULL,
    created_by text        NOT NULL,
    updated_at timestamptz NOT NULL,
    updated_by text        NOT NULL,
    gone       boolean     NOT NULL DEFAULT false
);
CREATE UNIQUE INDEX policies_key ON policies (workload, level, unit) WHERE NOT gone;
CREATE INDEX policies_revision ON policies (revision);

-- Every version of every policy; rows are only added.
CREATE TABLE policy_versions (
    policy   uuid        NOT NULL REFERENCES policies (id),
    version  bigint      NOT NULL,
    name     text        NOT NULL,
    document text        NOT NULL,        -- empty: the policy was removed
    source   text        NOT NULL,
    author   text        NOT NULL,
    channel  text        NOT NULL,
    reason   text        NOT NULL,
    at       timestamptz NOT NULL,
    PRIMARY KEY (policy, version)
);

-- More of the copy of tenancy: what a branch is, the ids by which REST names its units, and the namespaces by which
-- policies of v1 name projects.
ALTER TABLE projects
    ADD COLUMN id           bigint NOT NULL DEFAULT 0,
    ADD COLUMN department   text   NOT NULL DEFAULT '',
    ADD COLUMN home_cluster text   NOT NULL DEFAULT '',
    ADD COLUMN namespace    text   NOT NULL DEFAULT '';
CREATE TABLE departments (
    name    text    PRIMARY KEY,
    id      bigint  NOT NULL,
    version bigint  NOT NULL,
    gone    boolean NOT NULL DEFAULT false
);
