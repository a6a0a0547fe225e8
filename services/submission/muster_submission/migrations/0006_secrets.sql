-- Credentials that stood as literals in sensitive fields. A spec has a reference (id, version) in their place; the value
-- is AES-256-GCM cipher text, bound to its reference and its holder, and goes with the holder.
CREATE TABLE secrets (
    id      uuid        NOT NULL,
    version integer     NOT NULL,
    holder  uuid        NOT NULL,                  -- a workload or a template
    key     text        NOT NULL COLLATE "C",      -- the id of the key that it is sealed with
    nonce   bytea       NOT NULL,
    cipher  bytea       NOT NULL,
    at      timestamptz NOT NULL,
    PRIMARY KEY (id, version)
);
CREATE INDEX secrets_of_holder ON secrets (holder);
CREATE INDEX secrets_by_key ON secrets (key);
