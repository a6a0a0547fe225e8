"""Generated from protos/muster/events by `make proto`; nothing here is written by hand."""
