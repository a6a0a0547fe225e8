-- Topics that cannot be sent to while the rest of their lane goes on: each waits alone, at its own position (rule 2).
CREATE TABLE relay_lanes (
    lane  smallint NOT NULL,
    bus   text     NOT NULL,
    topic text     NOT NULL,
    last  bigint   NOT NULL,                       -- the last row of this topic that Kafka has acknowledged, or before it
    PRIMARY KEY (lane, bus, topic)
);
