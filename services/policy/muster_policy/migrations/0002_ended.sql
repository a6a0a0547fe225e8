-- The chassis knows since when a workload is over.
INSERT INTO ended_aggregates (aggregate, at)
SELECT workload_id::text, min(deleted_at) FROM verdicts WHERE deleted_at IS NOT NULL GROUP BY workload_id
ON CONFLICT DO NOTHING;
ALTER TABLE verdicts DROP COLUMN deleted_at;
