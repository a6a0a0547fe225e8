-- What submission knows: workloads as people see them, their specs, the log of changes, tenancy, templates, triggers, usage.

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
CREATE INDEX workloads_project ON workloads (project, id);
CREATE INDEX workloads_live ON workloads (id) WHERE NOT ended;
CREATE INDEX workloads_live_project ON workloads (project, id) WHERE NOT ended;
CREATE INDEX workloads_present ON workloads (id) WHERE NOT gone;
CREATE INDEX workloads_present_project ON workloads (project, id) WHERE NOT gone;

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

-- The next number of a name prefix in a project. Numbers are never handed out twice.
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

CREATE TABLE triggers (
    project       text     NOT NULL COLLATE "C",
    name          text     NOT NULL COLLATE "C",
    template      text     NOT NULL,
    event_type    text     NOT NULL,
    event_source  text     NOT NULL,               -- '': any
    event_subject text     NOT NULL,               -- '': any
    variables     text     NOT NULL,               -- a JSON object: variable -> dotted path or ce:NAME
    remember      interval NOT NULL,               -- how long an event is remembered
    enabled       boolean  NOT NULL,
    fired         bigint   NOT NULL DEFAULT 0,
    version       bigint   NOT NULL,
    owner         bytea    NOT NULL,               -- an Owner: who made it, and for whom its runs are
    PRIMARY KEY (project, name)
);
CREATE INDEX triggers_by_type ON triggers (event_type) WHERE enabled;

-- Which event has fired which trigger. Kept for a while after `until`, so that the firing number goes on.
CREATE TABLE firings (
    project     text        NOT NULL,
    trigger     text        NOT NULL,
    source      text        NOT NULL,
    event_id    text        NOT NULL,
    number      bigint      NOT NULL,
    workload_id uuid        NOT NULL,
    until       timestamptz NOT NULL,
    PRIMARY KEY (project, trigger, source, event_id)
);
CREATE INDEX firings_until ON firings (until);

CREATE TABLE usage (
    workload_id uuid PRIMARY KEY,
    project     text             NOT NULL COLLATE "C",
    name        text             NOT NULL,
    gpu_seconds double precision NOT NULL,
    until       timestamptz      NOT NULL
);
CREATE INDEX usage_heaviest ON usage (gpu_seconds DESC, workload_id);
CREATE INDEX usage_heaviest_project ON usage (project, gpu_seconds DESC, workload_id);

-- Appends to the log of changes. The lock is held until the commit, so that whoever reads `seq > last` misses nothing.
CREATE FUNCTION log_changes(
    now timestamptz, ids uuid[], events text[], texts text[], before smallint[], phases smallint[], wishes smallint[],
    codes text[], messages text[], generations bigint[], attempts integer[], places text[], pools text[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || '.changes', 0));
    INSERT INTO changes (at, workload_id, project, name, kind, event, text, previous, phase, desired, reason_code,
                         reason_message, generation, attempt, cluster, node_pool)
    SELECT now, u.id, w.project, w.name, w.kind, u.event, u.text, u.before, u.phase, u.wish, u.code, u.message,
           u.generation, u.attempt, u.place, u.pool
    FROM unnest(ids, events, texts, before, phases, wishes, codes, messages, generations, attempts, places, pools)
         WITH ORDINALITY AS u(id, event, text, before, phase, wish, code, message, generation, attempt, place, pool, n)
    JOIN workloads w ON w.id = u.id
    ORDER BY u.n;
END $$;

