-- Telemetry removes the account of a workload that has not used devices for two weeks, and begins a new one when it does.
-- gpu_seconds has both: what the account that telemetry has now says, and what the ones before it said.
ALTER TABLE usage ADD COLUMN earlier double precision NOT NULL DEFAULT 0;
