"""Generated from protos/muster/tenancy/v1 by `make proto`; nothing here is written by hand."""
