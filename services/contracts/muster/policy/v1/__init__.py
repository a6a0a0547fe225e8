"""Generated from protos/muster/policy/v1 by `make proto`; nothing here is written by hand."""
