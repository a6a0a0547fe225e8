"""Generated from protos/muster/workload by `make proto`; nothing here is written by hand."""
