-- Events that rules take, until the lane of their project has evaluated and fired them: one row an event and project.
CREATE TABLE trigger_queue (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project       text        NOT NULL COLLATE "C",
    event         bytea       NOT NULL,              -- a CloudEvent
    at            timestamptz NOT NULL,
    claimant      text        NOT NULL DEFAULT '',   -- the instance that evaluates it
    claimed_until timestamptz,
    tries         integer     NOT NULL DEFAULT 0,    -- how often it failed alone
    not_before    timestamptz,                       -- it was set aside until then
    why           text        NOT NULL DEFAULT ''    -- for what it was set aside
);
CREATE INDEX trigger_queue_of_project ON trigger_queue (project, id);
CREATE INDEX trigger_queue_aside ON trigger_queue (not_before) WHERE not_before IS NOT NULL;
