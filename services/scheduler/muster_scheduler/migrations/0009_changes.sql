-- What each transaction of a leader has changed, by key, in commit order: a standby reads the rows of these keys again
-- and is up to date (rule 9). Rows live ten minutes; the last one stays, so that a standby knows whether it missed some.
CREATE TABLE changes (
    seq  bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at   timestamptz NOT NULL,
    keys text        NOT NULL                       -- JSON: of each table, the keys of the rows that were written
);
INSERT INTO changes (at, keys) VALUES (now(), '{}');

-- The terms whose leaders note their changes: what a leader of an older release has changed, no standby can follow.
CREATE TABLE noted_epochs (epoch bigint PRIMARY KEY);
