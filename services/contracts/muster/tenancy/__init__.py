"""Generated from protos/muster/tenancy by `make proto`; nothing here is written by hand."""
