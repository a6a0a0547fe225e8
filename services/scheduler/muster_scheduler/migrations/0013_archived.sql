-- When the scheduler read that submission has archived a workload; NULL: not yet. And when the version numbers of one
-- that is not archived were last kept longer (adapters/retired.py).
ALTER TABLE workloads ADD COLUMN archived timestamptz;
ALTER TABLE retired ADD COLUMN archived timestamptz;
ALTER TABLE retired ADD COLUMN renewed timestamptz;
