-- concurrently
-- Retired workloads go by their age.
CREATE INDEX CONCURRENTLY retired_over ON retired (updated);
