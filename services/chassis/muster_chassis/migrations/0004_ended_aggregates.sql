-- Aggregates that are over, and since when (retention.py): first their outbox rows go, later their version numbers.
CREATE TABLE ended_aggregates (
    aggregate      text PRIMARY KEY,
    at             timestamptz NOT NULL,
    outbox_removed boolean     NOT NULL DEFAULT false
);
CREATE INDEX ended_aggregates_outbox ON ended_aggregates (at, aggregate) WHERE NOT outbox_removed;
CREATE INDEX ended_aggregates_versions ON ended_aggregates (at, aggregate) WHERE outbox_removed;

-- Up to which outbox row something was looked through.
CREATE TABLE retention_positions (
    name     text PRIMARY KEY,
    position bigint NOT NULL
);

-- Rows are removed by aggregate, and superseded ones by aggregate and topic.
CREATE INDEX outbox_superseded ON outbox (aggregate, topic, id);
DROP INDEX outbox_aggregate;
CREATE INDEX outbox_unversioned ON outbox (created) WHERE version = 0;
ALTER TABLE aggregate_versions DROP CONSTRAINT aggregate_versions_pkey, ADD PRIMARY KEY (aggregate, topic);
ALTER TABLE seen_versions DROP CONSTRAINT seen_versions_pkey, ADD PRIMARY KEY (aggregate, topic);
