-- What submission knows: workloads as people see them, their specs, the log of changes, tenancy, templates, usage.
-- What writes workloads is in 0002_lists.sql, with the tables of lists and histories that the same writes fill.

-- One narrow row a workload. What every event changes stands here, and no index looks at it (so that an update stays
-- in its page); the wide and lasting parts are in workload_specs.
CREATE TABLE workloads (
    id                uuid PRIMARY KEY,            -- a UUIDv7: newest first is by id
    project           text        NOT NULL COLLATE "C",
    name              text        NOT NULL COLLATE "C",
    kind              smallint    NOT NULL,
    held              boolean     NOT NULL DEFAULT true,   -- it holds its name: neither Deleted nor refused
    ended             boolean     NOT NULL DEFAULT false,  -- Completed, Failed or Deleted
    gone              boolean     NOT NULL DEFAULT false,  -- Deleted
    phase             smallint    NOT NULL DEFAULT 1,
    desired           smallint    NOT NULL DEFAULT 1,
    reason_code       text        NOT NULL DEFAULT '',
    reason_message    text        NOT NULL DEFAULT '',
    generation        bigint      NOT NULL DEFAULT 1,      -- the number of the spec that was asked for last
    attempt           integer     NOT NULL DEFAULT 0,
    cluster           text        NOT NULL DEFAULT '',
    node_pool         text        NOT NULL DEFAULT '',
    gpu_charge        bigint      NOT NULL DEFAULT 0,      -- what its place costs, in 1/7,000 GPU; 0 before a verdict
    verdict           smallint    NOT NULL DEFAULT 0,      -- policy's last word: 0 none yet, 1 admitted, 2 refused
    judged            bigint      NOT NULL DEFAULT 0,      -- the generation that it was about
    admissions        bigint      NOT NULL DEFAULT 0,      -- the last version taken in from muster.admissions
    decisions         bigint      NOT NULL DEFAULT 0,      -- the last version taken in from muster.decisions
    status            bytea,                               -- a Workload with only replicas, endpoints and conditions
    created_at        timestamptz NOT NULL,
    started_at        timestamptz,
    finished_at       timestamptz
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX workloads_held ON workloads (project, name) WHERE held;
CREATE INDEX workloads_name ON workloads (project, name, id);
CREATE INDEX workloads_gone ON workloads (finished_at) WHERE gone;

-- The wide parts, written at submission, at a verdict and at a change of the spec.
CREATE TABLE workload_specs (
    workload_id      uuid PRIMARY KEY,
    spec             bytea    NOT NULL,            -- the user's own layer, a WorkloadSpec
    base_spec        bytea,                        -- the template's layer
    template_id      text     NOT NULL,
    template_version bigint   NOT NULL,
    effective_spec   bytea,                        -- what policy made of it
    issues           text     NOT NULL DEFAULT '[]', -- a JSON array of sentences
    owner            bytea    NOT NULL,            -- an Owner
    origin           smallint NOT NULL,
    caused_by        text     NOT NULL,
    asked_cluster    text     NOT NULL
);

-- The last number of a name prefix in a project; the first is 0. Numbers are never handed out twice.
CREATE TABLE name_prefixes (
    project text   NOT NULL,
    prefix  text   NOT NULL,
    last    bigint NOT NULL,
    PRIMARY KEY (project, prefix)
);

-- Every change of a workload for 24 hours, in commit order: rows are inserted only by log_changes, under its lock.
CREATE TABLE changes (
    seq            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at             timestamptz NOT NULL,
    workload_id    uuid        NOT NULL,
    project        text        NOT NULL,
    name           text        NOT NULL,
    kind           smallint    NOT NULL,
    event          text        NOT NULL,           -- such as WorkloadPlaced
    text           text        NOT NULL,           -- one sentence for people
    previous       smallint    NOT NULL,           -- the phase before; 0: there was none
    phase          smallint    NOT NULL,
    desired        smallint    NOT NULL,
    reason_code    text        NOT NULL,
    reason_message text        NOT NULL,
    generation     bigint      NOT NULL,
    attempt        integer     NOT NULL,
    cluster        text        NOT NULL,
    node_pool      text        NOT NULL
);

-- Up to where the log of changes was pruned. One row.
CREATE TABLE changes_floor (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    seq    bigint NOT NULL
);
INSERT INTO changes_floor (seq) VALUES (0);

-- Departments and projects. The columns are what lists are filtered and sorted by; the record has all of it.
CREATE SEQUENCE department_ids AS bigint;
CREATE TABLE departments (
    name       text PRIMARY KEY COLLATE "C",
    id         bigint      NOT NULL UNIQUE,
    version    bigint      NOT NULL,
    change     bigint      NOT NULL,               -- the number of its last change in all of tenancy, in commit order
    cluster    text        NOT NULL COLLATE "C",   -- for which it was made; '': all
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    created_by text        NOT NULL COLLATE "C",
    updated_by text        NOT NULL COLLATE "C",
    record     bytea       NOT NULL                -- a Department
);

CREATE SEQUENCE project_ids AS bigint;
CREATE TABLE projects (
    name       text PRIMARY KEY COLLATE "C",
    id         bigint      NOT NULL UNIQUE,
    namespace  text        NOT NULL UNIQUE COLLATE "C",
    department text        NOT NULL COLLATE "C",
    version    bigint      NOT NULL,
    change     bigint      NOT NULL,               -- the number of its last change in all of tenancy, in commit order
    cluster    text        NOT NULL COLLATE "C",   -- for which it was made; '': all
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    created_by text        NOT NULL COLLATE "C",
    updated_by text        NOT NULL COLLATE "C",
    record     bytea       NOT NULL                -- a Project
);
CREATE INDEX projects_department ON projects (department, name);
CREATE INDEX projects_change ON projects (change);
CREATE INDEX departments_change ON departments (change);

-- Templates by project; '' is global.
CREATE TABLE templates (
    id      uuid PRIMARY KEY,
    project text   NOT NULL COLLATE "C",
    name    text   NOT NULL COLLATE "C",
    version bigint NOT NULL,
    spec    bytea  NOT NULL,                       -- a WorkloadSpec
    UNIQUE (project, name)
);
CREATE INDEX templates_by_name ON templates (name, project);

CREATE TABLE usage (
    workload_id uuid PRIMARY KEY,
    project     text             NOT NULL COLLATE "C",
    name        text             NOT NULL,
    gpu_seconds double precision NOT NULL,
    until       timestamptz      NOT NULL
);
CREATE INDEX usage_heaviest ON usage (gpu_seconds DESC, workload_id);
CREATE INDEX usage_heaviest_project ON usage (project, gpu_seconds DESC, workload_id);

-- Hands out `count` numbers of a prefix, leaving out those under which somebody already holds a name.
CREATE FUNCTION take_numbers(in_project text, in_prefix text, count integer) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    at    bigint;
    step  integer := count;
    found bigint[] := '{}';
BEGIN
    INSERT INTO name_prefixes AS p (project, prefix, last) VALUES (in_project, in_prefix, -1)
    ON CONFLICT (project, prefix) DO UPDATE SET last = p.last
    RETURNING p.last INTO at;
    WHILE cardinality(found) < count LOOP
        found := found || ARRAY(
            SELECT n FROM generate_series(at + 1, at + step) AS n
            WHERE NOT EXISTS (
                SELECT 1 FROM workloads w
                WHERE w.held AND w.project = in_project AND w.name = (in_prefix || '-' || n) COLLATE "C"
            )
            ORDER BY n
        );
        at := at + step;
        step := step * 2;  -- a row of given names is crossed in few strides
    END LOOP;
    found := found[1:count];
    UPDATE name_prefixes SET last = found[count] WHERE project = in_project AND prefix = in_prefix;
    RETURN found;
END $$;

-- Writes what verdicts bring: the effective spec of an admission (it stays where a later generation is refused), the
-- issues of a refusal.
CREATE FUNCTION keep_verdicts(ids uuid[], effectives bytea[], said text[]) RETURNS void LANGUAGE sql AS $$
    UPDATE workload_specs s
    SET effective_spec = coalesce(u.effective, s.effective_spec), issues = u.issues
    FROM unnest(ids, effectives, said) AS u(id, effective, issues)
    WHERE s.workload_id = u.id
$$;
