-- What people said of the node pools: how each is filled.

CREATE TABLE node_pools (
    id   bigint PRIMARY KEY,
    body text NOT NULL                              -- JSON: cluster, name, version, strategies
);
