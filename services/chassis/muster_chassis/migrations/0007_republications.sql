-- What is published once more because a consumer lacks it: rows of the outbox of one topic, in their order (rule 2).
CREATE TABLE republications (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane      smallint    NOT NULL,
    topic     text        NOT NULL,
    aggregate text        NOT NULL,                 -- '' for all
    last      bigint      NOT NULL DEFAULT 0,       -- up to this row it is done
    upto      bigint      NOT NULL,                 -- the last row when it was asked for
    sent      bigint      NOT NULL DEFAULT 0,
    why       text        NOT NULL,
    at        timestamptz NOT NULL,
    done_at   timestamptz
);
CREATE INDEX republications_open ON republications (lane, id) WHERE done_at IS NULL;

-- The highest offset that Kafka has acknowledged on each partition: where a log is shorter than that, it has lost records.
CREATE TABLE acknowledged_offsets (
    lane      smallint NOT NULL,
    bus       text     NOT NULL,
    topic     text     NOT NULL,
    partition integer  NOT NULL,
    last      bigint   NOT NULL,
    PRIMARY KEY (lane, bus, topic, partition)
);
