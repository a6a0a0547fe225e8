"""Generated from protos/muster/fleet by `make proto`; nothing here is written by hand."""
