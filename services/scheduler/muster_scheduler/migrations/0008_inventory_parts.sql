-- Parts of full inventories that are not whole yet: a restart between two parts loses none. At most 256 a cluster.
CREATE TABLE inventory_parts (
    cluster  text    NOT NULL,
    number   integer NOT NULL,                      -- of the part, counted from 1
    start    bigint  NOT NULL,                      -- of the agent
    sequence bigint  NOT NULL,                      -- of the inventory
    total    integer NOT NULL,                      -- of its parts
    digest   bytea   NOT NULL,                      -- SHA-256 over the checksums of all parts
    checksum bytea   NOT NULL,                      -- SHA-256 over the bytes of this part
    body     text    NOT NULL,                      -- JSON: nodes, profile
    PRIMARY KEY (cluster, number)
);
