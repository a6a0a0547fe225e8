-- Rules that turn events into runs, and what each event made them do.

CREATE TABLE triggers (
    project    text     NOT NULL COLLATE "C",
    name       text     NOT NULL COLLATE "C",
    event_type text     NOT NULL COLLATE "C",
    prefix     boolean  NOT NULL GENERATED ALWAYS AS (right(event_type, 1) = '*') STORED,
    enabled    boolean  NOT NULL,
    fired      bigint   NOT NULL DEFAULT 0,
    runaways   smallint NOT NULL DEFAULT 0,        -- how many times in a row its expressions ran away
    stopped    text     NOT NULL DEFAULT '',       -- why it was switched off by itself
    version    bigint   NOT NULL,
    rule       bytea    NOT NULL,                  -- a Trigger
    owner      bytea    NOT NULL,                  -- an Owner: who applied it, and for whom its runs are
    PRIMARY KEY (project, name)
);
CREATE INDEX triggers_by_type ON triggers (event_type) WHERE enabled AND NOT prefix;
CREATE INDEX triggers_by_prefix ON triggers (event_type) WHERE enabled AND prefix;

-- What events did. A row is written or changed only under the lock of its trigger's row. Kept for a while after
-- `until`, so that the firing number goes on; the event is kept for replays and for those that wait.
CREATE TABLE firings (
    id          uuid PRIMARY KEY,                  -- a UUIDv7: newest first is by id
    project     text        NOT NULL COLLATE "C",
    trigger     text        NOT NULL COLLATE "C",
    event_key   bytea       NOT NULL,              -- SHA-256 of the event's source and id, which an index could not hold
    source      text        NOT NULL,
    event_id    text        NOT NULL,
    number      bigint      NOT NULL,
    outcome     smallint    NOT NULL,              -- as in FiringOutcome
    why         text        NOT NULL,
    name        text        NOT NULL,              -- the run's
    workload_id uuid,
    event       bytea       NOT NULL,              -- a CloudEvent
    at          timestamptz NOT NULL,
    until       timestamptz NOT NULL,              -- the event is remembered
    deadline    timestamptz,                       -- it waits
    started_at  timestamptz,
    live        boolean     NOT NULL DEFAULT false, -- its run had not ended when somebody last looked
    UNIQUE (project, trigger, event_key, number)
);
CREATE INDEX firings_of_project ON firings (project, id);
CREATE INDEX firings_of_trigger ON firings (project, trigger, id);
CREATE INDEX firings_waiting ON firings (project, trigger, id) WHERE outcome = 1;
CREATE INDEX firings_live ON firings (project, trigger) WHERE live;
CREATE INDEX firings_started ON firings (project, trigger, started_at) WHERE outcome = 2;
CREATE INDEX firings_until ON firings (until);

-- What a locked trigger has under way. Runs that have ended are no longer live from here on.
CREATE FUNCTION trigger_load(in_project text, in_trigger text, since timestamptz, at_most integer)
RETURNS TABLE (running bigint, recent bigint, waiting bigint) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE firings f SET live = false
    WHERE f.project = in_project AND f.trigger = in_trigger AND f.live
      AND NOT EXISTS (SELECT 1 FROM workloads w WHERE w.id = f.workload_id AND NOT w.ended);
    RETURN QUERY SELECT
        (SELECT count(*) FROM firings f WHERE f.project = in_project AND f.trigger = in_trigger AND f.live),
        (SELECT count(*) FROM (
            SELECT 1 FROM firings f
            WHERE f.project = in_project AND f.trigger = in_trigger AND f.outcome = 2 AND f.started_at > since
            LIMIT at_most) AS started),
        (SELECT count(*) FROM firings f WHERE f.project = in_project AND f.trigger = in_trigger AND f.outcome = 1);
END $$;
