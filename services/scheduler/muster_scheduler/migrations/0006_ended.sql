-- The chassis knows since when a workload is over.
INSERT INTO ended_aggregates (aggregate, at) SELECT id::text, updated FROM workloads WHERE phase = 'Deleted'
ON CONFLICT DO NOTHING;
DROP INDEX workloads_deleted;
