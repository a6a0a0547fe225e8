-- Workloads that have been over for a while: one row with everything that is shown of one, its history included. They
-- leave the tables that lists and events work on, so that those do not grow with what has been (rule 12). A partition a
-- month, by the moment of the end, made when it is needed and dropped as a whole.
CREATE TABLE archive (
    id               uuid        NOT NULL,
    ended_at         timestamptz NOT NULL,            -- when it ended; without such a moment, when it was made
    archived_at      timestamptz NOT NULL,
    project          text        NOT NULL COLLATE "C",
    name             text        NOT NULL COLLATE "C",
    kind             smallint    NOT NULL,
    phase            smallint    NOT NULL,            -- Completed, Failed or Deleted
    last_phase       smallint    NOT NULL,            -- of a deleted one the phase before
    desired          smallint    NOT NULL,
    reason_code      text        NOT NULL,
    reason_message   text        NOT NULL,
    reason_other     uuid,
    generation       bigint      NOT NULL,
    attempt          integer     NOT NULL,
    cluster          text        NOT NULL COLLATE "C",
    node_pool        text        NOT NULL COLLATE "C",
    verdict          smallint    NOT NULL,
    judged           bigint      NOT NULL,
    held             boolean     NOT NULL DEFAULT false, -- an archived workload holds no name
    status           bytea,
    created_at       timestamptz NOT NULL,
    started_at       timestamptz,
    finished_at      timestamptz,
    deleted_at       timestamptz,
    delete_at        timestamptz,                     -- when it is deleted by itself
    moved_at         timestamptz NOT NULL,
    pods             integer     NOT NULL,
    submitted_by     text        NOT NULL COLLATE "C",
    spec             bytea       NOT NULL,
    effective_spec   bytea,
    issues           text        NOT NULL,
    owner            bytea       NOT NULL,
    origin           smallint    NOT NULL,
    caused_by        text        NOT NULL,
    asked_cluster    text        NOT NULL,
    template_id      text        NOT NULL,
    template_version bigint      NOT NULL,
    gpu_seconds      double precision NOT NULL,
    history          jsonb       NOT NULL,            -- what workload_history had of it, oldest first
    PRIMARY KEY (id, ended_at)
) PARTITION BY RANGE (ended_at);
CREATE INDEX archive_ended ON archive (ended_at, id);
CREATE INDEX archive_project ON archive (project, ended_at, id);
CREATE INDEX archive_name ON archive (name, ended_at, id);
-- Where nearly all of it was deleted, a list of what was not must not walk through that.
CREATE INDEX archive_there ON archive (ended_at, id) WHERE phase <> 15;
CREATE INDEX archive_project_there ON archive (project, ended_at, id) WHERE phase <> 15;
CREATE INDEX archive_due ON archive (delete_at) WHERE delete_at IS NOT NULL AND phase <> 15;
