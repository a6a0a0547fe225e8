-- The chassis's own tables, in the schema of each service that has a database.

-- What this service publishes, in commit order: rows are inserted only by append_outbox, under its lock (rule 2).
CREATE TABLE outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane       smallint    NOT NULL,               -- which producer sends it: 0 ordinary, 1 assignments
    event_id   uuid        NOT NULL,
    topic      text        NOT NULL,
    aggregate  text        NOT NULL,
    version    bigint      NOT NULL,               -- 0: not versioned
    key        bytea,
    type       text        NOT NULL,
    headers    text,                               -- a JSON object of further headers
    value      bytea,                              -- NULL: a tombstone
    trace      text,
    created    timestamptz NOT NULL
);
CREATE INDEX outbox_lane ON outbox (lane, id);
CREATE INDEX outbox_aggregate ON outbox (aggregate);

-- The last version given to an aggregate on a topic. Outlives the outbox rows, so that numbers never start anew.
CREATE TABLE aggregate_versions (
    topic     text   NOT NULL,
    aggregate text   NOT NULL,
    version   bigint NOT NULL,
    PRIMARY KEY (topic, aggregate)
);

-- How far each lane is published on the bus with that cluster id. Written now and then: sending a row twice is harmless.
CREATE TABLE relay_positions (
    lane smallint NOT NULL,
    bus  text     NOT NULL,
    last bigint   NOT NULL,
    PRIMARY KEY (lane, bus)
);

-- The random last row of every transaction: it answers whether a commit without an answer happened (rule 9).
CREATE TABLE commits (
    id uuid PRIMARY KEY,
    at timestamptz NOT NULL
);
CREATE INDEX commits_at ON commits (at);

-- Which records were taken in, and what became of them: done, parked or dead.
CREATE TABLE inbox (
    event_id uuid PRIMARY KEY,
    outcome  text        NOT NULL CHECK (outcome IN ('done', 'parked')),
    at       timestamptz NOT NULL
);
CREATE INDEX inbox_at ON inbox (at);

-- The last version of an aggregate that this service has taken in from a topic.
CREATE TABLE seen_versions (
    topic     text   NOT NULL,
    aggregate text   NOT NULL,
    version   bigint NOT NULL,
    PRIMARY KEY (topic, aggregate)
);

-- Records that wait: rejected ones, what came behind them, and what came before its predecessor.
CREATE TABLE parked (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id      uuid        NOT NULL UNIQUE,     -- the inbox key
    why           text        NOT NULL CHECK (why IN ('rejected', 'behind', 'gap')),
    topic         text        NOT NULL,
    partition     integer     NOT NULL,
    record_offset bigint      NOT NULL,
    stamp         bigint      NOT NULL,            -- Kafka's timestamp, milliseconds since 1970
    key           bytea,
    value         bytea,
    headers       bytea       NOT NULL,
    aggregate     text        NOT NULL,            -- '' where none could be read: nothing waits behind such a one
    version       bigint      NOT NULL,
    reason        text        NOT NULL,
    attempts      integer     NOT NULL,
    trace         text,
    at            timestamptz NOT NULL,
    asked         boolean     NOT NULL DEFAULT false,  -- a redrive was asked for
    done_at       timestamptz                          -- handled since; kept a while to be shown
);
CREATE INDEX parked_aggregate ON parked (topic, aggregate, version, id) WHERE done_at IS NULL;
CREATE INDEX parked_asked ON parked (id) WHERE asked;
CREATE INDEX parked_done ON parked (done_at) WHERE done_at IS NOT NULL;

-- Offsets of consumers that assign partitions themselves; valid only on the bus with that cluster id.
CREATE TABLE consumer_offsets (
    consumer    text    NOT NULL,
    topic       text    NOT NULL,
    partition   integer NOT NULL,
    bus         text    NOT NULL,
    next_offset bigint  NOT NULL,
    PRIMARY KEY (consumer, topic, partition)
);

-- Topics of which too much was rejected: their consumer stops until someone resumes it (rule 11).
CREATE TABLE breakers (
    topic  text PRIMARY KEY,
    reason text        NOT NULL,
    at     timestamptz NOT NULL
);

-- Which Kafka this service last spoke to (rule 8). One row.
CREATE TABLE bus_identity (
    single     boolean PRIMARY KEY DEFAULT true CHECK (single),
    cluster_id text        NOT NULL,
    since      timestamptz NOT NULL
);

-- Answers of mutating calls, for 24 hours (rule 4).
CREATE TABLE idempotency (
    caller   text        NOT NULL,
    method   text        NOT NULL,
    key      text        NOT NULL,
    body     bytea       NOT NULL,                 -- SHA-256 of the request
    response bytea,
    at       timestamptz NOT NULL,
    PRIMARY KEY (caller, method, key)
);
CREATE INDEX idempotency_at ON idempotency (at);

