-- Deleted workloads by the cluster that they ran in: filters and orders by clusterId look for its name among them too,
-- and a cluster whose workloads are all deleted has it nowhere else.
CREATE INDEX list_gone_cluster ON workload_list (cluster, id) WHERE gone;
