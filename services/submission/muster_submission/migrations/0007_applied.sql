-- Which workload an applied document means: by project, kind and metadata.name, not by the workload's own name, which
-- a prefix makes anew each time.
CREATE TABLE applied (
    project     text     NOT NULL COLLATE "C",
    kind        smallint NOT NULL,
    name        text     NOT NULL COLLATE "C",
    workload_id uuid,                              -- NULL only within the transaction that makes the first
    PRIMARY KEY (project, kind, name)
);
