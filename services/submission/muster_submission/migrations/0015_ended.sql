-- concurrently
-- What is over, in the order in which it is archived. No event on a workload that goes on touches it.
CREATE INDEX CONCURRENTLY workloads_ended ON workloads ((coalesce(finished_at, created_at))) WHERE ended;
-- Applied documents by the workload that they mean: they go with it.
CREATE INDEX CONCURRENTLY applied_workload ON applied (workload_id);
