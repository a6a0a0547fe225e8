"""Generated from protos/muster/api by `make proto`; nothing here is written by hand."""
