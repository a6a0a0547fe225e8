"""Generated from protos/muster by `make proto`; nothing here is written by hand."""
