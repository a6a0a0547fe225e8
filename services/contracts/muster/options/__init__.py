"""Generated from protos/muster/options by `make proto`; nothing here is written by hand."""
