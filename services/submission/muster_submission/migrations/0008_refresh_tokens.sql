-- Refresh tokens, each good for one successor. A row goes when its token ends, and with its whole family when a token of
-- it is used again: a token without a row counts no more.
CREATE TABLE refresh_tokens (
    id         uuid PRIMARY KEY,                    -- the claim jti
    family     uuid        NOT NULL,                -- all that follow from one exchange of a secret
    made_at    timestamptz NOT NULL,                -- with id all that a token's claims follow from
    ends_at    timestamptz NOT NULL,
    successor  uuid,                                -- NULL: not used yet
    rotated_at timestamptz,
    CHECK ((successor IS NULL) = (rotated_at IS NULL))
);
CREATE INDEX refresh_tokens_family ON refresh_tokens (family);
CREATE INDEX refresh_tokens_ends_at ON refresh_tokens (ends_at);
