-- What lists look at: one row a workload with everything that can be filtered or sorted by, and nothing else. Written
-- in the transactions that make a workload and that move it on; a move that no list can see leaves the row alone, so
-- that the indexes are paid for by the changes that people look for.
--
-- Every index ends in the id, which orders by time, and begins with the columns of one question that is asked often.
-- They hold what is not deleted; the few for deleted workloads come last. The domain's listing.py names these indexes
-- again, and a test holds the two equal: a question is answered by the index that was made for it, or by one bounded
-- pass over this table.
CREATE TABLE workload_list (
    id           uuid PRIMARY KEY,
    created_at   timestamptz NOT NULL,
    finished_at  timestamptz NOT NULL DEFAULT '-infinity',  -- '-infinity': not yet; sorts before every moment
    deleted_at   timestamptz NOT NULL DEFAULT '-infinity',
    moved_at     timestamptz NOT NULL,                      -- when something of this row changed last
    gpus         bigint      NOT NULL DEFAULT 0,            -- what its place charges, in 1/7,000 GPU; 0: it has none
    pods         integer     NOT NULL DEFAULT 0,            -- how many replicas its last status names
    kind         smallint    NOT NULL,
    phase        smallint    NOT NULL DEFAULT 1,
    gone         boolean     NOT NULL DEFAULT false,        -- Deleted
    project      text        NOT NULL COLLATE "C",
    name         text        NOT NULL COLLATE "C",
    submitted_by text        NOT NULL COLLATE "C",
    cluster      text        NOT NULL COLLATE "C" DEFAULT '',
    node_pool    text        NOT NULL COLLATE "C" DEFAULT ''
) WITH (
    fillfactor = 90,
    -- A page that was changed and not vacuumed since is read by every walk of an index that crosses it: deep offsets
    -- are ten times slower over such pages. A pass over a million rows takes half a second.
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_vacuum_cost_limit = 2000, autovacuum_analyze_scale_factor = 0.05
);
CREATE INDEX list_id ON workload_list (id) WHERE NOT gone;
CREATE INDEX list_name ON workload_list (name, id) WHERE NOT gone;
CREATE INDEX list_kind ON workload_list (kind, id) WHERE NOT gone;
CREATE INDEX list_phase ON workload_list (phase, id) WHERE NOT gone;
CREATE INDEX list_project ON workload_list (project, id) WHERE NOT gone;
CREATE INDEX list_project_name ON workload_list (project, name, id) WHERE NOT gone;
CREATE INDEX list_project_phase ON workload_list (project, phase, id) WHERE NOT gone;
CREATE INDEX list_submitter ON workload_list (submitted_by, id) WHERE NOT gone;
CREATE INDEX list_cluster ON workload_list (cluster, id) WHERE NOT gone;
CREATE INDEX list_pool ON workload_list (node_pool, id) WHERE NOT gone;
CREATE INDEX list_gpus ON workload_list (gpus, id) WHERE NOT gone;
CREATE INDEX list_finished ON workload_list (finished_at, id) WHERE NOT gone;
CREATE INDEX list_gone ON workload_list (id) WHERE gone;
CREATE INDEX list_gone_project ON workload_list (project, id) WHERE gone;
CREATE INDEX list_gone_deleted ON workload_list (deleted_at, id) WHERE gone;

-- What happened to a workload, for its history and events: kept when the log of changes has long been pruned. Its
-- beginning is not here, because the workload's own row says when it was made.
CREATE TABLE workload_history (
    workload_id    uuid        NOT NULL,
    seq            bigint GENERATED ALWAYS AS IDENTITY,
    at             timestamptz NOT NULL,
    event          text        NOT NULL,
    text           text        NOT NULL,
    previous       smallint    NOT NULL,
    phase          smallint    NOT NULL,
    reason_code    text        NOT NULL,
    cluster        text        NOT NULL,
    PRIMARY KEY (workload_id, seq)
);
CREATE INDEX history_at ON workload_history (at);

