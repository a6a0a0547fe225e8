-- concurrently
-- The accounts in the order in which they are removed.
CREATE INDEX CONCURRENTLY accounts_until ON accounts (until) WHERE NOT changed;