-- Makes workloads: those whose name is free. Returns the ids that were made. Rows go in by (project, name), so that
-- two calls that want the same names wait for each other instead of locking each other out.
CREATE FUNCTION make_workloads(
    now timestamptz, ids uuid[], projects text[], names text[], kinds smallint[], wishes smallint[], specs bytea[],
    bases bytea[], template_ids text[], template_versions bigint[], owners bytea[], origins smallint[], causes text[],
    clusters text[]
) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    made uuid[];
BEGIN
    WITH inserted AS (
        INSERT INTO workloads (id, project, name, kind, desired, created_at)
        SELECT u.id, u.project, u.name, u.kind, u.wish, now
        FROM unnest(ids, projects, names, kinds, wishes)
             WITH ORDINALITY AS u(id, project, name, kind, wish, n)
        ORDER BY u.project, u.name, u.n
        ON CONFLICT (project, name) WHERE held DO NOTHING
        RETURNING id
    )
    SELECT array_agg(i.id) INTO made FROM inserted i;
    IF made IS NULL THEN
        RETURN '{}';
    END IF;
    INSERT INTO workload_specs (workload_id, spec, base_spec, template_id, template_version, owner, origin, caused_by,
                                asked_cluster)
    SELECT u.id, u.spec, u.base, u.template_id, u.template_version, u.owner, u.origin, u.cause, u.cluster
    FROM unnest(ids, specs, bases, template_ids, template_versions, owners, origins, causes, clusters)
         AS u(id, spec, base, template_id, template_version, owner, origin, cause, cluster)
    WHERE u.id = ANY (made);
    PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || '.changes', 0));
    INSERT INTO changes (at, workload_id, project, name, kind, event, text, previous, phase, desired, reason_code,
                         reason_message, generation, attempt, cluster, node_pool)
    SELECT now, u.id, u.project, u.name, u.kind, 'WorkloadSubmitted', 'acknowledged', 0, 1, u.wish, '', '', 1, 0, '', ''
    FROM unnest(ids, projects, names, kinds, wishes) WITH ORDINALITY AS u(id, project, name, kind, wish, n)
    WHERE u.id = ANY (made)
    ORDER BY u.n;
    RETURN made;
END $$;

-- Hands out `count` numbers of a prefix, leaving out those under which somebody already holds a name.
CREATE FUNCTION take_numbers(in_project text, in_prefix text, count integer) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    at    bigint;
    step  integer := count;
    found bigint[] := '{}';
BEGIN
    INSERT INTO name_prefixes AS p (project, prefix, last) VALUES (in_project, in_prefix, 0)
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

-- Writes what a batch of events made of the workloads, whose rows the caller has locked.
CREATE FUNCTION keep_progress(
    ids uuid[], holds boolean[], phases smallint[], wishes smallint[], codes text[], messages text[], attempts integer[],
    places text[], pools text[], verdicts smallint[], judgements bigint[], admission_versions bigint[],
    decision_versions bigint[], statuses bytea[], starts timestamptz[], ends timestamptz[]
) RETURNS void LANGUAGE sql AS $$
    UPDATE workloads w
    SET held = u.hold, ended = u.phase IN (12, 13, 15), gone = u.phase = 15, phase = u.phase, desired = u.wish,
        reason_code = u.code, reason_message = u.message, attempt = u.attempt, cluster = u.place, node_pool = u.pool,
        verdict = u.verdict, judged = u.judgement, admissions = u.admission_version, decisions = u.decision_version,
        status = coalesce(u.status, w.status), started_at = u.begun, finished_at = u.ended
    FROM unnest(ids, holds, phases, wishes, codes, messages, attempts, places, pools, verdicts, judgements,
                admission_versions, decision_versions, statuses, starts, ends)
         AS u(id, hold, phase, wish, code, message, attempt, place, pool, verdict, judgement, admission_version,
              decision_version, status, begun, ended)
    WHERE w.id = u.id
$$;

-- Writes what verdicts bring: the effective spec of an admission (it stays where a later generation is refused), the
-- issues of a refusal.
CREATE FUNCTION keep_verdicts(ids uuid[], effectives bytea[], said text[]) RETURNS void LANGUAGE sql AS $$
    UPDATE workload_specs s
    SET effective_spec = coalesce(u.effective, s.effective_spec), issues = u.issues
    FROM unnest(ids, effectives, said) AS u(id, effective, issues)
    WHERE s.workload_id = u.id
$$;
