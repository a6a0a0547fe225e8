"""Generated from protos/muster/policy by `make proto`; nothing here is written by hand."""
