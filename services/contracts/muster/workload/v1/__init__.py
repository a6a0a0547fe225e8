"""Generated from protos/muster/workload/v1 by `make proto`; nothing here is written by hand."""
