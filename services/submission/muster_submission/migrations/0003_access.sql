-- Applications, bindings of roles, the audit.

-- Who has which role where. A subject or a group without an issuer is that of every issuer.
CREATE TABLE access_rules (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    holder_kind text        NOT NULL CHECK (holder_kind IN ('subject', 'group', 'application')),
    holder      text        NOT NULL COLLATE "C",
    issuer      text        NOT NULL,
    role        text        NOT NULL,
    scope_kind  text        NOT NULL CHECK (scope_kind IN ('tenant', 'cluster', 'department', 'project')),
    scope       text        NOT NULL COLLATE "C",  -- '' for the tenant
    created_at  timestamptz NOT NULL,
    created_by  text        NOT NULL,
    UNIQUE (holder_kind, holder, issuer, role, scope_kind, scope)
);

-- Programs that exchange an id and a secret for a token. One that has ended keeps its row: its id stands in the audit,
-- and the installation's first one must not come back with the next start.
CREATE TABLE applications (
    id          uuid PRIMARY KEY,
    name        text        NOT NULL COLLATE "C",
    secret      bytea       NOT NULL,              -- SHA-256 of it: it has 256 random bits, so nobody guesses it
    credential  bigint      NOT NULL DEFAULT 1,    -- the version of the secret; tokens carry it
    enabled     boolean     NOT NULL DEFAULT true,
    ended       boolean     NOT NULL DEFAULT false,
    created_at  timestamptz NOT NULL,
    created_by  text        NOT NULL,
    updated_at  timestamptz NOT NULL,
    used_at     timestamptz
);
CREATE UNIQUE INDEX applications_name ON applications (name) WHERE NOT ended;

-- The keys that sign applications' tokens: the newest signs, the one before it still verifies.
CREATE TABLE signing_keys (
    kid     uuid PRIMARY KEY,
    private bytea       NOT NULL,                  -- PKCS 8, DER
    made_at timestamptz NOT NULL
);

-- Grows with every change of what decides about calls. A row, not a sequence: nobody sees a number before its change.
CREATE TABLE access_version (
    single  boolean PRIMARY KEY DEFAULT true CHECK (single),
    version bigint NOT NULL
);
INSERT INTO access_version (version) VALUES (1);

CREATE FUNCTION raise_access_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE access_version SET version = version + 1;
    RETURN NULL;
END $$;
CREATE TRIGGER access_rules_changed AFTER INSERT OR UPDATE OR DELETE ON access_rules
    FOR EACH STATEMENT EXECUTE FUNCTION raise_access_version();
CREATE TRIGGER applications_changed AFTER INSERT OR DELETE OR UPDATE OF credential, enabled, ended ON applications
    FOR EACH STATEMENT EXECUTE FUNCTION raise_access_version();
CREATE TRIGGER signing_keys_changed AFTER INSERT OR DELETE ON signing_keys
    FOR EACH STATEMENT EXECUTE FUNCTION raise_access_version();
-- A department's admin has the projects in it: which those are decides too.
CREATE TRIGGER projects_changed AFTER INSERT OR UPDATE OR DELETE ON projects
    FOR EACH STATEMENT EXECUTE FUNCTION raise_access_version();

-- What was asked and what came of it. Append-only: the service's own role loses the rest, and the trigger holds even
-- for one that takes it back.
CREATE TABLE audit (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL,
    issuer     text        NOT NULL,
    subject    text        NOT NULL,
    verb       text        NOT NULL,               -- such as workloads.create
    target     text        NOT NULL,               -- what it was about: KIND/NAME or an id
    project    text        NOT NULL,               -- '': of no project
    outcome    text        NOT NULL,               -- done, or the code of the refusal
    channel    text        NOT NULL,               -- grpc, rest, kubernetes or trigger
    peer       text        NOT NULL,
    detail     text        NOT NULL
);
CREATE INDEX audit_at ON audit USING brin (at);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit is append-only' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
REVOKE ALL ON audit FROM PUBLIC;
REVOKE ALL ON audit FROM CURRENT_USER;
GRANT INSERT, SELECT ON audit TO CURRENT_USER;
