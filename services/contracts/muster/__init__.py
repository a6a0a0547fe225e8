"""Generated from protos/ by `make proto`; nothing here is written by hand."""
