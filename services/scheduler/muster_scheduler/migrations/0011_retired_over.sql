-- concurrently
-- Retired workloads that go by their age: all but those that are still to be deleted by themselves.
CREATE INDEX CONCURRENTLY retired_over ON retired (updated) WHERE delete_at IS NULL OR phase = 'Deleted';
