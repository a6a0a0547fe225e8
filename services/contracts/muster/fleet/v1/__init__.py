"""Generated from protos/muster/fleet/v1 by `make proto`; nothing here is written by hand."""
