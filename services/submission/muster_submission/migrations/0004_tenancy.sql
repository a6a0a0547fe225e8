-- Clusters as the REST API knows them, the node pools in them, and how far the versions of what is gone had come.

-- Every cluster that this service has heard of. The scheduler owns clusters; this is what it does not keep.
CREATE TABLE clusters (
    name    text PRIMARY KEY COLLATE "C",
    uuid    uuid        NOT NULL UNIQUE,           -- follows from the name
    made_at timestamptz NOT NULL                   -- when it was heard of first
);

CREATE SEQUENCE node_pool_ids AS bigint;
CREATE TABLE node_pools (
    id          bigint PRIMARY KEY,
    cluster     text   NOT NULL COLLATE "C" REFERENCES clusters (name),
    name        text   NOT NULL COLLATE "C",
    label_key   text   NOT NULL,                   -- '' for the pool default
    label_value text   NOT NULL,
    version     bigint NOT NULL,
    record      bytea  NOT NULL,                   -- a NodePool
    UNIQUE (cluster, name)
);
CREATE UNIQUE INDEX node_pools_label ON node_pools (cluster, label_key, label_value) WHERE label_key <> '';

-- The number of the last change of departments and projects. Whoever takes the next one holds this row until the
-- commit, so that a reader of "changed after N" misses nothing.
CREATE TABLE tenancy_change (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    last   bigint NOT NULL
);
INSERT INTO tenancy_change (last) VALUES (0);

-- What is gone. A name that is used again goes on from the version that its last bearer had: readers of the events take
-- an older version for a late one.
CREATE TABLE tenancy_left (
    aggregate text PRIMARY KEY COLLATE "C",        -- such as project/team-a
    version   bigint NOT NULL,
    change    bigint NOT NULL
);
CREATE INDEX tenancy_left_change ON tenancy_left (change);