-- Who leads (rule 5). Only a takeover changes lease_epoch; renewing touches the other row, so that it never waits for
-- the leader's own transactions, which hold the epoch row FOR SHARE.
CREATE TABLE lease_epoch (
    name  text PRIMARY KEY,
    epoch bigint NOT NULL
);
CREATE TABLE lease_renewal (
    name    text PRIMARY KEY,
    holder  text        NOT NULL,
    epoch   bigint      NOT NULL,
    expires timestamptz NOT NULL
);

-- Numbers versions and inserts outbox rows, in commit order. Must be the last thing of its transaction but the commit
-- row: the lock is held until the commit. Each statement in here sees what was committed before the lock was given.
CREATE FUNCTION append_outbox(
    ids uuid[], lanes smallint[], topics text[], aggregates text[], versioned boolean[], keys bytea[], types text[],
    extras text[], payloads bytea[], traces text[], now timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || '.outbox', 0));
    WITH staged AS (
        SELECT * FROM unnest(ids, lanes, topics, aggregates, versioned, keys, types, extras, payloads, traces)
            WITH ORDINALITY AS s(event_id, lane, topic, aggregate, versioned, key, type, headers, value, trace, ordinal)
    ), counted AS (
        INSERT INTO aggregate_versions AS v (topic, aggregate, version)
        SELECT s.topic, s.aggregate, count(*) FROM staged s WHERE s.versioned GROUP BY s.topic, s.aggregate
        ON CONFLICT (topic, aggregate) DO UPDATE SET version = v.version + excluded.version
        RETURNING v.topic, v.aggregate, v.version
    ), numbered AS (
        SELECT s.*, row_number() OVER (PARTITION BY s.topic, s.aggregate, s.versioned ORDER BY s.ordinal DESC) - 1
            AS later FROM staged s
    )
    INSERT INTO outbox (lane, event_id, topic, aggregate, version, key, type, headers, value, trace, created)
    SELECT n.lane, n.event_id, n.topic, n.aggregate, CASE WHEN n.versioned THEN c.version - n.later ELSE 0 END,
           n.key, n.type, n.headers, n.value, n.trace, now
    FROM numbered n LEFT JOIN counted c ON c.topic = n.topic AND c.aggregate = n.aggregate
    ORDER BY n.ordinal;
END $$;

-- Takes records in: which of them are new, how far each aggregate is, and which aggregates have something parked.
-- Two statements on purpose: the insert may wait for another consumer of the same partition, and the versions must be
-- read after that, or its records would look like a gap.
CREATE FUNCTION admit(ids uuid[], topics text[], aggregates text[], now timestamptz)
RETURNS TABLE (kind text, event_id uuid, topic text, aggregate text, version bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        INSERT INTO inbox AS i (event_id, outcome, at) SELECT r.id, 'done', now FROM unnest(ids) AS r(id)
        ON CONFLICT DO NOTHING
        RETURNING 'new', i.event_id, NULL::text, NULL::text, NULL::bigint;
    RETURN QUERY
        SELECT 'seen', NULL::uuid, s.topic, s.aggregate, s.version
        FROM unnest(topics, aggregates) AS w(topic, aggregate)
        JOIN seen_versions s ON s.topic = w.topic AND s.aggregate = w.aggregate;
    RETURN QUERY
        SELECT p.why, NULL::uuid, p.topic, p.aggregate, min(p.version)
        FROM unnest(topics, aggregates) AS w(topic, aggregate)
        JOIN parked p ON p.topic = w.topic AND p.aggregate = w.aggregate AND p.done_at IS NULL
        GROUP BY p.why, p.topic, p.aggregate;
END $$;

-- What a consumer writes beside its handler: the versions that it has now seen, and its offsets.
CREATE FUNCTION settle(
    seen_topics text[], seen_aggregates text[], seen_numbers bigint[],
    consumer_name text, bus_id text, offset_topics text[], offset_partitions integer[], next_offsets bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO seen_versions AS s (topic, aggregate, version)
    SELECT * FROM unnest(seen_topics, seen_aggregates, seen_numbers)
    ON CONFLICT (topic, aggregate) DO UPDATE SET version = excluded.version WHERE s.version < excluded.version;
    IF cardinality(offset_topics) > 0 THEN
        INSERT INTO consumer_offsets AS o (consumer, topic, partition, bus, next_offset)
        SELECT consumer_name, t, p, bus_id, n FROM unnest(offset_topics, offset_partitions, next_offsets) AS u(t, p, n)
        ON CONFLICT (consumer, topic, partition) DO UPDATE SET bus = excluded.bus, next_offset = excluded.next_offset;
    END IF;
END $$;
