-- What the scheduler knows. Memory is rebuilt from these tables; every row is written in the transaction that decided it.

CREATE TABLE clusters (
    id   text PRIMARY KEY,
    body text NOT NULL                              -- JSON: instance, profile, order of reports, lost timeout
);

-- Nodes as last reported, kept while anything is charged to them (rule 7).
CREATE TABLE nodes (
    cluster text NOT NULL,
    name    text NOT NULL,
    body    text NOT NULL,                          -- JSON: pool, state, capacity, what others hold, devices
    PRIMARY KEY (cluster, name)
);

CREATE TABLE projects (
    name text PRIMARY KEY,
    body text NOT NULL                              -- JSON: department, version, quotas per node pool
);

CREATE TABLE workloads (
    id         uuid PRIMARY KEY,
    project    text        NOT NULL,
    name       text        NOT NULL,
    phase      text        NOT NULL,
    desired    text        NOT NULL,
    generation bigint      NOT NULL,
    attempt    integer     NOT NULL,
    updated    timestamptz NOT NULL,
    body       text        NOT NULL                 -- JSON: counters, backoff, claim, place, record revision, ..
);
CREATE INDEX workloads_name ON workloads (project, name);
CREATE INDEX workloads_deleted ON workloads (updated) WHERE phase = 'Deleted';

-- What was admitted, per generation: written once.
CREATE TABLE requests (
    workload   uuid   NOT NULL,
    generation bigint NOT NULL,
    body       text   NOT NULL,                     -- JSON: roles, pools, clusters, priority, ..
    spec       bytea  NOT NULL,                     -- the effective spec, as it goes into assignments
    PRIMARY KEY (workload, generation)
);

-- Replicas of runs that are not over. Rows of a run are deleted once nothing of it is left.
CREATE TABLE replicas (
    workload   uuid    NOT NULL,
    generation bigint  NOT NULL,
    attempt    integer NOT NULL,
    role       text    NOT NULL,
    rank       integer NOT NULL,
    k          integer NOT NULL,
    place      text    NOT NULL,                    -- current, rolling (older revision) or leaving
    body       text    NOT NULL,                    -- JSON: node, grant with devices, state, exit, ..
    PRIMARY KEY (workload, generation, attempt, role, rank, k)
);
