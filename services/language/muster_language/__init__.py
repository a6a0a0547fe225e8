"""The workload language, derived from the proto options; no I/O here."""
