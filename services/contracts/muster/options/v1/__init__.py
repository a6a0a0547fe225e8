"""Generated from protos/muster/options/v1 by `make proto`; nothing here is written by hand."""
