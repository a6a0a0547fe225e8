-- The last rows of a transaction in one call, since each statement is a round trip that holds its locks longer: what its
-- consumer has seen, what is over, the outbox under its lock, and the commit row as the very last.
CREATE FUNCTION seal(
    commit_id uuid, now timestamptz, ended text[],
    seen_topics text[], seen_aggregates text[], seen_numbers bigint[],
    consumer_name text, bus_id text, offset_topics text[], offset_partitions integer[], next_offsets bigint[],
    event_ids uuid[], lanes smallint[], topics text[], aggregates text[], versioned boolean[], keys bytea[],
    types text[], extras text[], payloads bytea[], traces text[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(seen_topics) > 0 OR cardinality(offset_topics) > 0 THEN
        PERFORM settle(
            seen_topics, seen_aggregates, seen_numbers,
            consumer_name, bus_id, offset_topics, offset_partitions, next_offsets
        );
    END IF;
    IF cardinality(ended) > 0 THEN
        INSERT INTO ended_aggregates (aggregate, at) SELECT a, now FROM unnest(ended) AS a ON CONFLICT DO NOTHING;
    END IF;
    IF cardinality(event_ids) > 0 THEN
        PERFORM append_outbox(
            event_ids, lanes, topics, aggregates, versioned, keys, types, extras, payloads, traces, now
        );
    END IF;
    INSERT INTO commits (id, at) VALUES (commit_id, now);
END $$;
