-- The chassis knows since when a workload is over.
INSERT INTO ended_aggregates (aggregate, at)
SELECT id::text, coalesce(finished_at, now()) FROM workloads WHERE gone
ON CONFLICT DO NOTHING;
DROP INDEX workloads_gone;
