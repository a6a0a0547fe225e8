-- How a stopped topic goes on: so many records, or all until it is quiet, pass without stopping its consumer (rule 11).
CREATE TABLE resumptions (
    topic    text PRIMARY KEY,
    allowed  bigint,                                -- records that may pass; NULL: until the topic is quiet
    passed   bigint      NOT NULL DEFAULT 0,        -- records taken in since, by all instances together
    rejected bigint      NOT NULL DEFAULT 0,        -- of these, how many became dead letters
    done     boolean     NOT NULL DEFAULT false,
    began    timestamptz NOT NULL,
    last     timestamptz NOT NULL                   -- when `passed` grew last
);
