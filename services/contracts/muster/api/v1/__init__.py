"""Generated from protos/muster/api/v1 by `make proto`; nothing here is written by hand."""
