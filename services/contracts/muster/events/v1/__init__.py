"""Generated from protos/muster/events/v1 by `make proto`; nothing here is written by hand."""
