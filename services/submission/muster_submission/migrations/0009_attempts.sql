-- Whom a reason is about, and which attempt an entry of the history belongs to. A text never names a workload of another
-- project: it says "another workload", and the name is filled in for each reader who may know it.
ALTER TABLE workloads ADD COLUMN reason_other uuid;         -- the workload that reason_message is about
ALTER TABLE changes ADD COLUMN other uuid;                  -- the workload that text and reason_message are about
ALTER TABLE workload_history ADD COLUMN attempt integer NOT NULL DEFAULT 0;  -- 0: before the first place
ALTER TABLE workload_history ADD COLUMN other uuid;

DROP FUNCTION log_changes(timestamptz, uuid[], text[], text[], smallint[], smallint[], smallint[], text[], text[],
                          bigint[], integer[], text[], text[]);

-- Appends to the log of changes and to the histories. The lock is held until the commit, so that whoever reads
-- `seq > last` misses nothing.
CREATE FUNCTION log_changes(
    now timestamptz, ids uuid[], events text[], texts text[], before smallint[], phases smallint[], wishes smallint[],
    codes text[], messages text[], others uuid[], moments timestamptz[], generations bigint[], attempts integer[],
    places text[], pools text[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO workload_history (workload_id, at, event, text, previous, phase, reason_code, cluster, attempt, other)
    SELECT u.id, u.moment, u.event, u.text, u.before, u.phase, u.code, u.place, u.attempt, u.other
    FROM unnest(ids, moments, events, texts, before, phases, codes, places, attempts, others)
         WITH ORDINALITY AS u(id, moment, event, text, before, phase, code, place, attempt, other, n)
    ORDER BY u.n;
    PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || '.changes', 0));
    INSERT INTO changes (at, workload_id, project, name, kind, event, text, previous, phase, desired, reason_code,
                         reason_message, generation, attempt, cluster, node_pool, other)
    SELECT now, u.id, w.project, w.name, w.kind, u.event, u.text, u.before, u.phase, u.wish, u.code, u.message,
           u.generation, u.attempt, u.place, u.pool, u.other
    FROM unnest(ids, events, texts, before, phases, wishes, codes, messages, generations, attempts, places, pools,
                others)
         WITH ORDINALITY AS u(id, event, text, before, phase, wish, code, message, generation, attempt, place, pool,
                              other, n)
    JOIN workloads w ON w.id = u.id
    ORDER BY u.n;
END $$;


DROP FUNCTION keep_progress(timestamptz, uuid[], boolean[], smallint[], smallint[], text[], text[], integer[], text[],
                            text[], bigint[], smallint[], bigint[], bigint[], bigint[], bytea[], integer[], timestamptz[],
                            timestamptz[]);

-- Writes what a batch of events made of the workloads, whose rows the caller has locked. A phase in which devices are
-- held charges them: Initializing to Degraded, Updating, Terminating, Stopping, Unknown, Deleting. A deleted workload
-- keeps the phase that it had last in its list.
CREATE FUNCTION keep_progress(
    now timestamptz, ids uuid[], holds boolean[], phases smallint[], wishes smallint[], codes text[], messages text[],
    others uuid[], attempts integer[], places text[], pools text[], charges bigint[], verdicts smallint[],
    judgements bigint[], admission_versions bigint[], decision_versions bigint[], statuses bytea[], pod_counts integer[], starts timestamptz[],
    ends timestamptz[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE workloads w
    SET held = u.hold, ended = u.phase IN (12, 13, 15), gone = u.phase = 15, phase = u.phase, desired = u.wish,
        reason_code = u.code, reason_message = u.message, reason_other = u.other, attempt = u.attempt,
        cluster = u.place, node_pool = u.pool, gpu_charge = u.charge, verdict = u.verdict, judged = u.judgement, admissions = u.admission_version,
        decisions = u.decision_version, status = coalesce(u.status, w.status), started_at = u.begun,
        finished_at = u.ended
    FROM unnest(ids, holds, phases, wishes, codes, messages, others, attempts, places, pools, charges, verdicts,
                judgements, admission_versions, decision_versions, statuses, starts, ends)
         AS u(id, hold, phase, wish, code, message, other, attempt, place, pool, charge, verdict, judgement,
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
