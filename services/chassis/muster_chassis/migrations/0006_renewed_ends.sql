-- As `seal`, but that an aggregate which ends once more (Completed, later Deleted) is kept from its last end on.
CREATE FUNCTION seal_unit(
    commit_id uuid, now timestamptz, ended text[],
    seen_topics text[], seen_aggregates text[], seen_numbers bigint[],
    consumer_name text, bus_id text, offset_topics text[], offset_partitions integer[], next_offsets bigint[],
    event_ids uuid[], lanes smallint[], topics text[], aggregates text[], versioned boolean[], keys bytea[],
    types text[], extras text[], payloads bytea[], traces text[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(ended) > 0 THEN
        INSERT INTO ended_aggregates AS e (aggregate, at) SELECT a, now FROM unnest(ended) AS a ORDER BY a
        ON CONFLICT (aggregate) DO UPDATE SET at = excluded.at, outbox_removed = false WHERE e.at < excluded.at;
    END IF;
    PERFORM seal(
        commit_id, now, '{}',
        seen_topics, seen_aggregates, seen_numbers,
        consumer_name, bus_id, offset_topics, offset_partitions, next_offsets,
        event_ids, lanes, topics, aggregates, versioned, keys,
        types, extras, payloads, traces
    );
END $$;
