-- JSON: the fields of a request that its body does not have, by name (adapters/workload_rows.py). Empty: none of them.
ALTER TABLE requests ADD COLUMN added text NOT NULL DEFAULT '';
ALTER TABLE retired ADD COLUMN added text NOT NULL DEFAULT '';