-- Appends to the log of changes and to the histories. The lock is held until the commit, so that whoever reads
-- `seq > last` misses nothing.
CREATE FUNCTION log_changes(
    now timestamptz, ids uuid[], events text[], texts text[], before smallint[], phases smallint[], wishes smallint[],
    codes text[], messages text[], generations bigint[], attempts integer[], places text[], pools text[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO workload_history (workload_id, at, event, text, previous, phase, reason_code, cluster)
    SELECT u.id, now, u.event, u.text, u.before, u.phase, u.code, u.place
    FROM unnest(ids, events, texts, before, phases, codes, places)
         WITH ORDINALITY AS u(id, event, text, before, phase, code, place, n)
    ORDER BY u.n;
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
    clusters text[], submitters text[]
) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    made uuid[];  -- joined, not searched: a thousand ids in a thousand rows are a million comparisons
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
    INSERT INTO workload_list (id, created_at, moved_at, kind, project, name, submitted_by)
    SELECT u.id, now, now, u.kind, u.project, u.name, u.submitter
    FROM unnest(ids, kinds, projects, names, submitters) WITH ORDINALITY AS u(id, kind, project, name, submitter, n)
    JOIN unnest(made) AS m(id) ON m.id = u.id
    ORDER BY u.n;
    INSERT INTO workload_specs (workload_id, spec, base_spec, template_id, template_version, owner, origin, caused_by,
                                asked_cluster)
    SELECT u.id, u.spec, u.base, u.template_id, u.template_version, u.owner, u.origin, u.cause, u.cluster
    FROM unnest(ids, specs, bases, template_ids, template_versions, owners, origins, causes, clusters)
         AS u(id, spec, base, template_id, template_version, owner, origin, cause, cluster)
    JOIN unnest(made) AS m(id) ON m.id = u.id;
    PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || '.changes', 0));
    INSERT INTO changes (at, workload_id, project, name, kind, event, text, previous, phase, desired, reason_code,
                         reason_message, generation, attempt, cluster, node_pool)
    SELECT now, u.id, u.project, u.name, u.kind, 'WorkloadSubmitted', 'acknowledged', 0, 1, u.wish, '', '', 1, 0, '', ''
    FROM unnest(ids, projects, names, kinds, wishes) WITH ORDINALITY AS u(id, project, name, kind, wish, n)
    JOIN unnest(made) AS m(id) ON m.id = u.id
    ORDER BY u.n;
    RETURN made;
END $$;

-- Writes what a batch of events made of the workloads, whose rows the caller has locked. A phase in which devices are
-- held charges them: Initializing to Degraded, Updating, Terminating, Stopping, Unknown, Deleting. A deleted workload
-- keeps the phase that it had last in its list.
CREATE FUNCTION keep_progress(
    now timestamptz, ids uuid[], holds boolean[], phases smallint[], wishes smallint[], codes text[], messages text[],
    attempts integer[], places text[], pools text[], charges bigint[], verdicts smallint[], judgements bigint[],
    admission_versions bigint[], decision_versions bigint[], statuses bytea[], pod_counts integer[], starts timestamptz[],
    ends timestamptz[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE workloads w
    SET held = u.hold, ended = u.phase IN (12, 13, 15), gone = u.phase = 15, phase = u.phase, desired = u.wish,
        reason_code = u.code, reason_message = u.message, attempt = u.attempt, cluster = u.place, node_pool = u.pool,
        gpu_charge = u.charge, verdict = u.verdict, judged = u.judgement, admissions = u.admission_version,
        decisions = u.decision_version, status = coalesce(u.status, w.status), started_at = u.begun,
        finished_at = u.ended
    FROM unnest(ids, holds, phases, wishes, codes, messages, attempts, places, pools, charges, verdicts, judgements,
                admission_versions, decision_versions, statuses, starts, ends)
         AS u(id, hold, phase, wish, code, message, attempt, place, pool, charge, verdict, judgement,
              admission_version, decision_version, status, begun, ended)
    WHERE w.id = u.id;
    UPDATE workload_list l
    SET phase = CASE WHEN u.phase = 15 THEN l.phase ELSE u.phase END, gone = u.phase = 15, cluster = u.place,
        node_pool = u.pool, gpus = u.gpus, finished_at = u.finish, pods = coalesce(u.replicas, l.pods), moved_at = now,
        deleted_at = CASE WHEN u.phase <> 15 THEN '-infinity' WHEN l.gone THEN l.deleted_at ELSE now END
    FROM (
        SELECT r.id, r.phase, r.place, r.pool, r.replicas, coalesce(r.ended, '-infinity') AS finish,
               CASE WHEN r.place <> '' AND r.phase IN (3, 4, 5, 6, 7, 8, 11, 14) THEN r.charge ELSE 0 END AS gpus
        FROM unnest(ids, phases, places, pools, charges, pod_counts, ends)
             AS r(id, phase, place, pool, charge, replicas, ended)
    ) u
    -- Most events move nothing that a list shows, and every index would be written for nothing.
    WHERE l.id = u.id AND (l.gone IS DISTINCT FROM (u.phase = 15) OR (NOT l.gone AND (
        l.phase <> u.phase OR l.cluster <> u.place OR l.node_pool <> u.pool OR l.gpus <> u.gpus
        OR l.finished_at <> u.finish OR l.pods <> u.replicas)));
END $$;
