-- concurrently
-- Retired workloads go by the time of their archiving; those without one are looked through.
CREATE INDEX CONCURRENTLY retired_archived ON retired (archived) WHERE archived IS NOT NULL;
CREATE INDEX CONCURRENTLY retired_unarchived ON retired ((coalesce(renewed, updated))) WHERE archived IS NULL;
